// Elements, made without ever taking text for HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; strings become text. */
export function node(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for the parts of an SVG picture. */
export function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export function percent(share) {
  if (share > 0 && share < 0.01) return "under 1 %";
  return `${Math.round(100 * share)} %`;
}

export function count(number) {
  return number.toLocaleString("en");
}

/** A large number in words that can be compared: 1.2 million. */
export function about(number) {
  const units = [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]];
  for (const [size, name] of units) {
    if (number >= size) return `${(number / size).toPrecision(3)} ${name}`;
  }
  return count(number);
}
