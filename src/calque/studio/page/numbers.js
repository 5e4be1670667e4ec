// The figures of the text: sliders, tables, plots over the length.
import { byId, el } from "./dom.js";
import { plot } from "./plot.js";
import { emit, on, shared } from "./shared.js";
import * as table from "./table.js";

const HEADS = [1, 2, 4, 8, 16, 32];
const VOCABULARIES = [["", "no vocabulary"], ["2000", "2,000 words"], ["8000", "8,000 words"], ["32000", "32,000 words"]];
let write;

/** `setting(name, value)` changes a setting of the text. */
export function begin(parent, setting) {
  write = setting;
  parent.append(el("div", { class: "sliders", id: "sliders" }), ...table.tables(), el("div", { class: "plots", id: "plots" }));
  lengthSliders();
  table.begin();
  on("checked", draw);
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
    const about = shared.words.settings.find((s) => s.name === name)?.doc ?? "a setting of the text";
    const made = slider(name, name, { ...bounds, change: (v) => write(name, v) });
    made.dataset.setting = name;
    made.title = about;
    holder.insertBefore(made, holder.querySelector("[data-name='length']"));
  }
}

function draw() {
  if (!shared.reply) return;
  settingSliders();
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
