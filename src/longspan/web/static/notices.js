// What is said to the user: softly, for those who hear the page, or as errors that stay until they are closed.

import { node } from "./nodes.js";

const status = document.getElementById("status");
const alertBox = document.getElementById("alert");
const alertText = document.getElementById("alert-text");

document.getElementById("alert-close").addEventListener("click", clearComplaints);

export function say(text) {
  status.textContent = text;
}

/** Shows an error below those that are shown. */
export function complain(text) {
  const said = [...alertText.children].map((one) => one.textContent);
  if (!said.includes(text)) alertText.append(node("p", {}, text));
  alertBox.hidden = false;
}

/** Takes errors away: what the user did before is over. */
export function clearComplaints() {
  alertBox.hidden = true;
  alertText.replaceChildren();
}
