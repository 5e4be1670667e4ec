// The viewer of the documentation: text, picture and costs of one architecture, from figures that were written when the site was built.
import { byId, el } from "./dom.js";
import * as picture from "./picture.js";
import { emit, keysAt, on, point, rowsOf, shared } from "./shared.js";
import * as table from "./table.js";

const base = new URL(".", document.currentScript.src);
let names = [], held = null, wanted = "";

/** Called by the file of an architecture. */
window.calqueViewer = (name, data) => {
  if (name === wanted) show(data);
};

function begin() {
  const choice = byId("architecture");
  names = [...choice.options].map((option) => option.value);
  byId("viewer-costs").append(...table.tables());
  table.begin();
  picture.begin();
  on("ask", fold);
  on("point", ({ keys, from }) => mark(keys, from));
  on("goto", (key) => byId("viewer-text").querySelector(`[data-from="${rowsOf(key)[0]?.place?.from}"]`)?.scrollIntoView({ block: "nearest" }));
  choice.addEventListener("change", () => {
    window.history.replaceState(null, "", `#${choice.value}`);
    open(choice.value);
  });
  window.addEventListener("hashchange", fromLink);
  byId("viewer-text").addEventListener("pointermove", (event) => pointed(event.target));
  byId("viewer-text").addEventListener("pointerleave", () => point([], "text"));
  fromLink();
}

function fromLink() {
  let asked = "";
  try {
    asked = decodeURIComponent(location.hash.slice(1));
  } catch {} // a link that was cut off inside a character names nothing
  open(names.includes(asked) ? asked : wanted || byId("architecture").dataset.first);
}

/** Loads the file of an architecture: a script, since pages that are read from a disk may load no other kind. */
function open(name) {
  wanted = name;
  byId("architecture").value = name;
  const script = el("script", { src: new URL(`${name.split("/").map(encodeURIComponent).join("/")}.js`, base).href });
  script.addEventListener("load", () => script.remove());
  script.addEventListener("error", () => { byId("viewer-note").textContent = `the figures of ${name} cannot be read`; });
  document.head.append(script);
}

function show(data) {
  held = data;
  shared.folded = new Set();
  shared.text = data.text;
  byId("viewer-note").textContent = "";
  text();
  fold();
}

/** The picture with the repetitions that are folded now, of those that were drawn in advance. */
function fold() {
  const key = held.repeats.map((path) => Number(shared.folded.has(path))).join("");
  shared.reply = shared.good = { ...held, ok: true, picture: held.pictures[key] };
  emit("checked");
}

/** The text, cut wherever a layer begins or ends. */
function text() {
  const cuts = new Set([0, held.text.length]);
  for (const row of held.rows) for (const place of [row.place, row.outer]) if (place) cuts.add(place.from).add(place.to);
  for (const comment of held.text.matchAll(/#.*/g)) cuts.add(comment.index).add(comment.index + comment[0].length);
  const sorted = [...cuts].sort((a, b) => a - b);
  byId("viewer-text").replaceChildren(...sorted.slice(1).map((to, k) => {
    const part = held.text.slice(sorted[k], to);
    return el("span", { "data-from": sorted[k], "data-to": to, class: part.startsWith("#") ? "c-comment" : null }, part);
  }));
}

function pointed(node) {
  const from = node.dataset?.from;
  point(from === undefined ? [] : keysAt(Number(from) + 0.5), "text");
}

function mark(keys, from) {
  const places = rows(keys);
  let first = null;
  for (const span of byId("viewer-text").children) {
    const here = places.some((p) => p.from <= Number(span.dataset.from) && Number(span.dataset.to) <= p.to);
    span.classList.toggle("m-on", here);
    first ??= here ? span : null;
  }
  const holder = byId("viewer-text");
  if (first && from !== "text" && holder.scrollHeight > holder.clientHeight) holder.scrollTop = Math.max(0, first.offsetTop - 40);
}

const rows = (keys) => held.rows.filter((row) => keys.has(row.key) && row.place).map((row) => row.place);

begin();
