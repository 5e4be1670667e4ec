// Trained runs: a sentence, its translation, the beam with its scores, and attention to the source.
import { follow, get, post, words } from "./api.js";
import { byId, el, fixed } from "./dom.js";

const LINES = [[50, "50 lines"], [200, "200 lines"], [1000, "1,000 lines"]];
let reply = null, asked = 0, analysis = null;

export function begin(panel) {
  const run = el("select", { id: "run" });
  const sentence = el("textarea", { id: "sentence", rows: 2 });
  sentence.value = "The train from Vienna arrives in Prague at 7:15 PM on Friday.";
  const beam = el("input", { id: "beam", type: "number", min: 1, max: 32, value: 4 });
  panel.append(
    el("div", { class: "bar" }, el("label", { class: "field" }, "Run ", run), el("label", { class: "field" }, "beam ", beam)),
    el("label", { class: "block" }, "Sentence ", sentence),
    el("div", { class: "bar" }, el("button", { id: "translate", type: "button", class: "main", onclick: () => translate(written(), 0) }, "Translate")),
    el("p", { id: "run-status", role: "status" }), el("ol", { id: "hypotheses", "aria-label": "Hypotheses" }),
    el("div", { class: "bar", id: "attention-choice", hidden: true },
      el("label", { class: "field" }, "Layer ", el("select", { id: "layer", onchange: heads })),
      el("label", { class: "field" }, "head ", el("select", { id: "head", onchange: attention }))),
    el("div", { class: "scroll", id: "attention" }),
    el("h3", {}, "Report"),
    el("p", { class: "quiet" }, "What calque analyse shows of this run on its test text: curves, quality by length, attention head by head, decoding time."),
    el("div", { class: "bar" },
      el("button", { id: "analyse", type: "button", class: "main", onclick: analyse }, "Analyse"),
      el("button", { id: "analyse-stop", type: "button", disabled: true, onclick: () => post(`/api/jobs/${analysis}/stop`) }, "Cancel"),
      el("label", { class: "field" }, "with ", el("select", { id: "analyse-lines" }, LINES.map(([n, text]) => el("option", { value: n, selected: n === 200 }, text)))),
      el("label", { class: "field" }, "beside ", el("select", { id: "beside" }))),
    el("progress", { id: "analyse-progress", max: 1, value: 0, hidden: true, "aria-label": "Progress of the analysis" }),
    el("p", { id: "analyse-status", role: "status" }),
    el("p", { id: "report", hidden: true }, el("a", { target: "_blank", rel: "noopener" }, "Open the report")),
  );
  sentence.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      translate(written(), 0);
    }
  });
}

/** Lists the runs, and chooses one of them. */
export async function list(chosen = null) {
  const { runs } = await get("/api/runs"), select = byId("run"), before = chosen ?? select.value;
  select.replaceChildren(...runs.map((name) => el("option", { value: name }, name)));
  if (runs.includes(before)) select.value = before;
  else if (runs.length) select.value = runs.at(-1);
  const beside = byId("beside"), other = beside.value;
  beside.replaceChildren(el("option", { value: "" }, "no other run"), ...runs.map((name) => el("option", { value: name }, name)));
  if (runs.includes(other)) beside.value = other;
  byId("translate").disabled = !runs.length;
  byId("analyse").disabled = !runs.length || !byId("analyse-stop").disabled;
  if (!runs.length) byId("run-status").textContent = "No run yet: train one under Play, or start the studio with a run folder.";
  else if (!reply) byId("run-status").textContent = "";
}

const written = () => ({ run: byId("run").value, sentence: byId("sentence").value, beam: Number(byId("beam").value) || 1 });

/** Translates what is written, or once more what was, for the attention of another hypothesis. */
async function translate(question, chosen) {
  const number = ++asked, status = byId("run-status");
  status.className = "";
  status.textContent = "translating …";
  try {
    const { run, sentence, beam } = question;
    const found = await post(`/api/translate?run=${encodeURIComponent(run)}`, { sentence, beam, chosen });
    if (number !== asked) return;
    reply = { ...found, question };
    status.textContent = reply.warnings.join(" ");
    show(chosen);
  } catch (e) {
    if (number !== asked) return;
    status.className = "fault";
    status.textContent = e.message;
    reply = null;
    byId("hypotheses").replaceChildren();
    byId("attention").replaceChildren();
    byId("attention-choice").hidden = true;
  }
}

