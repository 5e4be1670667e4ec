// The page as a whole: the text and its link, questions to the server, tabs, and what points at what.
import { get, post } from "./api.js";
import * as compare from "./compare.js";
import { byId, el } from "./dom.js";
import { about, costs, learn, makeEditor, markPlaces, setText, takeFix, underline } from "./editor.js";
import * as numbers from "./numbers.js";
import * as picture from "./picture.js";
import * as play from "./play.js";
import * as prove from "./prove.js";
import * as runs from "./runs.js";
import { emit, keysAt, on, point, rowsOf, shared } from "./shared.js";

const TABS = [["numbers", "Numbers"], ["compare", "Compare"], ["prove", "Prove"], ["play", "Play"], ["runs", "Runs"]];
const PAUSE = 40;
let editor, timer, linking, asking = null, pointed = [], differing = [], opened = "", pointing = "text";

async function main() {
  shared.words = await get("/api/words");
  learn(shared.words);
  editor = makeEditor(byId("editor"), "Definition", { onchange: changed, oncursor: cursor, onpoint: pointer });
  tabs();
  picture.begin();
  numbers.begin(panel("numbers"), setting);
  const secondZoo = compare.begin(panel("compare"), editor);
  prove.begin(panel("prove"));
  play.begin(panel("play"));
  runs.begin(panel("runs"));
  for (const choice of [byId("zoo"), secondZoo]) choice.append(...shared.words.zoo.map((z) => el("option", { value: z.name, title: z.about }, z.name)));
  byId("zoo").addEventListener("change", () => take({ name: byId("zoo").value, into: open }));
  byId("link").addEventListener("click", copyLink);
  on("ask", ask);
  on("take", take);
  on("goto", goTo);
  on("second", relink);
  on("point", ({ keys, from }) => {
    if (keys.size) pointing = from;
    if (from !== "text") pointAt(keys);
  });
  on("differ", (places) => {
    differing = places;
    remark();
  });
  on("use", (name) => runs.list(name).then(() => select("runs")));
  on("runs", (name) => runs.list(name));
  window.addEventListener("hashchange", fromLink);
  if (!fromLink()) setText(editor, shared.words.start);
  runs.list();
  await working();
}

/** Follows what was in progress when the page was loaded. */
async function working() {
  const { jobs } = await get("/api/jobs");
  for (const job of jobs) ({ play, prove, analyse: runs })[job.kind].again(job);
}

// -- checking

function changed(text) {
  if (text !== opened) byId("zoo").value = "";
  clearTimeout(timer);
  timer = setTimeout(ask, PAUSE);
  relink();
}

async function ask() {
  asking?.abort();
  asking = new AbortController();
  const text = editor.state.doc.toString(), mine = asking;
  const began = performance.now();
  let reply;
  try {
    reply = await post("/api/check", { text, folded: [...shared.folded], ...shared.conditions }, mine.signal);
  } catch (e) {
    if (e.name !== "AbortError") say(e.message);
    return;
  }
  if (mine !== asking) return;
  say("");
  Object.assign(shared, { text, reply });
  if (reply.ok) Object.assign(shared, { good: reply, folded: new Set(reply.picture.folded) });
  underline(editor, text, reply.faults);
  faults(reply, text);
  emit("checked");
  cursor(editor.state.selection.main.head, pointing === "text");
  document.body.dataset.checked = String(Math.round(performance.now() - began));
  document.body.dataset.hash = reply.hash ?? "faults";
}

function faults(reply, text) {
  byId("faults").replaceChildren(...reply.faults.map((f) => {
    const detail = el("details", {}, el("summary", {}, el("b", {}, `${f.severity} ${f.code}`), ` ${f.message}`), el("pre", {}, f.page));
    const jump = el("button", { type: "button", onclick: () => {
      editor.dispatch({ selection: { anchor: Math.min(f.from, editor.state.doc.length) }, scrollIntoView: true });
      editor.focus();
    } }, "Show");
    const fix = f.fix && el("button", { type: "button", class: "main fix", onclick: () => takeFix(editor, text, f.fix) }, `Fix: ${f.fix.words}`);
    return el("li", { class: f.severity }, detail, !f.fix && f.help && el("span", { class: "quiet" }, f.help), el("div", { class: "bar" }, fix, jump));
  }));
}

