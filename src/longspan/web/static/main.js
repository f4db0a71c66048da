// The page: documents in, questions out, answers shown in the text.

import * as api from "./api.js";
import { answerList, readingFacts, spokenAnswers } from "./answers.js";
import { clearComplaint, complain, say } from "./notices.js";
import { count, node, percent } from "./nodes.js";
import { Line, drawStrip, placeButtons, showSight } from "./strip.js";
import { TextPane } from "./text_pane.js";
import { setTokens, startWindows } from "./windows_panel.js";

const byId = (id) => document.getElementById(id);
const pane = new TextPane(byId("text"));
const texts = new Map(); // id -> text, of documents that were shown or read
let facts = null; // what the server says about itself
let documents = []; // {id, name, characters, tokens}
let shown = null; // the id of the document in the pane
let reading = null; // the newest one, with its line
let chosen = 0; // the number of the answer that was gone to last
let running = null; // the controller of what runs

async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    if (error.name === "AbortError") {
      say("Cancelled.");
    } else if (error.status === 401) {
      api.forgetSession();
      await reset();
      complain("The server has forgotten this page's documents: it was restarted, or they were not used for long.");
    } else {
      complain(error.message);
    }
    return null;
  }
}

async function reset() {
  texts.clear();
  reading = null;
  documents = await api.listDocuments();
  await show(documents[0]?.id ?? null);
}

// Documents

function drawDocuments() {
  const items = documents.map((one) =>
    node(
      "li",
      { class: one.id === shown ? "shown" : false },
      node(
        "button",
        {
          type: "button",
          class: "document",
          "aria-current": one.id === shown ? "true" : false,
          onclick: () => attempt(() => show(one.id)),
        },
        node("span", { class: "name" }, one.name),
        node("span", { class: "hint" }, `${count(one.tokens)} tokens`),
      ),
      node(
        "button",
        { type: "button", class: "remove", "aria-label": `Remove ${one.name}`, onclick: () => attempt(() => remove(one)) },
        "×",
      ),
    ),
  );
  byId("documents").replaceChildren(...items);
  byId("no-documents").hidden = documents.length > 0;
  const tokens = documents.reduce((sum, one) => sum + one.tokens, 0);
  if (tokens) setTokens(tokens);
}

async function textOf(id) {
  if (!texts.has(id)) texts.set(id, (await api.getDocument(id)).text);
  return texts.get(id);
}

async function show(id) {
  const one = documents.find((other) => other.id === id);
  const text = one ? await textOf(id) : "";
  shown = one ? id : null;
  byId("empty").hidden = Boolean(one);
  byId("text").hidden = byId("text-head").hidden = !one;
  byId("text-title").textContent = one ? one.name : "Text";
  byId("text-facts").textContent = one ? `${count(one.characters)} characters, ${count(one.tokens)} tokens` : "";
  pane.show(text);
  drawDocuments();
  drawReading();
}

async function add(name, content) {
  clearComplaint();
  say(`Adding ${name} …`);
  byId("add-files").setAttribute("aria-busy", "true");
  const one = await attempt(() => api.addDocument(name, content));
  byId("add-files").removeAttribute("aria-busy");
  if (one) await added(one);
  return one !== null;
}

async function added(one) {
  documents.push(one);
  reading = null;
  await attempt(() => show(one.id));
  say(`${one.name} was added: ${count(one.tokens)} tokens.`);
}

async function addFiles(files) {
  for (const file of files) {
    if (file.size > facts.max_upload_bytes) {
      complain(`${file.name} is too large: at most ${Math.floor(facts.max_upload_bytes / 2 ** 20)} MB are taken.`);
    } else {
      await add(file.name, file);
    }
  }
}

async function remove(one) {
  await api.removeDocument(one.id);
  documents = documents.filter((other) => other.id !== one.id);
  texts.delete(one.id);
  reading = null;
  await show(shown === one.id ? (documents[0]?.id ?? null) : shown);
  say(`${one.name} was removed.`);
  byId("add-files").focus();
}

