// The server, as functions. The session's token lives in this tab: a reload keeps it, another tab has its own.

const KEY = "longspan-session";

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function session() {
  let token = sessionStorage.getItem(KEY);
  if (token === null) {
    token = (await (await answered("/api/sessions", { method: "POST" })).json()).session;
    sessionStorage.setItem(KEY, token);
  }
  return token;
}

/** Forgets the session, so that the next request opens one. */
export function forgetSession() {
  sessionStorage.removeItem(KEY);
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "The server does not answer. Is it still running?");
  }
  if (response.ok) return response;
  let message = `The server answered ${response.status}.`;
  try {
    message = (await response.json()).error;
  } catch {
    // No JSON: the number must do.
  }
  throw new ServerError(response.status, message);
}

async function send(method, path, options = {}) {
  return answered(path, { method, headers: { "X-Longspan-Session": await session() }, ...options });
}

export async function about() {
  return (await send("GET", "/api/about")).json();
}

export async function listDocuments() {
  return (await send("GET", "/api/documents")).json();
}

export async function addDocument(name, content, signal) {
  return (await send("POST", `/api/documents?${new URLSearchParams({ name })}`, { body: content, signal })).json();
}

export async function openSample(name, signal) {
  return (await send("POST", `/api/samples?${new URLSearchParams({ name })}`, { signal })).json();
}

export async function getDocument(id) {
  return (await send("GET", `/api/documents/${encodeURIComponent(id)}`)).json();
}

export async function removeDocument(id) {
  await send("DELETE", `/api/documents/${encodeURIComponent(id)}`);
}

export async function pattern(settings) {
  return (await send("GET", `/api/pattern?${new URLSearchParams(settings)}`)).json();
}

export async function cost(settings) {
  return (await send("GET", `/api/cost?${new URLSearchParams(settings)}`)).json();
}

/** Asks, and calls back with each event; gives the answer. Aborting cancels the work. */
export async function ask(asked, signal, tell) {
  const response = await send("POST", "/api/readings", { body: JSON.stringify(asked), signal });
  let answer = null;
  try {
    for await (const event of events(response.body)) {
      if (event.name === "error") throw new ServerError(200, event.data.message);
      if (event.name === "answer") answer = event.data;
      tell(event);
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  // The stream broke off, or ended without a word.
  if (answer === null) throw new ServerError(0, "The server stopped answering. Is it still running?");
  return answer;
}

/** Server-sent events of a body: blocks between blank lines. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.event) yield { name: fields.event, data: JSON.parse(fields.data) };
    }
  }
}
