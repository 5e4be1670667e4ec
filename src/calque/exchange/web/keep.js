// Keeps the page and the model in the browser. FILES and VERSION stand above.

const NAME = `calque ${registration.scope}`;

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open(`${NAME} ${VERSION}`).then((cache) => cache.addAll(FILES)));
});

addEventListener("activate", (event) => {
  const old = async () => (await caches.keys()).filter((name) => name.startsWith(`${NAME} `) && !name.endsWith(` ${VERSION}`));
  event.waitUntil(old().then((names) => Promise.all(names.map((name) => caches.delete(name)))));
});

addEventListener("fetch", (event) => {
  const kept = caches.open(`${NAME} ${VERSION}`).then((cache) => cache.match(event.request, { ignoreSearch: true }));
  event.respondWith(kept.then((found) => found ?? fetch(event.request)));
});
