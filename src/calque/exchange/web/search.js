// Beam search for one sentence by the rule of calque/decode/search.py; with a beam of 1 it is greedy search.

const END = 2;
const f32 = Math.fround;

function penalty({ normalise, alpha }, length) {
  if (normalise === "none") return 1;
  return (normalise === "gnmt" ? (5 + length) / 6 : length) ** alpha;
}

function scoreOf(settings, logp, length) {
  return f32(f32(logp + f32(settings.word_penalty * (length - 1))) / f32(penalty(settings, length)));
}

// `step(words, parents)` reads a word for each hypothesis, behind those of the one that it continues, and gives the values and words of
// its best continuations, as many for each, and the value of its end. `given`: the words before the first one that is chosen, the begin
// symbol first. Returns at most `count` hypotheses {ids, score}, the best first.
export async function search(step, limit, settings, count, given) {
  const beam = settings.beam;
  const ids = given.slice(1);
  let live = Array.from({ length: beam }, (_, k) => ({ logp: k ? -Infinity : 0, ids, word: given.at(-1), parent: k }));
  for (const word of given.slice(0, -1)) await step(live.map(() => word), live.map((one) => one.parent));
  let finished = [];
  const last = Math.max(limit, ids.length) + 1;
  for (let t = given.length; t <= last; t++) {
    const { values, words, end } = await step(live.map((one) => one.word), live.map((one) => one.parent));
    const closing = t === last;
    const candidates = closing
      ? live.map((one, k) => ({ logp: f32(one.logp + end[k]), word: END, parent: k }))
      : live.flatMap((one, k) => each(values, words, live.length, k).map(([value, word]) => ({ logp: f32(one.logp + value), word, parent: k })));
    candidates.sort((a, b) => b.logp - a.logp || 0); // stable: of equals, the first
    const considered = candidates.filter((one) => one.logp > -Infinity).slice(0, 2 * beam);
    for (const one of considered.slice(0, beam)) {
      if (one.word !== END) continue;
      const logp = f32(one.logp + settings.word_penalty);
      finished.push({ ids: live[one.parent].ids, score: scoreOf(settings, logp, t) });
    }
    finished = finished.sort((a, b) => b.score - a.score).slice(0, beam);
    const onward = considered.filter((one) => one.word !== END).slice(0, beam);
    if (closing || !onward.length || isDone(settings, finished, onward[0].logp, t, limit, count)) break;
    const before = live;
    live = onward.map(({ logp, word, parent }) => ({ logp, word, parent, ids: [...before[parent].ids, word] }));
    while (live.length < beam) live.push({ logp: -Infinity, ids: [], word: END, parent: 0 });
  }
  return finished.slice(0, count);
}

function each(values, words, rows, k) {
  const n = values.length / rows;
  return Array.from({ length: n }, (_, j) => [values[k * n + j], Number(words[k * n + j])]);
}

function isDone(settings, finished, highest, t, limit, count) {
  if (settings.beam === 1) return finished.length > 0;
  const reached = finished.length >= count ? finished[count - 1].score : -Infinity;
  if (settings.normalise === "none") {
    const reward = settings.word_penalty;
    return reached >= f32(highest + f32(reward * (reward > 0 ? limit : t)));
  }
  if (finished.length < settings.beam) return false;
  return settings.stop === "full" || reached >= scoreOf(settings, highest, t + 1);
}
