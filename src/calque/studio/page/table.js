// The tables of costs: of every layer, and of the whole. A row points at its layer, and is marked when others do.
import { byId, el, figure, full, roving } from "./dom.js";
import { emit, on, point, shared } from "./shared.js";

const COLUMNS = [
  ["width", "width"], ["copies", "copies"], ["parameters", "parameters"], ["products", "multiply-adds per step"],
  ["state_bytes", "state bytes"], ["sees", "sees"], ["hops", "path"],
];

/** The elements of both tables. */
export const tables = () => [
  el("div", { class: "scroll", id: "costs-scroll" }, el("table", { id: "costs", class: "costs" })),
  el("table", { id: "totals", class: "totals" }),
];

export function begin() {
  on("checked", draw);
  on("point", ({ keys, from }) => mark(keys, from));
}

function draw() {
  if (!shared.reply?.ok) return;
  const { totals, rows } = shared.good;
  byId("totals").replaceChildren(el("caption", {}, "The whole"), el("tbody", {}, totals.map((t) => el("tr", {}, el("th", { scope: "row" }, t.words), el("td", {}, figure(t.values[0]))))));
  byId("costs").replaceChildren(
    el("caption", {}, "Costs by layer, over all copies"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "layer"), COLUMNS.map(([, text]) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, rows.map(row)),
  );
  roving(byId("costs").tBodies[0], "tr");
}

function row(r) {
  const line = el("tr", { "data-key": r.key, class: r.side }, el("th", { scope: "row", title: r.text, style: `--depth: ${r.depth}` }, r.text + (r.label ? ` @ ${r.label}` : "")),
    COLUMNS.map(([key]) => el("td", {}, cell(r, key))));
  line.addEventListener("pointerenter", () => point([r.key], "table"));
  line.addEventListener("focus", () => point([r.key], "table"));
  line.addEventListener("pointerleave", () => point([], "table"));
  line.addEventListener("click", () => emit("goto", r.key));
  return line;
}

function cell(r, key) {
  if (r.undeclared.length && (key === "products" || key === "state_bytes")) return "?";
  if (key === "hops") return r.sees ? full(r.hops) : "";
  if (key === "copies") return r.copies > 1 ? String(r.copies) : "";
  return typeof r[key] === "number" ? (r[key] ? full(r[key]) : "") : r[key];
}

function mark(keys, from) {
  const holder = byId("costs-scroll");
  let first = null;
  for (const line of holder.querySelectorAll("tr[data-key]")) {
    const here = keys.has(line.dataset.key);
    line.classList.toggle("on", here);
    first ??= here ? line : null;
  }
  if (first && from === "picture" && holder.offsetParent) holder.scrollTop = Math.max(0, first.offsetTop - 60);
}
