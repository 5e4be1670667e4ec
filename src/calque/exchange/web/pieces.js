// Text to ids, and back: what calque/data/codecs.py and imported_codec.py do.

import { longest, Sentencepiece } from "./sentencepiece.js";
import { trim } from "./white.js";

const [UNKNOWN, SPECIALS] = [3, 4];
const NOTHING = /^[ \t\u2581]*$/;
const MARK = /^>>[^]*?<</;

export class Pieces {
  // `about`: {model: see Sentencepiece, listed: of an imported model its ids, as ImportedPieces; else the model's are the ids}
  constructor({ model, listed }) {
    this.model = new Sentencepiece(model);
    this.listed = listed;
    this.pieces = listed ? listed.tokens : model.pieces;
    this.size = this.pieces.length;
    this.longest = longest(this.pieces);
    this.begins = listed ? listed.begins : [];
    this.symbols = this.model.symbols;
    if (!listed) return;
    this.symbols = listed.marks ? this.pieces.filter((piece) => piece.startsWith(">>") && piece.endsWith("<<")) : [];
    this.ids = new Map(this.pieces.map((piece, id) => [piece, id]).slice(SPECIALS));
    this.silent = new Set([0, 1, 2, ...listed.hidden]);
  }

  encode(line) {
    if (!this.listed) return this.model.cut(line.replaceAll("\t", " ")).map(([, id]) => id);
    const inner = this.#imported(line).map((piece) => this.ids.get(piece) ?? UNKNOWN);
    const { begins, first, last } = this.listed;
    return inner.length ? [...begins, ...first, ...inner, ...last] : [...begins];
  }

  // The pieces of a line of an imported model; a mark such as `>>de<<` in front is one.
  #imported(line) {
    if (NOTHING.test(line)) return [];
    const text = this.listed.text + line;
    const mark = (this.listed.marks && text.match(MARK)?.[0]) || "";
    const pieces = this.model.cut(text.slice(mark.length)).map(([piece]) => piece);
    return mark ? [mark, ...pieces] : pieces;
  }

  // At most so many ids, with those that stand behind every line.
  cut(ids, most) {
    const behind = this.listed?.last.length ?? 0;
    const ends = behind && behind < most && most < ids.length;
    return ends ? [...ids.slice(0, most - behind), ...ids.slice(-behind)] : ids.slice(0, most);
  }

  decode(ids) {
    if (!this.listed) return this.model.join(ids.map((id) => this.pieces[id])).replace(/[\r\n]/g, " ");
    const shown = ids.filter((id) => !this.silent.has(id));
    return trim(this.model.join(shown.map((id) => (id === UNKNOWN ? "\u2581<unk>" : this.pieces[id]))));
  }
}
