// The translator of this page: a model in a thread of its own, without a server.

const at = (path) => new URL(`../${path}`, import.meta.url);
const worker = new Worker(at("translator/worker.js"), { type: "module" });
const asked = new Map();
let number = 0;
let failed = null;
let begun = null;
const ready = new Promise((resolve, reject) => (begun = { resolve, reject }));

function fail(reason) {
  failed = new Error(`The translator cannot start: ${reason}`);
  begun.reject(failed);
  for (const one of asked.values()) one.reject(failed);
  asked.clear();
}

worker.addEventListener("error", (event) => fail(event.message ?? "a file is missing, or this browser is too old"));
worker.addEventListener("message", ({ data: { id, texts, fault, ready: told } }) => {
  if (id === undefined) return fault === undefined ? begun.resolve(told) : fail(fault);
  const one = asked.get(id);
  asked.delete(id);
  if (fault === undefined) one?.resolve(texts);
  else one?.reject(new Error(`The translator failed: ${fault}`));
});

// The languages with the targets of each, the first pair; no limit of characters, no key, no interface for programs.
export async function about() {
  // Kept by the browser, so that the page works without a network. Where pages are not secure, browsers have no such place.
  navigator.serviceWorker?.register(at("keep.js")).catch(() => {});
  const { languages, pairs } = await ready;
  const [{ source, target }] = pairs;
  return { languages, source, target, limit: null, keyed: false, interface: null };
}

export function translate({ text, source, target, others }, signal) {
  if (failed) return Promise.reject(failed);
  const id = ++number;
  return new Promise((resolve, reject) => {
    asked.set(id, { resolve: ([first = "", ...more]) => resolve({ text: first, others: more }), reject });
    signal.addEventListener("abort", () => {
      asked.delete(id);
      worker.postMessage({ stop: id });
      reject(signal.reason);
    });
    // While the page loads it knows no languages.
    worker.postMessage({ id, text, asked: { source: source || undefined, target: target || undefined, count: 1 + others } });
  });
}
