// A second text beside the first: what changed, and what it costs.
import { post, words } from "./api.js";
import { byId, el, figure, full } from "./dom.js";
import { makeEditor, markPlaces, setText, underline } from "./editor.js";
import { plots } from "./numbers.js";
import { emit, on, shared } from "./shared.js";

let second, first, timer, sequence = 0, visible = false;

/** `editor` is that of the first text. */
export function begin(panel, editor) {
  first = editor;
  const choice = el("select", { id: "second-zoo" }, el("option", { value: "" }, "an architecture …"));
  choice.addEventListener("change", () => emit("take", { name: choice.value, into: setSecond }));
  panel.append(
    el("div", { class: "bar" }, el("label", { class: "field" }, "Second text ", choice),
      el("button", { type: "button", onclick: () => setSecond(first.state.doc.toString()) }, "Copy the first")),
    el("div", { id: "second" }), el("p", { id: "compare-fault", role: "status" }),
    el("ol", { id: "edits", "aria-label": "What changed" }), el("div", { class: "scroll" }, el("table", { id: "compared", class: "totals" })),
    el("div", { class: "plots", id: "compared-plots" }),
  );
  second = makeEditor(byId("second"), "Second text", { onchange: later });
  on("checked", later);
  on("tab", (name) => {
    visible = name === "compare";
    later();
  });
  return choice;
}

export const setSecond = (text) => setText(second, text);
export const secondText = () => second.state.doc.toString();

function later() {
  clearTimeout(timer);
  timer = setTimeout(compare, 80);
  emit("second");
}

const stem = (path) => path.replace(/\[\d+\]/g, "");

async function compare() {
  const b = secondText(), number = ++sequence;
  clear();
  if (!visible || !b.trim() || !shared.reply) return;
  const a = shared.text, checked = await post("/api/check", { text: b, ...shared.conditions }).catch((e) => ({ fault: e.message }));
  if (number !== sequence) return;
  if (checked.fault) {
    byId("compare-fault").textContent = checked.fault;
    return;
  }
  underline(second, b, checked.faults);
  if (!checked.ok || !shared.reply.ok) {
    byId("compare-fault").textContent = checked.ok ? "the first text has errors" : words(checked.faults[0]);
    return;
  }
  const found = await post("/api/compare", { a, b, ...shared.conditions }).catch((e) => ({ fault: e.message }));
  if (number !== sequence) return;
  if (found.fault) {
    byId("compare-fault").textContent = found.fault;
    return;
  }
  show(found, checked);
}

function clear() {
  byId("compare-fault").textContent = "";
  byId("edits").replaceChildren();
  byId("compared").replaceChildren();
  byId("compared-plots").replaceChildren();
  emit("changed", new Set());
  emit("differ", []);
  markPlaces(second, []);
}

function show(found, checked) {
  byId("compare-fault").textContent = found.equal ? "equal: both compute the same" : "";
  byId("edits").replaceChildren(...found.edits.map((edit) =>
    el("li", {}, edit.text, edit.parameters ? ` (${edit.parameters > 0 ? "+" : "−"}${full(Math.abs(edit.parameters))} parameters)` : "")));
  const head = el("tr", {}, ["", "first", "second", "more"].map((t) => el("th", { scope: "col" }, t)));
  byId("compared").replaceChildren(head, ...found.totals.map(difference));
  byId("compared-plots").replaceChildren(...plots([["first", found.curves[0]], ["second", found.curves[1]]]));
  const inSecond = new Set(), inFirst = new Set();
  for (const edit of found.edits) {
    const here = ["insert", "wrap"].includes(edit.kind) ? inSecond : inFirst;
    edit.places.forEach((path) => here.add(stem(path)));
  }
  const places = (rows, keys, name) => rows.filter((r) => keys.has(r.key) && r.place).map((r) => ({ ...r.place, name }));
  emit("changed", inFirst);
  emit("differ", places(shared.good.rows, inFirst, "m-gone"));
  markPlaces(second, places(checked.rows, inSecond, "m-new"));
}

function difference(t) {
  const [a, b] = t.values, number = typeof a === "number" && typeof b === "number";
  const changed = JSON.stringify(a) !== JSON.stringify(b);
  const more = number && changed ? `${b > a ? "+" : "−"}${full(Math.abs(b - a))}` : "";
  return el("tr", { class: changed ? "differs" : null }, el("th", { scope: "row" }, t.words), el("td", {}, figure(a)), el("td", {}, figure(b)), el("td", {}, more));
}
