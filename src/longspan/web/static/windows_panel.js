// Who sees whom at a window's size, and what that costs. The server computes both; this draws.

import * as api from "./api.js";
import { complain } from "./notices.js";
import { about, count, shape } from "./nodes.js";

const LENGTH = 40;
const QUESTION = 16; // global tokens of a usual question, for the costs
const [WIDE, HIGH] = [420, 230];
const [LEFT, BOTTOM, TOP, RIGHT] = [84, 34, 14, 84];
const byId = (id) => document.getElementById(id);

let tokens = 16384; // of the documents
let asked = 0; // the newest request: answers may overtake each other

/** Begins the panel; `windows` are those of the model, and none for a model without. */
export function startWindows(windows) {
  for (const name of ["window", "dilation", "globals"]) {
    byId(name).addEventListener("input", () => {
      byId(`${name}-value`).textContent = byId(name).value;
      drawPattern();
    });
  }
  const sizes = windows.length ? windows : [512, 256, 128, 64];
  byId("cost-window").append(...sizes.map((size) => new Option(`${size} tokens`, size)));
  byId("cost-window").addEventListener("change", drawCost);
  drawPattern();
  drawCost();
}

/** Tells the panel how long the documents are; what is shown stays where there are none. */
export function setTokens(number) {
  if (number === 0 || number === tokens) return;
  tokens = number;
  drawCost();
}

/** What a reading with a window takes. */
export function costOf(length, window) {
  return api.cost({ tokens: length, window, globals: QUESTION });
}

async function drawPattern() {
  const mine = ++asked;
  const values = Object.fromEntries(["window", "dilation", "globals"].map((name) => [name, byId(name).value]));
  let found;
  try {
    found = await api.pattern({ ...values, length: LENGTH });
  } catch (error) {
    complain(error.message);
    return;
  }
  if (mine !== asked) return;
  const paths = { 1: [], 2: [] };
  found.cells.forEach((row, query) =>
    row.forEach((kind, key) => {
      if (kind) paths[kind].push(`M${key + 0.06} ${query + 0.06}h.88v.88h-.88z`);
    }),
  );
  const text = `${count(found.pairs)} of ${count(found.full)} pairs: each row is a token, its coloured cells are those it sees.`;
  byId("pattern-picture").replaceChildren(
    shape(
      "svg",
      { viewBox: `-.5 -.5 ${LENGTH + 1} ${LENGTH + 1}`, role: "img", "aria-labelledby": "pattern-title pattern-text" },
      shape("rect", { class: "ground", width: LENGTH, height: LENGTH }),
      shape("path", { class: "seen", d: paths[1].join("") }),
      shape("path", { class: "seen-global", d: paths[2].join("") }),
    ),
  );
  byId("pattern-text").textContent = text;
}

async function drawCost() {
  const window = byId("cost-window").value;
  let found;
  try {
    found = await costOf(tokens, window);
  } catch (error) {
    complain(error.message);
    return;
  }
  byId("cost-picture").replaceChildren(chart(found, window));
  const ratio = found.full / found.pairs;
  const fewer = ratio < 10 ? ratio.toFixed(1) : count(Math.round(ratio));
  byId("cost-text").textContent =
    `${count(found.tokens)} tokens: ${about(found.pairs)} pairs with a window of ${window}, ` +
    `${about(found.full)} if all saw all, ${fewer} times as many. Twice the text costs twice with a window, ` +
    "four times without. Counted in one head of one layer.";
}

/** Pairs against tokens, both in powers: a straight line of slope 1 and one of slope 2. */
function chart(found, window) {
  const lengths = found.series.map((one) => one.tokens);
  const [first, last] = [Math.log(lengths[0]), Math.log(lengths.at(-1))];
  const [low, high] = [Math.log(found.series[0].pairs / 2), Math.log(found.series.at(-1).full)];
  const x = (n) => LEFT + ((Math.log(n) - first) / (last - first)) * (WIDE - LEFT - RIGHT);
  const y = (n) => HIGH - BOTTOM - ((Math.log(n) - low) / (high - low)) * (HIGH - BOTTOM - TOP);
  const path = (name) => found.series.map((one, at) => `${at ? "L" : "M"}${x(one.tokens)} ${y(one[name])}`).join("");
  const picture = shape("svg", {
    viewBox: `0 0 ${WIDE} ${HIGH}`,
    role: "img",
    class: "chart",
    "aria-labelledby": "cost-title cost-text",
  });
  for (const [size, name] of [[1e6, "1 million"], [1e8, "100 million"], [1e10, "10 billion"]]) {
    picture.append(
      shape("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: y(size), y2: y(size) }),
      shape("text", { x: LEFT - 6, y: y(size) + 4, "text-anchor": "end" }, name),
    );
  }
  for (const length of [1024, 8192, 65536]) {
    picture.append(
      shape("text", { x: x(length), y: HIGH - BOTTOM + 16, "text-anchor": "middle" }, count(length)),
    );
  }
  picture.append(
    shape("text", { x: WIDE - RIGHT + 6, y: HIGH - BOTTOM + 16 }, "tokens"),
    shape("path", { class: "line full", d: path("full") }),
    shape("path", { class: "line window", d: path("pairs") }),
    shape("text", { x: WIDE - RIGHT + 6, y: y(found.series.at(-1).full) + 4 }, "all see all"),
    shape("text", { x: WIDE - RIGHT + 6, y: y(found.series.at(-1).pairs) + 4 }, `window ${window}`),
  );
  if (found.tokens >= lengths[0] && found.tokens <= lengths.at(-1)) {
    const here = x(found.tokens);
    picture.append(
      shape("line", { class: "here", x1: here, x2: here, y1: TOP, y2: HIGH - BOTTOM }),
      shape("circle", { class: "dot full", cx: here, cy: y(found.full), r: 4 }),
      shape("circle", { class: "dot window", cx: here, cy: y(found.pairs), r: 4 }),
    );
  }
  return picture;
}
