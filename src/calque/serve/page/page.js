// A page to translate in. What comes from the translator is put in as text, never as HTML.

import * as engine from "./engine.js";

const at = (id) => document.getElementById(id);
const [source, target, text, output] = ["source", "target", "text", "output"].map(at);
let languages = [];
let limit = Infinity;
let timer = 0;
let running = null;
let sending = null;

function options(select, codes, chosen) {
  select.replaceChildren(
    ...codes.map((code) => {
      const option = document.createElement("option");
      option.value = code;
      option.textContent = languages.find((one) => one.code === code)?.name ?? code;
      return option;
    }),
  );
  if (codes.includes(chosen)) select.value = chosen;
}

const targetsOf = (code) => languages.find((one) => one.code === code)?.targets ?? [];

function showTargets(chosen) {
  options(target, targetsOf(source.value), chosen);
  at("swap").disabled = !targetsOf(target.value).includes(source.value);
  text.lang = source.value;
  output.lang = target.value;
}

function say(message, wrong = false) {
  at("status").textContent = message;
  at("status").classList.toggle("wrong", wrong);
}

function count() {
  const characters = [...text.value].length;
  at("count").textContent = characters;
  at("count").classList.toggle("wrong", characters > limit);
  return characters;
}

function show(translated, others = []) {
  output.textContent = translated;
  at("copy").disabled = !translated;
  at("alternatives").hidden = !others.length;
  at("list").replaceChildren(
    ...others.map((one) => {
      const item = document.createElement("li");
      item.dir = "auto";
      item.textContent = one;
      return item;
    }),
  );
}

// What is shown is never the translation of another text.
function refused(message) {
  show("");
  say(message, true);
}

async function translate() {
  clearTimeout(timer);
  running?.abort();
  if (!text.value.trim()) {
    show("");
    say("");
    return;
  }
  const mine = (running = new AbortController());
  say("Translating …");
  try {
    const asked = {
      text: text.value,
      source: source.value,
      target: target.value,
      others: at("others").checked ? 3 : 0,
      key: at("key").value,
    };
    const answer = await engine.translate(asked, mine.signal);
    if (mine !== running) return;
    show(answer.text, answer.others);
    say("");
  } catch (fault) {
    if (fault.name !== "AbortError") refused(fault.message);
  }
}

function later() {
  count();
  clearTimeout(timer);
  timer = setTimeout(translate, 500);
}

text.addEventListener("input", later);
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    translate();
  }
});
at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
source.addEventListener("change", () => {
  showTargets(target.value);
  translate();
});
target.addEventListener("change", () => {
  showTargets(target.value);
  translate();
});
at("others").addEventListener("change", translate);
at("swap").addEventListener("click", () => {
  const [from, to] = [source.value, target.value];
  if (output.textContent) text.value = output.textContent;
  source.value = to;
  showTargets(from);
  count();
  translate();
});
at("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(output.textContent);
    say("Copied");
  } catch {
    say("This browser does not allow copying here.", true);
  }
});

function sayOfFile(message, wrong = false) {
  at("sending").textContent = message;
  at("sending").classList.toggle("wrong", wrong);
}

async function translateFile() {
  sending?.abort();
  const mine = (sending = new AbortController());
  const [file] = at("file").files;
  at("fetch").hidden = true;
  at("send").disabled = !file;
  if (!file) return sayOfFile("");
  sayOfFile("Translating …");
  try {
    const asked = { file, source: source.value, target: target.value, key: at("key").value };
    at("fetch").href = await engine.translateFile(asked, mine.signal);
    at("fetch").hidden = false;
    sayOfFile("");
  } catch (fault) {
    if (fault.name !== "AbortError") sayOfFile(fault.message, true);
  }
}

at("file").addEventListener("change", () => {
  sending?.abort();
  at("fetch").hidden = true;
  at("send").disabled = !at("file").files.length;
  sayOfFile("");
});
at("send").addEventListener("click", translateFile);

async function start() {
  say("Loading …");
  try {
    const about = await engine.about();
    languages = about.languages;
    limit = about.limit ?? Infinity;
    at("limit").textContent = about.limit === null ? "" : `of ${limit} `;
    at("keyed").hidden = !about.keyed;
    at("filed").hidden = !about.files?.length;
    at("file").accept = about.files?.join(",") ?? "";
    at("interface").hidden = about.interface === null;
    at("link").href = about.interface ?? "";
    const sources = languages.filter((one) => one.targets.length).map((one) => one.code);
    options(source, sources, about.source);
    showTargets(about.target);
    say("");
    const linked = new URLSearchParams(location.hash.slice(1)).get("q");
    if (linked) text.value = linked;
    count();
    if (text.value) translate();
  } catch (fault) {
    say(fault.message, true);
  }
}

start();
