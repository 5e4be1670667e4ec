// A short training of the text: loss and BLEU as they come, sample translations, stop and go on.
import { follow, get, post, words } from "./api.js";
import { byId, el, fixed } from "./dom.js";
import { plot } from "./plot.js";
import { emit, shared } from "./shared.js";

const CLASSIC = "domhan2018/transformer";
let plays = [], current = null;

export function begin(panel) {
  const seconds = el("select", { id: "play-seconds" },
    [[10, "10 seconds"], [30, "30 seconds"], [120, "2 minutes"], [600, "10 minutes"]].map(([value, text]) => el("option", { value, selected: value === 120 }, text)));
  panel.append(
    el("div", { class: "bar" },
      el("button", { id: "play", type: "button", class: "main", onclick: () => play(Number(seconds.value)) }, "Train"),
      el("button", { id: "play-stop", type: "button", disabled: true, onclick: () => post(`/api/jobs/${current.job}/stop`) }, "Stop"),
      el("button", { id: "play-on", type: "button", disabled: true, onclick: () => goOn(Number(seconds.value)) }, "Go on"),
      el("label", { class: "field" }, "for ", seconds),
      el("label", { class: "field" }, el("input", { type: "checkbox", id: "play-classic" }), " then the classic Transformer for as long")),
    el("progress", { id: "play-progress", max: 1, value: 0, "aria-label": "Progress of the training" }),
    el("p", { id: "play-status", role: "status" }, "Trains this text on an English-German corpus that Calque generates."),
    el("div", { class: "plots", id: "play-plots" }), el("div", { class: "bar" }, el("button", { id: "play-use", type: "button", disabled: true, onclick: () => emit("use", current.run) }, "Translate with it")),
    el("div", { id: "samples" }),
  );
}

const busy = (is) => {
  byId("play").disabled = is;
  byId("play-stop").disabled = !is;
  byId("play-on").disabled = is || !current?.job;
};

/** The classic Transformer at the sizes of a text: its d and heads, and its n or two blocks. */
async function classic(settings) {
  const size = (name) => settings.find((s) => s.name === name)?.value;
  let { text: other } = await get(`/api/zoo/${CLASSIC}`);
  for (const [name, usual] of [["d", "512"], ["heads", "8"], ["n", "2"]]) {
    other = other.replace(new RegExp(`^${name} = .*$`, "m"), `${name} = ${size(name) ?? usual}`);
  }
  return size("p") !== undefined ? other.replace(/^n = /m, `p = ${size("p")}\nn = `) : other;
}

async function play(seconds) {
  plays = [];
  const { text, reply } = shared, both = byId("play-classic").checked;
  const ended = await train("this text", text, seconds);
  if (both && ended) await train("classic", await classic(reply.settings), seconds);
}

/** Trains one text to the end; false where it was stopped or failed. */
async function train(name, text, seconds) {
  begun(name);
  return watch(() => post("/api/play", { text, seconds }));
}

function begun(name) {
  current = { name, loss: [], bleu: [], seen: 0, run: null, ended: false };
  plays.push(current);
}

/** Follows a training that was in progress when the page was loaded, from its begin. */
export function again({ job, seconds }) {
  begun("training");
  return watch(() => ({ job }), seconds);
}

async function goOn(seconds) {
  if (plays.length > 1) plays = [current];
  const whole = current.ended ? current.seconds + seconds : Math.max(current.seconds, seconds);
  await watch(() => post(`/api/jobs/${current.job}/resume`, { seconds: Math.min(1800, whole) }), whole);
}

async function watch(start, seconds = Number(byId("play-seconds").value)) {
  const status = byId("play-status"), mine = current;
  mine.seconds = seconds;
  mine.ended = false;
  status.className = "";
  status.textContent = "starting …";
  byId("play-use").disabled = true;
  busy(true);
  byId("play-stop").disabled = true;
  try {
    mine.job = (await start()).job;
    busy(true);
    mine.seen = await follow(mine.job, mine.seen, (event) => show(mine, event));
  } catch (e) {
    status.className = "fault";
    status.textContent = e.message;
  }
  busy(false);
  byId("play-use").disabled = !mine.run;
  emit("runs", mine.run);
  return mine.ended;
}

function show(mine, event) {
  const status = byId("play-status");
  mine.ended = event.kind === "end";
  status.className = { end: "good", fault: "fault" }[event.kind] ?? "";
  if (event.kind === "note") status.textContent = event.text;
  else if (event.kind === "progress") {
    byId("play-progress").value = event.fraction ?? 0;
    mine.loss.push([event.update, event.loss]);
    status.textContent = `${mine.name}: update ${event.update.toLocaleString("en")}, loss ${fixed(event.loss, 3)}, ${Math.round(event.tokens_per_second).toLocaleString("en")} words per second`;
    draw();
  } else if (event.kind === "validation") {
    mine.bleu.push([event.update, event.bleu]);
    samples(event);
    draw();
  } else if (event.kind === "stopped") {
    mine.run = event.run ? `studio: ${event.run}` : null;
    status.textContent = event.update ? `stopped after update ${event.update.toLocaleString("en")}` : "stopped before the first update";
  } else if (event.kind === "end") {
    mine.run = `studio: ${event.run}`;
    byId("play-progress").value = 1;
    status.textContent = `${mine.name}: ${event.update.toLocaleString("en")} updates in ${Math.round(event.seconds)} s, validation perplexity ${fixed(event.perplexity, 2)}`;
  } else if (event.kind === "fault") status.textContent = event.faults.map(words).join("; ");
}

function draw() {
  const series = (key) => plays.map((p) => ({ name: p.name, points: p[key] }));
  byId("play-plots").replaceChildren(
    plot({ title: "loss per word, in nats", x: "updates", series: series("loss") }),
    plot({ title: "BLEU of 50 sentences", x: "updates", series: series("bleu"), high: 100 }),
  );
}

function samples({ update, bleu, samples: some }) {
  byId("samples").replaceChildren(
    el("h3", {}, `After update ${update.toLocaleString("en")}${bleu === null ? "" : `, BLEU ${bleu.toFixed(1)}`}`),
    el("dl", {}, some.flatMap((s) => [el("dt", {}, s.source), el("dd", { class: "reference" }, s.reference), el("dd", {}, s.translation || "(nothing)")])),
  );
}
