// The page: documents in, questions out, answers shown in the text.

import * as api from "./api.js";
import { sampleButtons, startAdding } from "./adding.js";
import { answerList, readingFacts, spokenAnswers, verdict } from "./answers.js";
import { drawDocumentList } from "./document_list.js";
import { clearComplaints, complain, say } from "./notices.js";
import { about, count, node, percent } from "./nodes.js";
import { Line, drawStrip, placeButtons, showSight } from "./strip.js";
import { TextPane } from "./text_pane.js";
import { costOf, setTokens, startWindows } from "./windows_panel.js";

const byId = (id) => document.getElementById(id);
const pane = new TextPane(byId("text"));
const texts = new Map(); // id -> text, of documents that were shown or read
let facts = null; // what the server says about itself
let documents = []; // {id, name, characters, tokens}
let pending = []; // {name, send, isSent, stop}: documents on their way
let shown = null; // the id of the document in the pane
let wanted = null; // the one that is to be shown: what was clicked last counts, not what came last
let reading = null; // the newest one, with its line
let chosen = 0; // the number of the answer that was gone to last
let running = null; // {key, controller} of what runs

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
  documents = [];
  forgetAnswers();
  const listed = await api.listDocuments();
  // What was added meanwhile stays.
  documents = [...listed, ...documents.filter((one) => !listed.some((other) => other.id === one.id))];
  await show(documents[0]?.id ?? null);
}

// Documents

function drawDocuments() {
  const isEmpty = documents.length + pending.length === 0;
  const hadFocus = document.activeElement !== document.body;
  byId("start").hidden = !isEmpty;
  byId("desk").hidden = isEmpty;
  byId("compare").hidden = facts.windows.length < 2 || documents.length === 0;
  drawDocumentList(byId("documents"), documents, pending, shown, {
    show: (one) => attempt(() => show(one.id)),
    remove: (one) => attempt(() => remove(one)),
    stop: (item) => {
      item.stop.abort();
      pending = pending.filter((other) => other !== item);
      drawDocuments();
    },
  });
  const names = [...documents, ...pending].map((one) => one.name);
  const many = facts.samples.length > 1;
  byId("samples").replaceChildren(
    ...sampleButtons(facts.samples, names, (title) => (many ? title : "Sample book"), addAll),
  );
  byId("start-samples").replaceChildren(
    ...sampleButtons(facts.samples, [], (title) => `Try it with “${title}”`, addAll),
  );
  drawSuggestions();
  setTokens(allTokens());
  // A button that is no longer there had it. On a phone, a field that gets it would open the keyboard.
  if (hadFocus && !document.activeElement?.checkVisibility()) document.activeElement?.blur();
  if (hadFocus && document.activeElement === document.body) {
    const isTouched = matchMedia("(pointer: coarse)").matches;
    byId(isEmpty ? "start-files" : isTouched ? "add-files" : "question").focus({ preventScroll: true });
  }
}

function drawSuggestions() {
  const opened = facts.samples.filter(({ title }) => documents.some((one) => one.name === title));
  const questions = reading === null ? opened.flatMap((one) => one.questions) : [];
  byId("suggestions").hidden = questions.length === 0;
  byId("suggestions").replaceChildren(
    node("span", { class: "hint" }, "For example"),
    ...questions.map((question) => {
      const pick = () => {
        byId("question").value = question;
        askAndShow();
      };
      return node("button", { type: "button", class: "chip", onclick: pick }, question);
    }),
  );
}

function allTokens() {
  return documents.reduce((sum, one) => sum + one.tokens, 0);
}

async function textOf(id) {
  if (!texts.has(id)) texts.set(id, (await api.getDocument(id)).text);
  return texts.get(id);
}

async function show(id) {
  const one = documents.find((other) => other.id === id);
  wanted = one ? id : null;
  const text = one ? await textOf(id) : "";
  if (wanted !== (one ? id : null)) return;
  shown = wanted;
  byId("reading").hidden = !one;
  byId("text-title").textContent = one ? one.name : "Text";
  byId("text-facts").textContent = one ? `${count(one.characters)} characters, ${count(one.tokens)} tokens` : "";
  pane.show(text);
  drawDocuments();
  markText();
}