function show(chosen) {
  byId("hypotheses").replaceChildren(...reply.hypotheses.map((h, k) =>
    el("li", {}, el("label", { class: k === chosen ? "chosen" : null },
      el("input", { type: "radio", name: "hypothesis", checked: k === chosen, onchange: () => translate(reply.question, k) }),
      el("span", { class: "words" }, h.text || "(nothing)"), el("span", { class: "quiet" }, ` score ${fixed(h.score, 3)}, log p ${fixed(h.logp, 2)}`)))));
  const layer = byId("layer"), before = layer.value;
  layer.replaceChildren(...reply.attention.map((a) => el("option", { value: a.path }, a.words)));
  const paths = reply.attention.map((a) => a.path);
  layer.value = paths.includes(before) ? before : paths.at(-1) ?? "";
  byId("attention-choice").hidden = !paths.length;
  heads();
}

function heads() {
  const found = reply.attention.find((a) => a.path === byId("layer").value), head = byId("head"), before = head.value;
  const count = found?.heads.length ?? 0;
  head.replaceChildren(el("option", { value: "" }, "mean of all"), ...Array.from({ length: count }, (_, k) => el("option", { value: k }, String(k + 1))));
  if (before && Number(before) < count) head.value = before;
  attention();
}

/** A row for each word of the translation, a column for each of the source; the darker, the more of it was read. */
function attention() {
  const found = reply.attention.find((a) => a.path === byId("layer").value), head = byId("head").value;
  if (!found) {
    byId("attention").replaceChildren(el("p", {}, reply.hypotheses[0]?.text ? "No layer of this run attends to the source." : ""));
    return;
  }
  const mean = (t, s) => (found.heads.some((h) => h[t][s] === null) ? null : found.heads.reduce((sum, h) => sum + h[t][s], 0) / found.heads.length);
  const weight = (t, s) => (head === "" ? mean(t, s) : found.heads[Number(head)][t][s]);
  const cell = (t, s) => {
    const w = weight(t, s), title = `${reply.target[t]} reads ${reply.source[s]}: ${fixed(w, 2)}`;
    const percent = w === null ? "not finite" : Math.round(100 * w);
    return el("td", { style: `--share: ${Math.round(100 * w)}%`, title }, w >= 0.05 ? percent : el("span", { class: "spoken" }, percent));
  };
  byId("attention").replaceChildren(el("table", { class: "attention" },
    el("caption", {}, "Attention in percent: rows are words of the translation, columns words of the source"),
    el("tr", {}, el("td", {}), reply.source.map((token) => el("th", { scope: "col" }, el("span", {}, token)))),
    reply.target.map((token, t) => el("tr", {}, el("th", { scope: "row" }, token), reply.source.map((_, s) => cell(t, s))))));
}

/** Has the report of the chosen run written. */
function analyse() {
  const runs = [byId("run").value, byId("beside").value].filter(Boolean);
  return watch(() => post("/api/analyse", { runs, lines: Number(byId("analyse-lines").value) }));
}

/** Follows an analysis that was in progress when the page was loaded. */
export const again = (begun) => watch(() => begun);

/** Follows an analysis, and shows the link of its report as soon as it has a section. */
async function watch(start) {
  const status = byId("analyse-status"), bar = byId("analyse-progress"), link = byId("report");
  byId("analyse").disabled = true;
  link.hidden = true;
  bar.hidden = false;
  bar.removeAttribute("value");
  status.className = "";
  status.textContent = "opening the run …";
  let sections = 1, drawn = 0;
  try {
    analysis = (await start()).job;
    byId("analyse-stop").disabled = false;
    link.firstChild.setAttribute("href", `/report/${encodeURIComponent(analysis)}/report.html`);
    await follow(analysis, 0, (event) => {
      if (event.kind === "begin") sections = event.sections;
      else if (event.kind === "note") status.textContent = event.text;
      else if (event.kind === "section") {
        link.hidden = ++drawn < 2; // the event of a section comes before its report is written
        bar.value = drawn / sections;
        status.textContent = `${event.title}: ${event.drawn ? "drawn" : "not drawn, the report says why"}`;
      } else if (event.kind === "end") {
        link.hidden = false;
        status.className = "good";
        status.textContent = "the report is finished";
      } else if (event.kind === "stopped") status.textContent = "cancelled";
      else if (event.kind === "fault") {
        status.className = "fault";
        status.textContent = event.faults.map(words).join("; ");
      }
    });
  } catch (e) {
    status.className = "fault";
    status.textContent = e.message;
  } finally {
    bar.hidden = true;
    byId("analyse").disabled = false;
    byId("analyse-stop").disabled = true;
  }
}
