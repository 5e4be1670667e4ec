// The laws on the text, law by law.
import { follow, post, words } from "./api.js";
import { byId, el } from "./dom.js";
import { shared } from "./shared.js";

const LAWS = {
  equal: "any division into steps gives what one pass gives; so do gradients",
  causal: "outputs do not depend on later inputs",
  padding: "nothing in padding affects the result",
  batch: "the neighbours in a batch change no bit",
  idle: "rows that do not advance keep their state",
  reorder: "after a search reorders its hypotheses, each continues its own history",
  state: "states report their bytes and share no memory",
  model: "embeddings, both sides and output layer work together",
  shape: "widths, parameters and canonical text are those of the checked tree",
  cost: "the declared cost is the real one",
  record: "a recorder changes nothing",
  train: "dropout has the same distribution in both forms",
};
const SIGNS = { waiting: "·", running: "…", yes: "✓", no: "✗" };
const SPOKEN = { waiting: "waiting", running: "in progress", yes: "holds", no: "is broken" };
let job = null;

export function begin(panel) {
  const width = el("select", { id: "prove-width" }, el("option", { value: "32" }, "at d = 32, seconds"), el("option", { value: "" }, "at its own width, slower"));
  panel.append(
    el("div", { class: "bar" }, el("button", { id: "prove", type: "button", class: "main", onclick: () => prove(width.value ? Number(width.value) : null) }, "Prove"),
      el("button", { id: "prove-stop", type: "button", disabled: true, onclick: () => post(`/api/jobs/${job}/stop`) }, "Cancel"),
      el("label", { class: "field" }, "Width ", width)),
    el("p", { id: "prove-status", role: "status" }, "Every law of the contract, tested on this very text with random weights."),
    el("ol", { id: "laws", class: "laws" }),
  );
}

const prove = (width) => watch(() => post("/api/prove", { text: shared.text, width }));

/** Follows a proof that was in progress when the page was loaded. */
export const again = (begun) => watch(() => begun);

async function watch(start) {
  const laws = byId("laws"), status = byId("prove-status");
  laws.replaceChildren();
  status.className = "";
  status.textContent = "building the network …";
  byId("prove").disabled = true;
  try {
    job = (await start()).job;
    byId("prove-stop").disabled = false;
    await follow(job, 0, show);
  } catch (e) {
    status.textContent = e.message;
  } finally {
    byId("prove").disabled = false;
    byId("prove-stop").disabled = true;
  }
}

function show(event) {
  const laws = byId("laws"), status = byId("prove-status");
  if (event.kind === "begin") {
    status.textContent = `testing at d = ${event.width}`;
    laws.replaceChildren(...event.laws.map(({ law, side }) =>
      el("li", {}, el("span", { class: "sign", role: "img" }), el("b", {}, law), el("span", { class: "quiet" }, ` ${side}: `), LAWS[law] ?? "", el("div", { class: "why" }))));
    for (const line of laws.children) set(line, "waiting");
    if (laws.firstChild) set(laws.firstChild, "running");
  } else if (event.kind === "law") {
    const line = laws.children[event.number];
    set(line, event.passed ? "yes" : "no");
    line.querySelector(".why").textContent = event.message;
    if (laws.children[event.number + 1]) set(laws.children[event.number + 1], "running");
  } else if (event.kind === "end") {
    status.className = event.passed ? "good" : "fault";
    status.textContent = `${event.passed ? "every law holds" : "a law is broken"}, ${event.seconds} s`;
  } else if (event.kind === "stopped") {
    status.textContent = "cancelled";
    for (const line of laws.querySelectorAll(".running")) set(line, "waiting");
  } else if (event.kind === "fault") {
    status.className = "fault";
    status.textContent = event.faults.map(words).join("; ");
  }
}

function set(line, state) {
  line.className = state;
  const sign = line.querySelector(".sign");
  sign.textContent = SIGNS[state];
  sign.setAttribute("aria-label", SPOKEN[state]);
}