/** Adds items one after the other, and shows the first. */
async function addAll(items) {
  clearComplaints();
  const mine = items.map((item) => ({ ...item, isSent: false, stop: new AbortController() }));
  pending.push(...mine);
  drawDocuments();
  let isFirst = true;
  for (const item of mine) {
    const one = await attempt(() => {
      item.stop.signal.throwIfAborted();
      item.isSent = true;
      drawDocuments();
      say(`Opening ${item.name} …`);
      return item.send(item.stop.signal);
    });
    pending = pending.filter((other) => other !== item);
    if (one !== null) {
      documents.push(one);
      forgetAnswers();
      say(`${one.name} was added: ${count(one.tokens)} tokens.`);
    }
    if (one !== null && isFirst) await attempt(() => show(one.id));
    else drawDocuments();
    isFirst &&= one === null;
  }
}

async function remove(one) {
  running?.controller.abort();
  await api.removeDocument(one.id);
  documents = documents.filter((other) => other.id !== one.id);
  texts.delete(one.id);
  forgetAnswers();
  await show(shown === one.id ? (documents[0]?.id ?? null) : shown);
  say(`${one.name} was removed.`);
}

// Questions

/** Asks; `place` is where the progress is shown, `prefix` what it begins with. */
async function ask(window = null, place = byId("ask-progress"), prefix = "") {
  const question = byId("question").value.trim();
  if (!question || documents.length === 0) {
    clearComplaints();
    complain(question ? "There is no document yet: add one first." : "The question is empty: type one first.");
    if (!question) byId("question").focus();
    return null;
  }
  const asked = { question, documents: documents.map((one) => one.id), window };
  const key = JSON.stringify(asked);
  // Asked again while it is read: it keeps its place in the queue.
  if (running?.key === key) return null;
  clearComplaints();
  running?.controller.abort();
  const mine = (running = { key, controller: new AbortController() });
  place.append(byId("progress"));
  byId("progress").hidden = false;
  showProgress(`${prefix}Asking …`, null);
  const tell = (event) => {
    if (running === mine) tellProgress(event, prefix);
  };
  const answer = await attempt(() => api.ask(asked, mine.controller.signal, tell));
  if (running === mine) {
    running = null;
    byId("progress").hidden = true;
  }
  if (answer === null) return null;
  return attempt(() => withLine(answer));
}

function tellProgress(event, prefix) {
  if (event.name === "queued") {
    const before = event.data.position;
    const text = before === 0 ? "Next in the queue" : `In the queue: ${before} before yours`;
    showProgress(`${prefix}${text}`, null);
    if (before > 0) say(text);
  } else if (event.name === "progress") {
    if (event.data.fraction === 0) say("Reading.");
    const text = `Reading ${count(allTokens())} tokens: ${percent(event.data.fraction)}`;
    showProgress(`${prefix}${text}`, event.data.fraction);
  }
}

function showProgress(text, fraction) {
  byId("progress-text").textContent = text;
  if (fraction === null) byId("progress-bar").removeAttribute("value");
  else byId("progress-bar").value = fraction;
}

/** Takes a reading, or none, as what is shown. */
function setReading(one) {
  reading = one;
  chosen = 0;
  byId("answers-card").hidden = reading === null;
  byId("strip").hidden = reading === null || reading.attention.length === 0;
  drawSuggestions();
  markText();
  if (reading === null) return;
  byId("answers").replaceChildren(
    answerList(reading, documentNames(), sentenceOf, pickAnswer),
    node("p", { class: "hint" }, readingFacts(reading)),
  );
  byId("strip-picture").replaceChildren(drawStrip(reading, reading.line, goToShare));
  byId("strip-places").replaceChildren(...placeButtons(reading, goToShare));
  showInSight();
}

/** What was answered is about other documents than those that are here now. */
function forgetAnswers() {
  setReading(null);
  forgetComparison();
}

function forgetComparison() {
  byId("compare-results").replaceChildren();
  byId("compare-verdict").textContent = "";
}

function markText() {
  const all = reading?.answers ?? [];
  const here = all.map((answer, at) => ({ ...answer, number: at + 1 })).filter((one) => one.document === shown);
  pane.mark(here);
  if (chosen) pane.choose(chosen);
  byId("walk").hidden = all.length === 0;
  byId("walk-text").textContent = chosen ? `${chosen} of ${all.length}` : count(all.length);
  showInSight();
}

/** Names of documents by id, where there are several: one needs no telling apart. */
function documentNames() {
  return new Map(documents.length > 1 ? documents.map((one) => [one.id, one.name]) : []);
}

