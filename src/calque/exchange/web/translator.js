// From text to text: lines, sentences, pieces, search, and back.

import { Graphs } from "./graphs.js";
import { Pieces } from "./pieces.js";
import { Reading } from "./reading.js";
import { search } from "./search.js";
import { between, sentencesIn } from "./sentences.js";
import { trim, WHITE } from "./white.js";

const PAUSES = ",;:–—，、；：";
const PAUSE = new RegExp(`[${PAUSES}]`, "u");
const SPACES = new RegExp(`(?<=[^${WHITE}])[${WHITE}]+(?=[^${WHITE}])`, "gu");
const BEHIND_A_PAUSE = new RegExp(`(?<=[${PAUSES}])(?=[^])`, "gu");

export class Translator {
  static async open(ort, about, load) {
    const made = new Translator();
    made.about = about;
    made.reading = new Reading(new Pieces(about.source), about.decode);
    made.target = new Pieces(about.target ?? about.source);
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
      else await this.#line(made, line, tag, wait);
    }
    return made.filter((one, n) => made.indexOf(one) === n);
  }

  // Puts the translations of a line behind what is made already.
  async #line(made, line, tag, wait) {
    const sentences = sentencesIn(line);
    for (const [k, sentence] of sentences.entries()) {
      await wait();
      const parts = this.fitting(...sentence, tag);
      for (const [n, part] of parts.entries()) {
        await wait();
        await this.#append(made, part, k + 1 < sentences.length || n + 1 < parts.length, tag);
      }
    }
  }

  // `follows`: whether the line goes on.
  async #append(made, [sentence, space], follows, tag) {
    const core = trim(sentence);
    if (!core) {
      made.forEach((before, n) => (made[n] = before + sentence + space));
      return;
    }
    const found = await this.#sentence(core, made.length, tag);
    const at = sentence.indexOf(core);
    const behind = sentence.slice(at + core.length) + space;
    made.forEach((before, n) => {
      const one = found[Math.min(n, found.length - 1)];
      made[n] = before + sentence.slice(0, at) + one + (follows ? between(core, behind, one) : behind);
    });
  }

  // A sentence, or parts of it that fit the model, each with the white space behind it.
  fitting(sentence, space, tag = "") {
    const most = this.about.source_positions - Number(this.about.source_end);
    const short = sentence.length <= most * this.reading.pieces.longest; // of a long one, nobody has to count the pieces
    if (short && this.reading.encode(sentence, tag).ids.length <= most) return [[sentence, space]];
    const cut = middle(sentence);
    if (cut === null) return [[sentence, space]];
    return [...this.fitting(...cut[0], tag), ...this.fitting(cut[1], space, tag)];
  }

  // The translations of a sentence, the best first.
  async #sentence(line, count, tag) {
    const { decode, source_positions: positions, source_end: ends, words, begin } = this.about;
    const { ids: all, lowers } = this.reading.encode(line, tag);
    const ids = this.reading.pieces.cut(all, positions - Number(ends)); // one character may be more pieces than fit
    if (!ids.length) return [""];
    const limit = Math.min(Math.ceil(decode.max_length_factor * ids.length) + decode.max_length_offset, words - 1);
    const found = await search(await this.graphs.begin(ids), limit, decode, count, [begin, ...this.target.begins]);
    if (!found.length) return [""]; // the model computes no numbers for it
    const texts = found.map((one) => this.target.decode(one.ids));
    return lowers ? texts.map((text) => this.reading.raised(text)) : texts;
  }
}

// A sentence in two, with the white space between: at white space near its middle, best behind a comma or the like; else behind a
// comma or the like; else anywhere. null for one character.
function middle(sentence) {
  const half = sentence.length / 2;
  const far = (one) => Math.abs(one.index - half);
  const nearest = (some) => some.reduce((a, b) => (a === null || far(b) < far(a) ? b : a), null);
  const spaces = [...sentence.matchAll(SPACES)];
  const pauses = spaces.filter((one) => PAUSE.test(sentence[one.index - 1]) && far(one) <= half / 2);
  const at = nearest(pauses) ?? nearest(spaces) ?? nearest([...sentence.matchAll(BEHIND_A_PAUSE)]);
  if (at) return [[sentence.slice(0, at.index), at[0]], sentence.slice(at.index + at[0].length)];
  const characters = [...sentence];
  const first = characters.slice(0, characters.length / 2).join("");
  return first ? [[first, ""], sentence.slice(first.length)] : null;
}
