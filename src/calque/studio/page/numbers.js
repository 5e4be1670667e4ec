// The figures of the text: sliders, tables, plots over the length.
import { byId, el } from "./dom.js";
import { plot } from "./plot.js";
import { emit, on, shared } from "./shared.js";
import * as table from "./table.js";

const HEADS = [1, 2, 4, 8, 16, 32];
const VOCABULARIES = [["", "no vocabulary"], ["2000", "2,000 words"], ["8000", "8,000 words"], ["32000", "32,000 words"]];
/** What the sliders of settings have asked for while the text was being checked. */
const wanted = new Map();
const sliders = new Map();
let write;

/** `setting(name, value)` changes a setting of the text; false where that has to wait for the next check. */
export function begin(parent, setting) {
  write = setting;
  parent.append(el("div", { class: "sliders", id: "sliders" }), ...table.tables(), el("div", { class: "plots", id: "plots" }));
  lengthSliders();
  table.begin();
  on("checked", draw);
}

/** A slider, and the function that puts it at a value within a range. */
function slider(name, label, change) {
  const output = el("output"), input = el("input", { type: "range", id: `slider-${name}` });
  const node = el("label", { class: "slider", "data-name": name }, el("span", {}, label), input, output);
  let steps = null;
  const say = (value) => {
    output.textContent = String(value);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => {
    const value = steps ? steps[input.value] : Number(input.value);
    say(value);
    change(value);
  });
  const set = (value, range) => {
    // Bounds that follow the value would run away from a slider that is being moved.
    if (input === document.activeElement && output.textContent === String(value)) return;
    steps = range.steps ?? null;
    const { min, max, step } = steps ? { min: 0, max: steps.length - 1, step: 1 } : range;
    Object.assign(input, { min, max, step, value: steps ? steps.indexOf(value) : value });
    say(value);
  };
  return { node, input, set };
}

function lengthSliders() {
  const { node, set } = slider("length", "sentence length", (n) => {
    Object.assign(shared.conditions, { length: n, source_length: n });
    emit("ask");
  });
  set(25, { min: 1, max: 200, step: 1 });
  const vocabulary = el("select", { id: "vocabulary" }, VOCABULARIES.map(([value, text]) => el("option", { value }, text)));
  vocabulary.addEventListener("change", () => {
    shared.conditions.vocabulary = vocabulary.value ? Number(vocabulary.value) : null;
    emit("ask");
  });
  byId("sliders").append(node, el("label", { class: "slider" }, el("span", {}, "vocabulary"), vocabulary));
}

/** The bounds of a slider, which cover the present value. */
function range(name, value) {
  if (name === "heads") return { steps: [...new Set([...HEADS, value])].sort((a, b) => a - b) };
  if (name === "d") return { min: 32, max: Math.max(1024, value), step: 32 };
  const whole = Number.isInteger(value) && name !== "p";
  return whole ? { min: Math.min(1, value), max: Math.max(12, 4 * value), step: 1 } : { min: Math.min(0, value), max: Math.max(0.9, value), step: 0.05 };
}

/** A slider for each setting of the text; `d` and `heads` always have one. Those that the text computes stand still. */
function settingSliders() {
  const usual = [{ name: "d", value: 512, plain: true }, { name: "heads", value: 8, plain: true }];
  const settings = new Map([...usual, ...shared.reply.settings].map((s) => [s.name, s]));
  for (const [name, { node }] of sliders) {
    if (settings.has(name)) continue;
    node.remove();
    sliders.delete(name);
  }
  for (const [name, { value, plain }] of settings) {
    if (!sliders.has(name)) add(name);
    const { node, input, set } = sliders.get(name);
    const about = shared.words.settings.find((s) => s.name === name)?.doc ?? "a setting of the text";
    node.title = plain ? about : `${about}; the text computes it`;
    input.disabled = !plain;
    if (!wanted.has(name)) set(value, range(name, value));
  }
}

function add(name) {
  const made = slider(name, name, (value) => {
    wanted.set(name, value);
    settle();
  });
  made.node.dataset.setting = name;
  sliders.set(name, made);
  byId("sliders").insertBefore(made.node, byId("sliders").querySelector("[data-name='length']"));
}

/** Writes what the sliders have asked for, one at a time: after each the places of the others are unknown. */
function settle() {
  for (const [name, value] of wanted) if (write(name, value)) wanted.delete(name);
}

function draw() {
  if (!shared.reply) return;
  settingSliders();
  settle();
  if (!shared.reply.ok) return;
  byId("plots").replaceChildren(...plots([["", shared.good.curves]]));
}

/** Plots of state and step over the number of words, for one text or several. */
export function plots(named) {
  const lines = (key) => named.map(([name, c]) => ({ name, points: c.length.map((n, k) => [n, c[key][k]]) }));
  return [
    plot({ title: "bytes of decoding state", x: "words written", series: lines("state_bytes") }),
    plot({ title: "multiply-adds of a step", x: "words written", series: lines("step") }),
  ];
}
