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

  // At most `count` translations of a text, the best first, each made of the best, the second best and so on of its sentences. `wait` is
  // called between sentences, and may throw.
  async translate(text, count = 1, wait = async () => {}) {
    const wanted = Math.min(count, this.about.decode.beam);
    const made = Array.from({ length: wanted }, () => "");
    for (const [k, line] of text.split(/(\r\n|\r|\n)/).entries()) {
      if (k % 2) made.forEach((before, n) => (made[n] = before + line));
      else for (const part of this.#parts(line)) await this.#append(made, part, wait);
    }
    return made.filter((one, n) => made.indexOf(one) === n);
  }

  async #append(made, [sentence, space, follows], wait) {
    const core = sentence.trim();
    if (!core) {
      made.forEach((before, n) => (made[n] = before + sentence + space));
      return;
    }
    await wait();
    const found = await this.sentence(core, made.length);
    const at = sentence.indexOf(core);
    const behind = sentence.slice(at + core.length) + space;
    made.forEach((before, n) => {
      const one = found[Math.min(n, found.length - 1)];
      made[n] = before + sentence.slice(0, at) + one + (follows ? between(core, behind, one) : behind);
    });
  }

  // The sentences of a line that fit the model, each with the white space behind it, and whether more follow.
  #parts(line) {
    const parts = sentencesIn(line).flatMap(([sentence, space]) => this.#fitting(sentence, space));
    return parts.map(([sentence, space], k) => [sentence, space, k + 1 < parts.length]);
  }

  #fitting(sentence, space) {
    const most = this.about.source_positions - Number(this.about.source_end);
    if (this.reading.encode(sentence).ids.length <= most) return [[sentence, space]];
    const cut = middle(sentence);
    if (cut === null) return [[sentence, space]];
    return [...this.#fitting(...cut[0]), ...this.#fitting(cut[1], space)];
  }

  // The translations of a sentence, the best first.
  async sentence(line, count) {
    const { decode, source_positions: positions, source_end: ends, words, begin } = this.about;
    const { ids: all, lowers } = this.reading.encode(line);
    const ids = all.slice(0, positions - Number(ends)); // one word that is longer than all that fits
    if (!ids.length) return [""];
    const limit = Math.min(Math.ceil(decode.max_length_factor * ids.length) + decode.max_length_offset, words - 1);
    const found = await search(await this.graphs.begin(ids), limit, decode, count, begin);
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