function startDocuments() {
  byId("add-files").addEventListener("click", () => byId("files").click());
  byId("files").addEventListener("change", async () => {
    await addFiles([...byId("files").files]);
    byId("files").value = "";
  });
  byId("files").accept = facts.endings.join(",");
  byId("kinds").textContent =
    `Text, Markdown, HTML, Word, EPUB or PDF, up to ${Math.floor(facts.max_upload_bytes / 2 ** 20)} MB ` +
    `and ${count(facts.max_tokens)} tokens. Or add files, or paste.`;
  const togglePaste = (open) => {
    byId("paste-form").hidden = !open;
    byId("paste").setAttribute("aria-expanded", String(open));
    byId(open ? "paste-text" : "paste").focus();
  };
  byId("paste").addEventListener("click", () => togglePaste(byId("paste-form").hidden));
  byId("paste-close").addEventListener("click", () => togglePaste(false));
  byId("paste-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = byId("paste-text").value;
    const first = text.trim().split("\n")[0].replaceAll(/[/\\.]/g, " ").slice(0, 40).trim();
    if (await add(`${first || "Pasted text"}.txt`, new Blob([text]))) {
      byId("paste-text").value = "";
      togglePaste(false);
    }
  });
  byId("samples").append(
    ...facts.samples.map((name) =>
      node("button", { type: "button", onclick: () => openSample(name) }, facts.samples.length > 1 ? name : "Sample book"),
    ),
  );
  startDropping();
}

async function openSample(name) {
  clearComplaint();
  say(`Opening ${name} …`);
  const one = await attempt(() => api.openSample(name));
  if (one) await added(one);
}

function startDropping() {
  let depth = 0; // entering a child comes before leaving its parent
  const drop = byId("drop");
  addEventListener("dragenter", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    depth += 1;
    drop.hidden = false;
  });
  addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    drop.hidden = depth === 0;
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    drop.hidden = true;
    addFiles([...event.dataTransfer.files]);
  });
}

// Questions

async function ask(window) {
  const question = byId("question").value.trim();
  if (!question || documents.length === 0) {
    complain(question ? "There is no document yet: add one first." : "The question is empty: type one first.");
    if (!question) byId("question").focus();
    return null;
  }
  clearComplaint();
  running?.abort();
  const mine = (running = new AbortController());
  byId("progress").hidden = false;
  showProgress("Asking …", null);
  const asked = { question, documents: documents.map((one) => one.id), window };
  const answer = await attempt(() => api.ask(asked, mine.signal, tellProgress));
  if (running === mine) {
    running = null;
    byId("progress").hidden = true;
  }
  if (answer === null) return null;
  for (const id of answer.documents) await textOf(id);
  return answer;
}

function tellProgress(event) {
  if (event.name === "queued") {
    const before = event.data.position;
    const text = before === 0 ? "Next in the queue" : `In the queue, ${before} before this one`;
    showProgress(text, null);
    if (before > 0) say(text);
  } else if (event.name === "progress") {
    if (event.data.fraction === 0) say("Reading.");
    const tokens = documents.reduce((sum, one) => sum + one.tokens, 0);
    showProgress(`Reading ${count(tokens)} tokens: ${percent(event.data.fraction)}`, event.data.fraction);
  }
}

function showProgress(text, fraction) {
  byId("progress-text").textContent = text;
  if (fraction === null) byId("progress-bar").removeAttribute("value");
  else byId("progress-bar").value = fraction;
}

function drawReading() {
  byId("answers-card").hidden = reading === null;
  byId("strip").hidden = reading === null || reading.attention.length === 0;
  chosen = 0;
  if (reading === null) {
    pane.mark([]);
    return;
  }
  pane.mark(numbered(reading).filter((answer) => answer.document === shown));
  const names = new Map(documents.map((one) => [one.id, one.name]));
  byId("answers").replaceChildren(
    answerList(reading, documents.length > 1 ? names : new Map(), sentenceOf, goToAnswer),
    node("p", { class: "hint" }, readingFacts(reading)),
  );
  byId("strip-picture").replaceChildren(drawStrip(reading, reading.line, goToShare));
  byId("strip-places").replaceChildren(...placeButtons(reading, goToShare));
  showInSight();
}

