// Elements of the page. Text from anywhere becomes text nodes: nothing here reads markup.

/** An element with attributes, listeners (`onclick`) and children; strings become text. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value") node.value = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** A number in words of at most four figures: 950, 12.3k, 3.15M. */
export function short(number) {
  if (number === null || number === undefined) return "none";
  for (const [unit, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (Math.abs(number) >= 0.9995 * size * (unit === "k" ? 10 : 1)) return `${Number((number / size).toPrecision(3))}${unit}`;
  }
  return String(Number(number.toPrecision(4)));
}

export const full = (number) => (number === null || number === undefined ? "none" : number.toLocaleString("en"));

/** A number with so many digits after the point. What is not finite comes from the server as null. */
export const fixed = (number, digits) => (number === null ? "not finite" : number.toFixed(digits));

/** A figure of the cost tables: a number, none, or the first and last position that is seen. */
export function figure(value) {
  if (!Array.isArray(value)) return full(value);
  const end = (v, none) => (v === null ? none : v > 0 ? `+${v}` : String(v));
  return `${end(value[0], "−∞")} .. ${end(value[1], "+∞")}`;
}

/** Arrow keys move the focus among elements of which one is a stop of the Tab key. */
export function roving(parent, selector) {
  const all = () => [...parent.querySelectorAll(selector)];
  const set = (to) => all().forEach((node) => node.setAttribute("tabindex", node === to ? "0" : "-1"));
  if (all().length) set(all()[0]);
  parent.onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const nodes = all(), at = nodes.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const to = nodes[Math.min(nodes.length - 1, Math.max(0, at + step))];
    set(to);
    to.focus();
  };
}
