// Text to the ids of a sentencepiece model that normalises nothing but spaces, and back: what calque/data/codecs.py does with the
// library.

const SPACE = "\u2581";
const [UNKNOWN, SPECIALS] = [3, 4];
const UNKNOWN_COSTS = 10; // below the lowest score of a piece, as in sentencepiece

// All sums are of 32 bits there.
const f32 = Math.fround;

export class Pieces {
  // `about`: {kind: "bpe" or "unigram", pieces, scores, symbols, bytes: the id of each byte, or null}
  constructor({ kind, pieces, scores, symbols, bytes }) {
    this.pieces = pieces;
    this.symbols = symbols;
    this.size = pieces.length;
    this.kind = kind;
    this.bytes = bytes;
    this.byteOf = new Map((bytes ?? []).map((id, byte) => [id, byte]));
    this.ids = new Map();
    pieces.forEach((piece, id) => {
      if (id >= SPECIALS && !this.byteOf.has(id)) this.ids.set(piece, id);
    });
    const apart = new Set(symbols);
    const plain = [...this.ids].filter(([piece]) => !apart.has(piece)).map(([, id]) => scores[id]);
    const [lowest, highest] = plain.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
    this.unknownScore = f32(f32(lowest) - UNKNOWN_COSTS);
    const bytesIn = (text) => new TextEncoder().encode(text).length;
    this.scores = scores.map((x, id) => (apart.has(pieces[id]) ? f32(bytesIn(pieces[id]) * f32(highest) - 0.1) : f32(x)));
    this.longest = Math.max(1, ...[...this.ids.keys()].map((piece) => [...piece].length));
  }

  encode(line) {
    const text = written(line);
    if (!text) return [];
    const found = this.kind === "bpe" ? this.#merged(text) : this.#likeliest(text);
    const ids = [];
    let before = false;
    for (const piece of found) {
      const id = this.ids.get(piece);
      if (id !== undefined) ids.push(id);
      else if (this.bytes) ids.push(...[...new TextEncoder().encode(piece)].map((byte) => this.bytes[byte]));
      else if (!before) ids.push(UNKNOWN); // several unknown pieces in a row are one
      before = id === undefined;
    }
    return ids;
  }

  decode(ids) {
    const parts = [];
    let bytes = [];
    const flush = () => {
      if (bytes.length) parts.push(new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(bytes)));
      bytes = [];
    };
    for (const id of ids) {
      if (this.byteOf.has(id)) {
        bytes.push(this.byteOf.get(id));
        continue;
      }
      flush();
      if (id >= UNKNOWN) parts.push(this.pieces[id].replaceAll(SPACE, " "));
    }
    flush();
    return parts.join("").replace(/^ +/, "").replace(/[\r\n]/g, " ");
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
        const id = this.ids.get(piece);
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
      const id = this.ids.get(parts[k].piece + parts[k + 1].piece);
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

// A line as sentencepiece reads it: one character in front of each word in place of spaces.
function written(line) {
  const plain = line.toWellFormed().replaceAll("\t", " ").replace(/ +/g, " ").replace(/^ | $/g, "");
  let end = plain.length;
  while (end > 0 && [SPACE, " "].includes(plain[end - 1])) end--;
  return end && SPACE + plain.slice(0, end).replaceAll(" ", SPACE);
}