function numbered(one) {
  return one.answers.map((answer, at) => ({ ...answer, number: at + 1 }));
}

function sentenceOf(answer) {
  return texts.get(answer.document)?.slice(answer.sentence_start, answer.sentence_end) ?? null;
}

function withLine(answer) {
  const parts = answer.documents.map((id) => ({ id, length: texts.get(id).length }));
  return { ...answer, line: new Line(parts) };
}

async function goToAnswer(number) {
  const answer = reading?.answers[number - 1];
  if (!answer) return;
  if (answer.document !== shown) await attempt(() => show(answer.document));
  chosen = number;
  for (const button of byId("answers").querySelectorAll(".answer")) {
    button.setAttribute("aria-current", String(button.dataset.answer === String(number)));
  }
  pane.goToAnswer(number);
}

async function goToShare(share) {
  const { id, place } = reading.line.at(share);
  if (id !== shown) await attempt(() => show(id));
  pane.goTo(place);
}

function showInSight() {
  const picture = byId("strip-picture").firstElementChild;
  if (reading === null || picture === null || shown === null) return;
  const length = texts.get(shown).length;
  const [first, last] = pane.inSight().map((share) => reading.line.share(shown, share * length));
  showSight(picture, first, last);
}

async function askAndShow() {
  const answer = await ask(null);
  if (answer === null) return;
  reading = withLine(answer);
  drawReading();
  say(spokenAnswers(reading));
  await goToAnswer(1);
}

function startQuestions() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    askAndShow();
  });
  byId("question").maxLength = facts.max_question_characters;
  byId("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      askAndShow();
    }
  });
  byId("cancel").addEventListener("click", () => running?.abort());
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") running?.abort();
  });
  byId("text").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || reading === null) return;
    const step = { n: 1, p: -1 }[event.key];
    const all = reading.answers.length;
    if (step && all) goToAnswer(((Math.max(chosen, 0) - 1 + step + all) % all) + 1);
  });
  let due = false;
  byId("text").addEventListener("scroll", () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      showInSight();
    });
  });
}

// Windows, compared

function startComparing() {
  byId("compare").hidden = facts.windows.length < 2;
  for (const [id, at] of [["compare-first", 0], ["compare-second", facts.windows.length - 1]]) {
    byId(id).append(...facts.windows.map((size) => new Option(`window ${size}`, size)));
    byId(id).selectedIndex = at;
  }
  byId("compare-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const columns = [];
    for (const id of ["compare-first", "compare-second"]) {
      const answer = await ask(Number(byId(id).value));
      if (answer === null) return;
      columns.push(column(withLine(answer)));
    }
    byId("compare-results").replaceChildren(...columns);
    say("Both windows have answered.");
  });
}

function column(answer) {
  const go = (number) => {
    reading = answer;
    drawReading();
    goToAnswer(number);
  };
  const names = new Map(documents.map((one) => [one.id, one.name]));
  return node(
    "div",
    { class: "column" },
    node("h4", {}, `Window ${answer.window}`),
    drawStrip(answer, answer.line, () => go(1)),
    answerList(answer, documents.length > 1 ? names : new Map(), sentenceOf, go),
    node("p", { class: "hint" }, readingFacts(answer)),
  );
}

facts = await attempt(api.about);
if (facts !== null) {
  const window = facts.window === null ? "" : ` · window ${facts.window}`;
  byId("model").textContent = `${facts.model}${window}`;
  startDocuments();
  startQuestions();
  startComparing();
  startWindows(facts.windows);
  await attempt(reset);
}
