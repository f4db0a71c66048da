// What is said to the user: softly, for those who hear the page, or as an error that stays until it is closed.

const status = document.getElementById("status");
const alertBox = document.getElementById("alert");
const alertText = document.getElementById("alert-text");

document.getElementById("alert-close").addEventListener("click", clearComplaint);

export function say(text) {
  status.textContent = text;
}

export function complain(text) {
  alertText.textContent = text;
  alertBox.hidden = false;
  alertBox.scrollIntoView({ block: "nearest" });
}

export function clearComplaint() {
  alertBox.hidden = true;
  alertText.textContent = "";
}
