// The figures of the text: totals, sliders, plots over the length, and the cost table.
import { byId, el, figure, full, roving } from "./dom.js";
import { plot } from "./plot.js";
import { emit, on, point, shared } from "./shared.js";

const HEADS = [1, 2, 4, 8, 16, 32];
const VOCABULARIES = [["", "no vocabulary"], ["2000", "2,000 words"], ["8000", "8,000 words"], ["32000", "32,000 words"]];
const COLUMNS = [
  ["width", "width"], ["copies", "copies"], ["parameters", "parameters"], ["products", "multiply-adds per step"],
  ["state_bytes", "state bytes"], ["sees", "sees"], ["hops", "path"],
];
let panel, write;

/** `setting(name, value)` changes a setting of the text. */
export function begin(parent, setting) {
  panel = parent;
  write = setting;
  panel.append(
    el("div", { class: "sliders", id: "sliders" }), el("div", { class: "scroll" }, el("table", { id: "costs" })),
    el("table", { id: "totals", class: "totals" }), el("div", { class: "plots", id: "plots" }),
  );
  lengthSliders();
  on("checked", draw);
  on("point", ({ keys, from }) => mark(keys, from));
}

function slider(name, label, { min, max, step, value, shown = (v) => v, change }) {
  const output = el("output", {}, String(shown(value)));
  const input = el("input", { type: "range", min, max, step, id: `slider-${name}`, value });
  input.value = value;
  input.setAttribute("aria-valuetext", String(shown(value)));
  input.addEventListener("input", () => {
    output.textContent = String(shown(Number(input.value)));
    input.setAttribute("aria-valuetext", output.textContent);
    change(shown(Number(input.value)));
  });
  return el("label", { class: "slider", "data-name": name }, el("span", {}, label), input, output);
}

function lengthSliders() {
  const length = slider("length", "sentence length", { min: 1, max: 200, step: 1, value: 25, change: (n) => {
    Object.assign(shared.conditions, { length: n, source_length: n });
    emit("ask");
  } });
  const vocabulary = el("select", { id: "vocabulary" }, VOCABULARIES.map(([value, text]) => el("option", { value }, text)));
  vocabulary.addEventListener("change", () => {
    shared.conditions.vocabulary = vocabulary.value ? Number(vocabulary.value) : null;
    emit("ask");
  });
  byId("sliders").append(length, el("label", { class: "slider" }, el("span", {}, "vocabulary"), vocabulary));
}

/** A slider for each setting of the text; `d` and `heads` always have one. */
function settingSliders() {
  const holder = byId("sliders");
  const values = new Map([["d", 512], ["heads", 8], ...shared.reply.settings.map((s) => [s.name, s.value])]);
  for (const old of holder.querySelectorAll("[data-setting]")) if (!values.has(old.dataset.setting)) old.remove();
  for (const [name, value] of values) {
    const there = [...holder.querySelectorAll("[data-setting]")].find((node) => node.dataset.setting === name);
    if (there) {
      const input = there.querySelector("input");
      if (input !== document.activeElement) {
        input.value = name === "heads" ? Math.max(0, HEADS.indexOf(value)) : value;
        there.querySelector("output").textContent = String(value);
      }
      continue;
    }
    const whole = Number.isInteger(value) && name !== "p";
    const bounds = name === "heads" ? { min: 0, max: HEADS.length - 1, step: 1, value: Math.max(0, HEADS.indexOf(value)), shown: (k) => HEADS[k] }
      : name === "d" ? { min: 32, max: 1024, step: 32, value }
      : whole ? { min: 1, max: Math.max(12, 4 * value), step: 1, value } : { min: 0, max: 0.9, step: 0.05, value };
    const made = slider(name, name, { ...bounds, change: (v) => write(name, v) });
    made.dataset.setting = name;
    holder.insertBefore(made, holder.querySelector("[data-name='length']"));
  }
}

function draw() {
  if (!shared.reply) return;
  settingSliders();
  if (!shared.reply.ok) return;
  const { totals, curves, rows } = shared.good;
  byId("totals").replaceChildren(el("caption", {}, "The whole"), ...totals.map((t) => el("tr", {}, el("th", { scope: "row" }, t.words), el("td", {}, figure(t.values[0])))));
  byId("plots").replaceChildren(...plots([["", curves]]));
  byId("costs").replaceChildren(
    el("caption", {}, "Costs by layer, over all copies"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "layer"), COLUMNS.map(([, text]) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, rows.map(row)),
  );
  roving(byId("costs").tBodies[0], "tr");
}

/** Plots of state and step over the number of words, for one text or several. */
export function plots(named) {
  const lines = (key) => named.map(([name, c]) => ({ name, points: c.length.map((n, k) => [n, c[key][k]]) }));
  return [
    plot({ title: "bytes of decoding state", x: "words written", series: lines("state_bytes") }),
    plot({ title: "multiply-adds of a step", x: "words written", series: lines("step") }),
  ];
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
  let first = null;
  for (const line of panel.querySelectorAll("tr[data-key]")) {
    const here = keys.has(line.dataset.key);
    line.classList.toggle("on", here);
    first ??= here ? line : null;
  }
  if (first && from === "picture" && !panel.hidden) byId("costs").parentElement.scrollTop = Math.max(0, first.offsetTop - 60);
}
