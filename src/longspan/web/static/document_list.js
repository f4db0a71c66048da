// The documents of this page: those that are here, and those that are on their way.

import { count, node } from "./nodes.js";

/** Draws the list; `calls` has show(document), remove(document) and stop(item). What had the focus keeps it. */
export function drawDocumentList(list, documents, pending, shown, calls) {
  const key = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  list.replaceChildren(
    ...documents.map((one) => documentRow(one, one.id === shown, calls)),
    ...pending.map((item) => pendingRow(item, calls)),
  );
  if (key) list.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

function documentRow(one, isShown, calls) {
  return node(
    "li",
    { class: isShown ? "shown" : false },
    node(
      "button",
      {
        type: "button",
        class: "document",
        "data-key": `show ${one.id}`,
        "aria-current": isShown ? "true" : false,
        onclick: () => calls.show(one),
      },
      node("span", { class: "name" }, one.name),
      node("span", { class: "hint" }, `${count(one.tokens)} tokens`),
    ),
    cross(`Remove ${one.name}`, `remove ${one.id}`, () => calls.remove(one)),
  );
}

function pendingRow(item, calls) {
  return node(
    "li",
    { class: "pending" },
    node(
      "span",
      { class: "document" },
      node("span", { class: "name" }, item.name),
      node("span", { class: "hint" }, item.isSent ? "Opening …" : "Waiting …"),
    ),
    cross(`Stop adding ${item.name}`, `stop ${item.name}`, () => calls.stop(item)),
  );
}

function cross(label, key, onclick) {
  return node("button", { type: "button", class: "remove", "aria-label": label, "data-key": key, onclick }, "×");
}
