// The translator in a thread of its own. Messages: {id, text, asked} or {stop: id} in, {id, texts} or {id, fault} out; {ready} with what
// the page needs to know, or {fault}, at first. A text gives way to the next one.

import { runtime } from "./runtime.js";
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
  return Translator.open(await runtime(), about, async (name) => new Uint8Array(await (await file(`model/${name}`)).arrayBuffer()));
}

const opening = open();
opening.then(
  ({ about: { languages, pairs } }) => postMessage({ ready: { languages, pairs } }),
  (fault) => postMessage({ fault: fault.message }),
);

addEventListener("message", async ({ data: { id, text, asked, stop } }) => {
  if (stop !== undefined) {
    if (stop === latest) latest = 0;
    return;
  }
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
