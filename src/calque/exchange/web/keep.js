// Keeps the page and the model in the browser. FILES and VERSION stand above.

const NAME = `calque ${registration.scope}`;
const anew = (file) => new Request(file, { cache: "reload" }); // the browser may still hold the files of another version

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open(`${NAME} ${VERSION}`).then((cache) => cache.addAll(FILES.map(anew))));
});

addEventListener("activate", (event) => {
  const old = async () => (await caches.keys()).filter((name) => name.startsWith(`${NAME} `) && !name.endsWith(` ${VERSION}`));
  event.waitUntil(old().then((names) => Promise.all(names.map((name) => caches.delete(name)))));
});

addEventListener("fetch", (event) => {
  const kept = caches.open(`${NAME} ${VERSION}`).then((cache) => cache.match(event.request, { ignoreSearch: true }));
  event.respondWith(kept.then((found) => found ?? fetch(event.request)));
});