// -- what points at what

function cursor(offset, points = true) {
  const found = about(editor.state, offset), here = byId("here");
  const first = found?.rows[0];
  here.textContent = found ? [found.word.name, first ? costs(first) : found.setting?.doc ?? ""].filter(Boolean).join(": ") : "";
  if (points && editor.hasFocus) point(keysAt(offset), "text");
}

function pointer(offset) {
  point(offset === null ? [] : keysAt(offset), "text");
}

/** Marks the places of layers in the text. */
function pointAt(keys) {
  const rows = (shared.reply?.ok ? shared.good.rows : []).filter((row) => keys.has(row.key));
  pointed = rows.flatMap((r) => [r.place && { ...r.place, name: "m-on" }, r.outer && { ...r.outer, name: "m-outer" }].filter(Boolean));
  remark();
}

function remark() {
  const seen = new Set();
  markPlaces(editor, [...pointed, ...differing].filter((m) => !seen.has(JSON.stringify(m)) && seen.add(JSON.stringify(m))));
}

function goTo(key) {
  const place = rowsOf(key)[0]?.place;
  if (place) editor.dispatch({ selection: { anchor: place.from, head: place.to }, scrollIntoView: true });
}

/** Writes a setting into the text: in its place, or on a line of its own. False while the text is not checked: places are unknown. */
function setting(name, value) {
  const text = editor.state.doc.toString();
  if (text !== shared.text) return false;
  const there = shared.reply.settings.find((s) => s.name === name);
  if (there) {
    editor.dispatch({ changes: { from: there.from, to: there.to, insert: String(value) } });
    return true;
  }
  const version = text.match(/^[ \t]*adl[ \t]*=.*(\n|$)/m);
  const from = version ? version.index + version[0].length : 0;
  editor.dispatch({ changes: { from, insert: `${version && !version[0].endsWith("\n") ? "\n" : ""}${name} = ${value}\n` } });
  return true;
}

// -- texts from elsewhere, and links

function open(text) {
  opened = text.replaceAll("\r\n", "\n");
  setText(editor, text);
}

async function take({ name, into }) {
  if (!name) return;
  try {
    into((await get(`/api/zoo/${name}`)).text);
  } catch (e) {
    say(e.message);
  }
}

function fragment() {
  const second = compare.secondText();
  return `#text=${encodeURIComponent(editor.state.doc.toString())}${second.trim() ? `&second=${encodeURIComponent(second)}` : ""}`;
}

function relink() {
  clearTimeout(linking);
  linking = setTimeout(() => window.history.replaceState(null, "", fragment()), 300);
}

/** Takes the texts that the address holds; false where it holds none. */
function fromLink() {
  const held = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  if (!held.has("text")) return false;
  setText(editor, held.get("text"));
  compare.setSecond(held.get("second") ?? "");
  return true;
}

async function copyLink() {
  const link = location.origin + location.pathname + fragment();
  try {
    await navigator.clipboard.writeText(link);
    say("the link is copied");
  } catch {
    window.history.replaceState(null, "", link);
    say("copy the address of this page: it holds the text");
  }
}

function say(text) {
  byId("notice").textContent = text;
}

// -- tabs

const panel = (name) => byId(`panel-${name}`);

function tabs() {
  const list = byId("tabs");
  for (const [name, text] of TABS) {
    list.append(el("button", { role: "tab", id: `tab-${name}`, type: "button", "aria-controls": `panel-${name}`, onclick: () => select(name) }, text));
    byId("panels").append(el("div", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, tabindex: "-1" }));
  }
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = TABS.findIndex(([name]) => byId(`tab-${name}`) === document.activeElement);
    const name = TABS[(at + step + TABS.length) % TABS.length][0];
    select(name);
    byId(`tab-${name}`).focus();
  });
  select("numbers");
}

function select(chosen) {
  for (const [name] of TABS) {
    const on = name === chosen;
    byId(`tab-${name}`).setAttribute("aria-selected", String(on));
    byId(`tab-${name}`).tabIndex = on ? 0 : -1;
    panel(name).hidden = !on;
  }
  emit("tab", chosen);
}

main().catch((e) => say(e.message));
