// The text of a document, with answers marked. Books of any length: all of the text is there, so that the browser's
// own search and screen readers find it, and `content-visibility` spares what is out of sight.

import { node } from "./nodes.js";

const CHUNK = 6000; // characters whose visibility is one question
const LINE = 30; // pixels, to guess the height of what was never laid out
const WIDTH = 72; // characters of a line

export class TextPane {
  constructor(element) {
    this.element = element;
    this.clear();
  }

  clear() {
    this.element.replaceChildren();
    this.element.scrollTop = 0;
    this.text = "";
    this.paragraphs = []; // {start, end, element}, in order
    this.marked = new Set();
  }

  show(text) {
    this.clear();
    this.text = text;
    const chunks = [];
    let chunk = null;
    let height = 0;
    let size = 0;
    let start = 0;
    const close = () => {
      if (chunk !== null) chunk.style.containIntrinsicSize = `auto ${height}px`;
    };
    for (const line of text.split("\n")) {
      if (chunk === null || size > CHUNK) {
        close();
        chunk = node("div", { class: "chunk" });
        chunks.push(chunk);
        size = height = 0;
      }
      const element = node("p", {}, line);
      chunk.append(element);
      this.paragraphs.push({ start, end: start + line.length, element });
      size += line.length;
      height += Math.ceil(line.length / WIDTH) * LINE + LINE / 2;
      start += line.length + 1;
    }
    close();
    this.element.append(...chunks);
  }

  /** Marks answers: {start, end, sentence_start, sentence_end, number}. */
  mark(answers) {
    for (const paragraph of this.marked) {
      paragraph.element.replaceChildren(this.text.slice(paragraph.start, paragraph.end));
    }
    this.marked.clear();
    const parts = new Map();
    for (const answer of answers) {
      for (const paragraph of this.between(answer.sentence_start, answer.sentence_end)) {
        parts.set(paragraph, [...(parts.get(paragraph) ?? []), answer]);
      }
    }
    for (const [paragraph, found] of parts) {
      paragraph.element.replaceChildren(...this.pieces(paragraph, found));
      this.marked.add(paragraph);
    }
  }

  /** A paragraph's text, cut wherever an answer or its sentence begins or ends. */
  pieces(paragraph, answers) {
    const cuts = new Set([paragraph.start, paragraph.end]);
    for (const answer of answers) {
      for (const place of [answer.start, answer.end, answer.sentence_start, answer.sentence_end]) {
        if (place > paragraph.start && place < paragraph.end) cuts.add(place);
      }
    }
    const places = [...cuts].sort((a, b) => a - b);
    return places.slice(0, -1).map((start, at) => {
      const piece = this.text.slice(start, places[at + 1]);
      const said = answers.find((answer) => answer.start <= start && start < answer.end);
      if (said) {
        const attributes = { class: said.number === 1 ? "best" : false, "data-answer": said.number };
        return node("mark", attributes, piece);
      }
      const near = answers.some((answer) => answer.sentence_start <= start && start < answer.sentence_end);
      return near ? node("span", { class: "near" }, piece) : piece;
    });
  }

  between(start, end) {
    const found = [];
    for (let at = this.paragraphAt(start); at < this.paragraphs.length; at++) {
      if (this.paragraphs[at].start >= end) break;
      found.push(this.paragraphs[at]);
    }
    return found;
  }

  /** The number of the paragraph that a character is in. */
  paragraphAt(place) {
    let low = 0;
    let high = this.paragraphs.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.paragraphs[middle].start <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Scrolls to a character. */
  goTo(place) {
    const { element } = this.paragraphs[this.paragraphAt(place)];
    this.bring(element);
    element.classList.remove("arrived");
    // Asking for the width makes the browser take note of the change, so that the animation begins anew.
    void element.offsetWidth;
    element.classList.add("arrived");
  }

  /** Makes an answer's marks stand out. */
  choose(number) {
    for (const mark of this.element.querySelectorAll("mark")) {
      mark.classList.toggle("chosen", mark.dataset.answer === String(number));
    }
  }

  /** Scrolls to the mark of an answer. */
  goToAnswer(number) {
    this.choose(number);
    const mark = this.element.querySelector("mark.chosen");
    if (mark) this.bring(mark);
  }

  bring(element) {
    const centre = () => {
      const pane = this.element.getBoundingClientRect();
      const box = element.getBoundingClientRect();
      this.element.scrollTop += box.top - pane.top - (pane.height - Math.min(box.height, pane.height)) / 2;
    };
    centre();
    // Parts that come into sight take their true heights, which moves the goal a little.
    requestAnimationFrame(() => {
      centre();
      requestAnimationFrame(centre);
    });
  }

  /** The first and last character in sight, roughly, as shares of the text. */
  inSight() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    return [scrollTop / scrollHeight, Math.min(1, (scrollTop + clientHeight) / scrollHeight)];
  }
}
