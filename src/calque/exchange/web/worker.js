// The translator in a thread of its own. Messages: {id, text, asked} in, {id, texts} or {id, fault} out; {ready} or {fault} at first.
// A text gives way to the next one.

import { Translator } from "./translator.js";

class Outdated extends Error {}

let latest = 0;

async function file(path) {
  const reply = await fetch(new URL(`../${path}`, import.meta.url));
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${reply.statusText}`);
  return reply;
}

async function open() {
  const about = await (await file("model/model.json")).json();
  const ort = await import(new URL("../runtime/ort.wasm.min.mjs", import.meta.url).href);
  // Several threads share memory, which browsers allow pages that are isolated from others.
  ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
  return Translator.open(ort, about, async (name) => new Uint8Array(await (await file(`model/${name}`)).arrayBuffer()));
}

const opening = open();
opening.then(
  () => postMessage({ ready: true }),
  (fault) => postMessage({ fault: fault.message }),
);

addEventListener("message", async ({ data: { id, text, asked } }) => {
  latest = id;
  const wait = async () => {
    await new Promise((resolve) => setTimeout(resolve)); // newer messages come in
    if (id !== latest) throw new Outdated();
  };
  try {
    const translator = await opening;
    await wait();
    postMessage({ id, texts: await translator.translate(text, { ...asked, wait }) });
  } catch (fault) {
    if (!(fault instanceof Outdated)) postMessage({ id, fault: fault.message });
  }
});