function sentenceOf(answer) {
  return texts.get(answer.document)?.slice(answer.sentence_start, answer.sentence_end) ?? null;
}

async function withLine(answer) {
  for (const id of answer.documents) await textOf(id);
  const parts = answer.documents.map((id) => ({ id, length: texts.get(id).length }));
  return { ...answer, line: new Line(parts) };
}

async function goToAnswer(number) {
  const answer = reading?.answers[number - 1];
  if (!answer) return;
  chosen = number;
  for (const button of byId("answers").querySelectorAll(".answer")) {
    button.setAttribute("aria-current", String(button.dataset.answer === String(number)));
  }
  if (answer.document !== shown) await attempt(() => show(answer.document));
  else markText();
  pane.goToAnswer(number);
}

/** Goes to an answer that the user picked: on a phone the text may be out of sight. */
async function pickAnswer(number) {
  await goToAnswer(number);
  byId("text").scrollIntoView({ block: "nearest" });
}

function walk(step) {
  const all = reading?.answers.length ?? 0;
  if (all) goToAnswer(((Math.max(chosen, 1) - 1 + step + all) % all) + 1);
}

async function goToShare(share) {
  const { id, place } = reading.line.at(share);
  if (id !== shown) await attempt(() => show(id));
  pane.goTo(place);
}

function showInSight() {
  const picture = byId("strip-picture").firstElementChild;
  if (reading === null || picture === null || shown === null) return;
  const length = texts.get(shown)?.length ?? 0;
  const [first, last] = pane.inSight().map((share) => reading.line.share(shown, share * length));
  showSight(picture, first, last);
}

async function askAndShow() {
  const answer = await ask();
  if (answer === null) return;
  setReading(answer);
  say(spokenAnswers(reading));
  await goToAnswer(1);
  byId("answers").firstElementChild.querySelector("button")?.scrollIntoView({ block: "nearest" });
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
      if (!event.repeat) askAndShow();
    }
  });
  byId("cancel").addEventListener("click", () => running?.controller.abort());
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !byId("paste-dialog").open) running?.controller.abort();
  });
  byId("walk-back").addEventListener("click", () => walk(-1));
  byId("walk-on").addEventListener("click", () => walk(1));
  byId("text").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const step = { n: 1, p: -1 }[event.key];
    if (step) walk(step);
  });
  let isDue = false;
  byId("text").addEventListener("scroll", () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      showInSight();
    });
  });
}

// Windows, compared

function startComparing() {
  for (const [id, at] of [["compare-first", 0], ["compare-second", facts.windows.length - 1]]) {
    byId(id).append(...facts.windows.map((size) => new Option(`window ${size}`, size)));
    byId(id).selectedIndex = at;
  }
  byId("compare-form").addEventListener("submit", (event) => {
    event.preventDefault();
    compare(["compare-first", "compare-second"].map((id) => Number(byId(id).value)));
  });
}

async function compare(windows) {
  forgetComparison();
  const answers = [];
  for (const window of windows) {
    const answer = await ask(window, byId("compare-progress"), `Window ${window}. `);
    if (answer === null) return;
    answers.push(answer);
  }
  const costs = await attempt(() => Promise.all(windows.map((window) => costOf(answers[0].tokens, window))));
  byId("compare-results").replaceChildren(...answers.map((answer, at) => column(answer, costs?.[at])));
  byId("compare-verdict").textContent = verdict(...answers);
  say(verdict(...answers));
}

function column(answer, cost) {
  const show = () => {
    if (reading !== answer) setReading(answer);
  };
  const pick = (number) => {
    show();
    pickAnswer(number);
  };
  const go = (share) => {
    show();
    goToShare(share);
    byId("text").scrollIntoView({ block: "nearest" });
  };
  const pairs = cost ? ` ${about(cost.pairs)} pairs of tokens.` : "";
  return node(
    "div",
    { class: "column" },
    node("h4", {}, `Window ${answer.window}`),
    drawStrip(answer, answer.line, go),
    answerList(answer, documentNames(), sentenceOf, pick),
    node("p", { class: "hint" }, `${readingFacts(answer)}${pairs}`),
  );
}

facts = await attempt(api.about);
if (facts !== null) {
  const window = facts.window === null ? "" : ` · window ${facts.window}`;
  byId("model").textContent = `${facts.model}${window}`;
  startAdding(facts, addAll);
  startQuestions();
  startComparing();
  startWindows(facts.windows);
  await attempt(reset);
}
