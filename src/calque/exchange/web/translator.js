// From text to text: lines, sentences, pieces, search, and back.

import { Graphs } from "./graphs.js";
import { Pieces } from "./pieces.js";
import { Reading } from "./reading.js";
import { search } from "./search.js";
import { between, sentencesIn } from "./sentences.js";

export class Translator {
  static async open(ort, about, load) {
    const made = new Translator();
    made.about = about;
    made.reading = new Reading(new Pieces(about.source), about.decode);
    made.target = new Pieces(about.target);
    made.graphs = await Graphs.open(ort, about, load);
    return made;
  }

  // At most `count` translations of a text, the best first, each made of the best, the second best and so on of its sentences. `source`
  // and `target` are codes of languages, by default those of the first pair; `wait` is called between sentences, and may throw.
  async translate(text, { count = 1, source, target, wait = async () => {} } = {}) {
    const wanted = (one) => (source ?? one.source) === one.source && (target ?? one.target) === one.target;
    const pair = this.about.pairs.find(wanted);
    if (!pair) throw new Error(`it does not translate from ${source} into ${target}`);
    const { tag } = pair;
    const made = Array.from({ length: Math.min(count, this.about.decode.beam) }, () => "");
    for (const [k, line] of text.split(/(\r\n|\r|\n)/).entries()) {
      if (k % 2) made.forEach((before, n) => (made[n] = before + line));
      else for (const part of this.#parts(line, tag)) await this.#append(made, part, tag, wait);
    }
    return made.filter((one, n) => made.indexOf(one) === n);
  }

  async #append(made, [sentence, space, follows], tag, wait) {
    const core = sentence.trim();
    if (!core) {
      made.forEach((before, n) => (made[n] = before + sentence + space));
      return;
    }
    await wait();
    const found = await this.#sentence(core, made.length, tag);
    const at = sentence.indexOf(core);
    const behind = sentence.slice(at + core.length) + space;
    made.forEach((before, n) => {
      const one = found[Math.min(n, found.length - 1)];
      made[n] = before + sentence.slice(0, at) + one + (follows ? between(core, behind, one) : behind);
    });
  }

  // The sentences of a line that fit the model, each with the white space behind it, and whether more follow.
  #parts(line, tag) {
    const parts = sentencesIn(line).flatMap(([sentence, space]) => this.#fitting(sentence, space, tag));
    return parts.map(([sentence, space], k) => [sentence, space, k + 1 < parts.length]);
  }

  #fitting(sentence, space, tag) {
    const most = this.about.source_positions - Number(this.about.source_end);
    if (this.reading.encode(sentence, tag).ids.length <= most) return [[sentence, space]];
    const cut = middle(sentence);
    if (cut === null) return [[sentence, space]];
    return [...this.#fitting(...cut[0], tag), ...this.#fitting(cut[1], space, tag)];
  }

  // The translations of a sentence, the best first.
  async #sentence(line, count, tag) {
    const { decode, source_positions: positions, source_end: ends, words, begin } = this.about;
    const { ids: all, lowers } = this.reading.encode(line, tag);
    const ids = all.slice(0, positions - Number(ends)); // one word that is longer than all that fits
    if (!ids.length) return [""];
    const limit = Math.min(Math.ceil(decode.max_length_factor * ids.length) + decode.max_length_offset, words - 1);
    const found = await search(await this.graphs.begin(ids), limit, decode, count, begin);
    if (!found.length) return [""]; // the model computes no numbers for it
    const texts = found.map((one) => this.target.decode(one.ids));
    return lowers ? texts.map((text) => this.reading.raised(text)) : texts;
  }
}

// A sentence in two: at the white space nearest to its middle, behind a comma or the like if one is in its middle half; null if there is
// none.
function middle(sentence) {
  const spaces = [...sentence.matchAll(/(?<=\S)\s+(?=\S)/gu)];
  const half = sentence.length / 2;
  const far = (one) => Math.abs(one.index - half);
  const nearest = (some) => some.reduce((a, b) => (a === null || far(b) < far(a) ? b : a), null);
  const pauses = spaces.filter((one) => /[,;:–—，、；：]/u.test(sentence[one.index - 1]) && far(one) <= half / 2);
  const at = nearest(pauses) ?? nearest(spaces);
  return at && [[sentence.slice(0, at.index), at[0]], sentence.slice(at.index + at[0].length)];
}
