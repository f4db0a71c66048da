// A strip along the documents that were read: where the question's global tokens look, where the answers are, and
// what is in sight. A picture with a text beside it: the strongest places, as buttons.

import { node, percent, shape } from "./nodes.js";

const WIDTH = 960;
const HEIGHT = 100;
const PLACES = 3;

/** Documents laid end to end: {id, name, length}, and where each begins. */
export class Line {
  constructor(documents) {
    let begin = 0;
    this.documents = documents.map((one) => {
      const placed = { ...one, begin };
      begin += one.length;
      return placed;
    });
    this.length = Math.max(begin, 1);
  }

  /** The share of the line at which a character of a document is. */
  share(id, place) {
    const document = this.documents.find((one) => one.id === id);
    return document === undefined ? 0 : (document.begin + place) / this.length;
  }

  /** The document and the character at a share of the line. */
  at(share) {
    const place = Math.min(Math.max(share, 0) * this.length, this.length - 1);
    const document = this.documents.findLast((one) => one.begin <= place) ?? this.documents[0];
    return { id: document.id, place: Math.floor(place - document.begin) };
  }
}

/** The strip of a reading; `go` is called with the share of the line that was clicked. */
export function drawStrip(reading, line, go) {
  const parts = reading.attention;
  const most = Math.max(...parts, Number.MIN_VALUE);
  const step = WIDTH / Math.max(parts.length, 1);
  const bars = parts.map((part, at) => {
    const height = (HEIGHT * part) / most;
    return `M${(at * step).toFixed(1)} ${HEIGHT}v${(-height).toFixed(1)}h${step.toFixed(2)}V${HEIGHT}z`;
  });
  const picture = shape(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
    shape("title", {}, spoken(reading, line)),
    shape("rect", { class: "ground", width: WIDTH, height: HEIGHT }),
    shape("rect", { class: "sight", width: 0, height: HEIGHT }),
    shape("path", { class: "bars", d: bars.join("") }),
  );
  for (const { begin } of line.documents.slice(1)) {
    const x = (begin / line.length) * WIDTH;
    picture.append(shape("line", { class: "border", x1: x, x2: x, y1: 0, y2: HEIGHT }));
  }
  // Beside the picture, which is stretched: these keep their shape. The best comes last, above the others.
  const spots = [...reading.answers.entries()].reverse().map(([at, answer]) => {
    const spot = node("span", { class: at === 0 ? "spot best" : "spot", "aria-hidden": "true" });
    spot.style.left = `${100 * line.share(answer.document, answer.start)}%`;
    return spot;
  });
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    go((event.clientX - box.left) / box.width);
  });
  return node("div", { class: "strip-picture" }, picture, ...spots);
}

/** Shows what is in sight: the first and the last share of the line. */
export function showSight(picture, first, last) {
  const sight = picture.querySelector(".sight");
  sight.setAttribute("x", first * WIDTH);
  sight.setAttribute("width", Math.max((last - first) * WIDTH, 2));
}

/** The parts with most attention, neighbours of a stronger one aside: {share, attention}. */
export function strongest(parts) {
  const order = [...parts.keys()].sort((a, b) => parts[b] - parts[a]);
  const chosen = [];
  for (const at of order) {
    if (chosen.length === PLACES) break;
    if (parts[at] > 0 && chosen.every((other) => Math.abs(other - at) > 2)) chosen.push(at);
  }
  return chosen.map((at) => ({ share: (at + 0.5) / parts.length, attention: parts[at] }));
}

/** Buttons that lead to the strongest places. */
export function placeButtons(reading, go) {
  const places = strongest(reading.attention);
  const buttons = places.map(({ share, attention }) =>
    node(
      "button",
      {
        type: "button",
        class: "chip",
        onclick: () => go(share),
        "aria-label": `Go to ${placeName(share)} of the text, which gets ${percent(attention)} of the attention`,
      },
      placeName(share),
    ),
  );
  return buttons.length ? [node("span", { class: "hint" }, "Most of it at"), ...buttons] : [];
}

/** A place in words: "the start", "15 %". */
function placeName(share) {
  if (share < 0.01) return "the start";
  return share > 0.99 ? "the end" : percent(share);
}

function spoken(reading, line) {
  if (reading.attention.length === 0) return "This model has no global tokens, whose attention could be shown.";
  const places = strongest(reading.attention).map(
    ({ share, attention }) => `${percent(attention)} of it at ${placeName(share)} of the text`,
  );
  const answers = reading.answers.map((answer) => percent(line.share(answer.document, answer.start)));
  const found = answers.length ? ` Answers stand at ${answers.join(", ")}.` : "";
  return `Attention of the question along the text, most of all ${places.join(", ")}.${found}`;
}
