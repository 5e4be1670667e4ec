// A model of sentencepiece: text to pieces, and back, as the library does it.

import { lengthOf, Rules } from "./rules.js";

const SPACE = "\u2581";
const [NORMAL, UNKNOWN, CONTROL, SYMBOL, , BYTE] = "123456";
const UNKNOWN_COSTS = 10; // below the lowest score of a piece

// All sums are of 32 bits there.
const f32 = Math.fround;
const encoder = new TextEncoder();

// Characters of the longest piece.
export const longest = (pieces) => pieces.reduce((most, piece) => Math.max(most, [...piece].length), 1);

const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

// The text of bytes, with U+FFFD for each that belongs to no character.
function textOf(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const length = lengthOf(bytes[at]);
    try {
      text += strict.decode(Uint8Array.from(bytes.slice(at, at + length)));
      at += length;
    } catch {
      text += "\ufffd";
      at += 1;
    }
  }
  return text;
}

export class Sentencepiece {
  // `about`: {kind: "bpe" or "unigram", pieces, scores, types: a digit for each piece, unknown: what is written for the unknown piece,
  // rules: see Rules, prefix: whether a space stands in front of a text, squeeze: whether one space stands for several}
  constructor({ kind, pieces, scores, types, unknown, rules, prefix, squeeze }) {
    Object.assign(this, { kind, pieces, types, unknown, prefix, squeeze });
    const all = pieces.map((piece, id) => [piece, id]);
    const of = (...kinds) => all.filter(([, id]) => kinds.includes(types[id]));
    this.ids = new Map(all);
    this.cutInto = new Map(of(NORMAL, SYMBOL));
    this.symbols = of(SYMBOL).map(([piece]) => piece);
    this.unknownId = types.indexOf(UNKNOWN);
    this.byteOf = new Map(of(BYTE).map(([piece, id]) => [id, Number(piece.slice(1, -1))])); // <0x41>
    this.bytes = [];
    for (const [id, byte] of this.byteOf) this.bytes[byte] = id;
    this.rules = new Rules(rules, this.symbols);
    const plain = of(NORMAL).map(([, id]) => scores[id]);
    this.unknownScore = f32(f32(plain.reduce((a, b) => Math.min(a, b), Infinity)) - UNKNOWN_COSTS);
    const ofSymbol = (piece) => f32(0.1 * (encoder.encode(piece).length - 1)); // above that of every other piece
    this.scores = scores.map((x, id) => (types[id] === SYMBOL ? ofSymbol(pieces[id]) : f32(x)));
    this.longest = longest([...this.cutInto.keys()]);
  }

  // The pieces of a text, as [piece, id]. Several unknown pieces in a row are one.
  cut(text) {
    const read = this.#normalised(text);
    if (!read) return [];
    const found = this.kind === "bpe" ? this.#merged(read) : this.#likeliest(read);
    const made = [];
    for (const piece of found) {
      const id = this.cutInto.get(piece);
      if (id !== undefined) made.push([piece, id]);
      else if (this.bytes.length) made.push(...[...encoder.encode(piece)].map((byte) => [this.pieces[this.bytes[byte]], this.bytes[byte]]));
      else if (made.length && made.at(-1)[1] === this.unknownId) made.at(-1)[0] += piece;
      else made.push([piece, this.unknownId]);
    }
    return made;
  }

  // The text of pieces; a piece of another model is written as it is.
  join(pieces) {
    let text = "";
    let bytes = [];
    let begun = false; // whether the space in front has been left out
    const flush = () => {
      text += textOf(bytes);
      bytes = [];
    };
    for (const piece of pieces) {
      const id = this.ids.get(piece) ?? this.unknownId;
      if (this.byteOf.has(id)) {
        bytes.push(this.byteOf.get(id));
        continue;
      }
      flush();
      if (this.types[id] === CONTROL) continue;
      if (id === this.unknownId) {
        text += piece === this.pieces[id] ? this.unknown : piece;
        continue;
      }
      const bare = !begun && !text && (this.prefix || this.squeeze) && piece.startsWith(SPACE);
      begun ||= bare && !this.squeeze;
      text += piece.slice(Number(bare)).replaceAll(SPACE, " ");
    }
    flush();
    return text;
  }

  // A text as it is cut: normalised by the model's rules, with one character for each space and in front of the text.
  #normalised(text) {
    const parts = this.rules.read(text.toWellFormed());
    if (this.squeeze) while (parts.length && parts[0] === " ") parts.shift();
    if (!parts.length) return "";
    let made = this.prefix ? SPACE : "";
    let before = this.squeeze;
    for (const part of parts) {
      const kept = before ? part.replace(/^ +/, "") : part;
      made += kept.replaceAll(" ", SPACE);
      if (kept) before = kept.endsWith(" ");
      before &&= this.squeeze;
    }
    let end = made.length;
    if (this.squeeze) while (end > 0 && made[end - 1] === SPACE) end--;
    return made.slice(0, end);
  }

  // The pieces whose scores have the largest sum; of equal sums the one that is found first.
  #likeliest(text) {
    const characters = [...text];
    const best = Array.from({ length: characters.length + 1 }, () => ({ from: -1, score: 0, piece: "" }));
    for (let from = 0; from < characters.length; from++) {
      let alone = false;
      let piece = "";
      const reach = (to, score) => {
        const sum = f32(score + best[from].score);
        if (best[to].from < 0 || sum > best[to].score) best[to] = { from, score: sum, piece };
      };
      for (let to = from + 1; to <= Math.min(characters.length, from + this.longest); to++) {
        piece += characters[to - 1];
        const id = this.cutInto.get(piece);
        if (id === undefined) continue;
        alone ||= to === from + 1;
        reach(to, this.scores[id]);
      }
      piece = characters[from];
      if (!alone) reach(from + 1, this.unknownScore);
    }
    const found = [];
    for (let to = characters.length; to > 0; to = best[to].from) found.push(best[to].piece);
    return found.reverse();
  }

  // Characters, of which the neighbours whose piece has the highest score become one, the first of equals, until none is a piece.
  #merged(text) {
    const parts = this.#characters(text);
    const scoreOf = (k) => {
      if (k < 0 || k + 1 >= parts.length || parts[k].kept || parts[k + 1].kept) return -Infinity;
      const id = this.cutInto.get(parts[k].piece + parts[k + 1].piece);
      return id === undefined ? -Infinity : this.scores[id];
    };
    const scores = parts.map((_, k) => scoreOf(k));
    for (;;) {
      let at = -1;
      let highest = -Infinity;
      for (let k = 0; k < scores.length; k++) if (scores[k] > highest) [at, highest] = [k, scores[k]];
      if (at < 0) return parts.map((part) => part.piece);
      parts.splice(at, 2, { piece: parts[at].piece + parts[at + 1].piece, kept: false });
      scores.splice(at + 1, 1);
      for (const k of [at - 1, at]) if (k >= 0) scores[k] = scoreOf(k);
    }
  }

  // Symbols stay whole.
  #characters(text) {
    const parts = [];
    for (let at = 0; at < text.length; ) {
      const symbols = this.symbols.filter((one) => text.startsWith(one, at));
      const kept = symbols.length > 0;
      const piece = kept ? symbols.reduce((a, b) => (b.length > a.length ? b : a)) : String.fromCodePoint(text.codePointAt(at));
      parts.push({ piece, kept });
      at += piece.length;
    }
    return parts;
  }
}
