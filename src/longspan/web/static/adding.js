// Ways to bring a document: files chosen or dropped, text typed or pasted, samples of the server.
//
// Each becomes an item {name, send}: `send` gets a signal to stop by, and gives the document.

import * as api from "./api.js";
import { node } from "./nodes.js";

const NAME = 40; // characters of a pasted text that name it

const byId = (id) => document.getElementById(id);
const megabytes = (bytes) => `${Math.floor(bytes / 2 ** 20)} MB`;

/** Begins to listen; `add` is called with items. */
export function startAdding(facts, add) {
  const addFiles = (files) => add([...files].map((file) => fileItem(file, facts.max_upload_bytes)));
  byId("kinds").textContent =
    `Text, Markdown, HTML, Word, EPUB or PDF; a file up to ${megabytes(facts.max_upload_bytes)}, ` +
    `${facts.max_tokens.toLocaleString("en")} tokens in all.`;
  for (const id of ["add-files", "start-files"]) {
    byId(id).addEventListener("click", () => byId("files").click());
  }
  byId("files").accept = facts.endings.join(",");
  byId("files").addEventListener("change", () => {
    const files = [...byId("files").files];
    byId("files").value = "";
    addFiles(files);
  });
  startPasting(add, addFiles);
  startDropping(addFiles);
}

/** Buttons that open samples, for those that are not `open` yet. */
export function sampleButtons(samples, open, label, add) {
  const others = samples.filter(({ title }) => !open.includes(title));
  return others.map(({ title }) => {
    const send = (signal) => api.openSample(title, signal);
    return node("button", { type: "button", onclick: () => add([{ name: title, send }]) }, label(title));
  });
}

function fileItem(file, most) {
  const send = async (signal) => {
    if (file.size > most) throw new Error(`${file.name} is too large: at most ${megabytes(most)} are taken.`);
    let content;
    try {
      content = await file.arrayBuffer();
    } catch {
      throw new Error(`${file.name} cannot be read. Is it a folder?`);
    }
    return api.addDocument(file.name, content, signal);
  };
  return { name: file.name, send };
}

function textItem(text) {
  const first = text.trim().split("\n")[0].replaceAll(/[/\\.]/g, " ").slice(0, NAME).trim();
  const name = `${first || "Pasted text"}.txt`;
  return { name, send: (signal) => api.addDocument(name, new Blob([text]), signal) };
}

function startPasting(add, addFiles) {
  const dialog = byId("paste-dialog");
  for (const id of ["paste", "start-paste"]) byId(id).addEventListener("click", () => dialog.showModal());
  byId("paste-close").addEventListener("click", () => dialog.close());
  byId("paste-form").addEventListener("submit", (event) => {
    event.preventDefault();
    // First, so that the focus is back where it was before that may go.
    dialog.close();
    add([textItem(byId("paste-text").value)]);
    byId("paste-text").value = "";
  });
  // Into the page itself, not into one of its fields.
  addEventListener("paste", (event) => {
    if (event.target.closest?.("input, textarea, dialog")) return;
    const text = event.clipboardData.getData("text/plain");
    if (event.clipboardData.files.length) addFiles(event.clipboardData.files);
    else if (text.trim()) add([textItem(text)]);
  });
}

function startDropping(addFiles) {
  let depth = 0; // entering a child comes before leaving its parent
  const drop = byId("drop");
  const hasFiles = (event) => event.dataTransfer.types.includes("Files");
  const show = (now) => {
    depth = Math.max(0, now);
    drop.hidden = depth === 0;
  };
  addEventListener("dragenter", (event) => {
    if (hasFiles(event)) show(depth + 1);
  });
  addEventListener("dragleave", () => show(depth - 1));
  addEventListener("dragover", (event) => {
    if (hasFiles(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    show(0);
    if (!hasFiles(event)) return;
    event.preventDefault();
    addFiles(event.dataTransfer.files);
  });
}
