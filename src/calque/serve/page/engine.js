// The translator of this page: the server that it comes from.

class Refused extends Error {}

async function answered(reply) {
  const answer = await reply.json();
  if (!reply.ok) throw new Refused(answer.error ?? "The server refuses this text.");
  return answer;
}

async function from(path, options) {
  try {
    return await answered(await fetch(path, options));
  } catch (fault) {
    if (fault instanceof Refused || fault.name === "AbortError") throw fault;
    throw new Error("The server does not answer.");
  }
}

// The languages with the targets of each, the first pair, the most characters of a text, whether a key is needed, the endings of files that
// are translated, and the page of the interface for programs.
export async function about() {
  const [languages, settings] = await Promise.all(["languages", "frontend/settings"].map((path) => from(path)));
  const [source, target] = ["source", "target"].map((side) => settings.language[side].code);
  return { languages, source, target, limit: settings.charLimit, keyed: settings.keyRequired, files: settings.supportedFilesFormat, interface: "docs" };
}

// The translation, and so many others where there are. Throws what is to be said.
export async function translate({ text, source, target, others, key }, signal) {
  const asked = { q: text, source, target, alternatives: others, api_key: key };
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked), signal };
  const answer = await from("translate", options);
  return { text: answer.translatedText, others: answer.alternatives ?? [] };
}

// Where the translation of a file can be fetched. Throws what is to be said.
export async function translateFile({ file, source, target, key }, signal) {
  const body = new FormData();
  for (const [name, value] of Object.entries({ source, target, api_key: key, file })) body.append(name, value);
  const { translatedFileUrl } = await from("translate_file", { method: "POST", body, signal });
  // Behind a proxy the server does not know its own address.
  return `download_file/${translatedFileUrl.split("/").at(-1)}`;
}
