// What the parts of the page share: the text that was checked last, the layers that are pointed at, and who listens.

const listeners = {};

export const on = (name, call) => (listeners[name] ??= []).push(call);
export const emit = (name, value) => (listeners[name] ?? []).forEach((call) => call(value));

/** `words` of the language; `text` that was checked last and `reply` to it; `good`, the last reply without errors. */
export const shared = { words: null, text: "", reply: null, good: null, folded: new Set(), conditions: {} };

/** Points at layers by the keys of their rows; `from` names the part of the page that does. */
export const point = (keys, from) => emit("point", { keys: new Set(keys), from });

/** The rows that a key of the picture covers: itself, or all rows inside a folded repetition. */
export function rowsOf(key) {
  const rows = shared.good?.rows ?? [];
  const own = rows.filter((row) => row.key === key);
  return own.length ? own : rows.filter((row) => row.key.startsWith(`${key}.`));
}

/** The keys of the rows written at an offset: those of the shortest text around it. */
export function keysAt(offset) {
  if (!shared.reply?.ok) return [];
  let best = Infinity, keys = [];
  for (const row of shared.good.rows) {
    for (const place of [row.place, row.outer]) {
      if (!place || offset < place.from || offset > place.to) continue;
      const length = place.to - place.from;
      if (length < best) [best, keys] = [length, []];
      if (length === best) keys.push(row.key);
    }
  }
  return [...new Set(keys)];
}
