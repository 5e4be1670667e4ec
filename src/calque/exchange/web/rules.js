// The rules by which a model of sentencepiece replaces characters before it cuts a text, such as those of Unicode's NFKC.

const [LEAF, WIDE] = [1 << 8, 1 << 9];
const decoder = new TextDecoder("utf-8", { ignoreBOM: true }); // U+FEFF is a character

export class Rules {
  // `rules`: what the model has, in base64: the size of a trie of bytes, the trie, and the texts that its leaves point to, each ended by
  // a zero; or nothing. `symbols` are never changed.
  constructor(rules, symbols) {
    const bytes = Uint8Array.from(atob(rules), (c) => c.charCodeAt(0));
    const size = bytes.length ? new DataView(bytes.buffer).getUint32(0, true) : 0;
    this.units = new Uint32Array(bytes.buffer.slice(4, 4 + size));
    this.texts = bytes.subarray(4 + size);
    this.symbols = symbols.map((one) => [one, new TextEncoder().encode(one)]);
    this.symbols.sort(([, a], [, b]) => b.length - a.length);
  }

  // The text in parts: symbols, what was replaced, and single characters.
  read(text) {
    if (!this.units.length && !this.symbols.length) return [...text];
    const bytes = new TextEncoder().encode(text);
    const parts = [];
    for (let at = 0; at < bytes.length; ) {
      const [part, length] = this.#symbol(bytes, at) ?? this.#replaced(bytes, at) ?? character(bytes, at);
      parts.push(part);
      at += length;
    }
    return parts;
  }

  #symbol(bytes, at) {
    const found = this.symbols.find(([, own]) => own.every((byte, k) => bytes[at + k] === byte));
    return found && [found[0], found[1].length];
  }

  // The longest rule that fits. A unit of the trie (Darts-clone) has the byte that leads to it, where its children are, and whether the
  // first of them is a leaf.
  #replaced(bytes, at) {
    if (!this.units.length) return null;
    let found = null;
    let node = offset(this.units[0]);
    for (let k = at; k < bytes.length; k++) {
      node ^= bytes[k];
      const unit = this.units[node];
      if (unit === undefined || (unit & 0x800000ff) !== bytes[k]) break;
      node ^= offset(unit);
      if (unit & LEAF) found = [this.units[node] & 0x7fffffff, k + 1 - at];
    }
    if (!found) return null;
    const [start, length] = found;
    return [decoder.decode(this.texts.subarray(start, this.texts.indexOf(0, start))), length];
  }
}

const offset = (unit) => (unit >>> 10) << ((unit & WIDE) >>> 6);

// Bytes of a character, by the first one.
export const lengthOf = (first) => (first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4);

function character(bytes, at) {
  const length = lengthOf(bytes[at]);
  return [decoder.decode(bytes.subarray(at, at + length)), length];
}
