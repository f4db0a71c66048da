// Answers as a list: what, how sure, in which sentence, and where.

import { count, node, percent } from "./nodes.js";

const AROUND = 110; // characters of a sentence that are shown on each side of an answer

/** The answers of a reading; `choose` is called with an answer's number, counted from 1, when it is picked. */
export function answerList(reading, names, sentenceOf, choose) {
  if (reading.answers.length === 0) {
    const text = `The text does not seem to answer this (${percent(reading.no_answer)} sure). Other words may help.`;
    return node("p", { class: "nothing" }, text);
  }
  const items = reading.answers.map((answer, at) => {
    const sentence = sentenceOf(answer);
    const inside = node("span", { class: "sentence" });
    if (sentence !== null) {
      const [before, after] = [answer.start - answer.sentence_start, answer.end - answer.sentence_start];
      inside.append(
        lastOf(sentence.slice(0, before)),
        node("strong", {}, sentence.slice(before, after)),
        firstOf(sentence.slice(after)),
      );
    }
    return node(
      "li",
      {},
      node(
        "button",
        { type: "button", class: at === 0 ? "answer best" : "answer", "data-answer": at + 1, onclick: () => choose(at + 1) },
        node(
          "span",
          { class: "answer-head" },
          node("span", { class: "answer-text" }, answer.text),
          node("span", { class: "sure" }, `${percent(answer.confidence)} sure`),
        ),
        meter(answer.confidence),
        inside,
        node("span", { class: "hint" }, names.get(answer.document) ?? ""),
      ),
    );
  });
  return node("ol", { class: "answers" }, ...items);
}

/** The end of a long text, from the beginning of a word. */
function lastOf(text) {
  return text.length <= AROUND ? text : `… ${text.slice(-AROUND).replace(/^\S*\s/, "")}`;
}

/** The beginning of a long text, to the end of a word. */
function firstOf(text) {
  return text.length <= AROUND ? text : `${text.slice(0, AROUND).replace(/\s\S*$/, "")} …`;
}

function meter(share) {
  const bar = node("span", { class: "meter", "aria-hidden": "true" }, node("span", {}));
  bar.firstChild.style.width = `${100 * share}%`;
  return bar;
}

/** One line about a reading: how much, how long. */
export function readingFacts(reading) {
  const window = reading.window === null ? "" : `, window ${reading.window}`;
  const rate = reading.seconds > 0 ? `, ${count(Math.round(reading.tokens / reading.seconds))} a second` : "";
  return `${count(reading.tokens)} tokens in ${reading.seconds.toFixed(1)} s${rate}${window}.`;
}

/** How the best answers of two readings compare. */
export function verdict(first, second) {
  const [one, other] = [first.answers[0], second.answers[0]];
  if (!one && !other) return "Neither window finds an answer.";
  if (one && other && one.document === other.document && one.start === other.start && one.end === other.end) {
    return `Both find “${one.text}”.`;
  }
  const said = ({ window, answers }) => (answers[0] ? `finds “${answers[0].text}”` : "finds nothing") + ` with window ${window}`;
  return `They differ: it ${said(first)}, and ${said(second)}.`;
}

/** What is said aloud when answers have come. */
export function spokenAnswers(reading) {
  if (reading.answers.length === 0) return "Nothing in the text seems to answer this.";
  const best = reading.answers[0];
  const more = reading.answers.length - 1;
  const others = more === 0 ? "" : more === 1 ? " There is one more." : ` There are ${more} more.`;
  return `Best answer: ${best.text}, ${percent(best.confidence)} sure.${others}`;
}
