// How a line is read before it is cut: white space, lines in capitals and titles, a symbol in front. As calque/data/spaced_codec.py,
// recased_codec.py and tagged_codec.py.

import { trimEnd, WHITE } from "./white.js";

const NO_WIDTH = "\u00ad\u200b\u2060\ufeff";
const OTHER = new RegExp(`((?![ \\t])[${WHITE}${NO_WIDTH}])`, "u");
const BETWEEN = /([ \t]+)/;
const BYTE = /^<0x[0-9A-F]{2}>$/;
const UNKNOWN = 3;
const [LONG, CAPITALS, MOST, MANY] = [4, 3, 0.85, 12];
const SENTENCE_ENDS = /[.!?]["'”’»)\]]*$/;
const isUpper = (c) => /^\p{Uppercase}$/u.test(c);
const isLetter = (c) => /^\p{L}$/u.test(c);
const lettersOf = (text) => [...text].filter(isLetter);
const cased = (word) => word.toLowerCase() !== word.toUpperCase();
const wordsOf = (line) => line.split(new RegExp(`[${WHITE}]+`, "u")).filter(Boolean);
const less = ([a, b], [c, d]) => a < c || (a === c && b < d);
const same = ([a, b], [c, d]) => a === c && b === d;

export class Reading {
  constructor(pieces, { recase }) {
    this.pieces = pieces;
    this.recase = recase;
    this.symbols = new Set(pieces.symbols);
    const kept = ["<unk>", ...pieces.symbols].map((one) => one.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    this.kept = new RegExp(`(${kept.join("|")})`);
  }

  // The ids of a line, with a symbol in front if there is a `tag`, and whether it is in capitals and was read in small letters.
  encode(line, tag = "") {
    const words = wordsOf(line);
    const tagged = tag && words.length && !this.symbols.has(words[0]) ? `${tag} ${line}` : line;
    const read = this.recase ? this.#inKnownLetters(tagged) : tagged;
    return { ids: this.#encode(read), lowers: read !== tagged && inCapitals(this.#withoutSymbols(tagged)) };
  }

  // A translation of a line in capitals.
  raised(text) {
    return text.split(this.kept).map((part, k) => (k % 2 ? part : part.toUpperCase())).join("");
  }

  #encode(line) {
    return this.pieces.encode(this.#spaced(line));
  }

  #spaced(line) {
    return OTHER.test(line) ? line.split(BETWEEN).map((word) => this.#read(word)).join("") : line;
  }

  #read(word) {
    const parts = word.split(OTHER);
    for (let k = 1; k < parts.length; k += 2) {
      const [before, character, behind] = parts.slice(k - 1, k + 2);
      const instead = NO_WIDTH.includes(character) ? "" : " ";
      if (less(this.#strange(before + instead + behind), this.#strange(before + character + behind))) parts[k] = instead;
    }
    return parts.join("");
  }

  #strange(text) {
    const ids = this.pieces.encode(text);
    return [ids.filter((id) => id === UNKNOWN || BYTE.test(this.pieces.pieces[id])).length, ids.length];
  }

  #withoutSymbols(line) {
    return this.symbols.size ? wordsOf(line).filter((word) => !this.symbols.has(word)).join(" ") : line;
  }

  #inKnownLetters(line) {
    if (!inCapitals(this.#withoutSymbols(line))) return this.#isTitle(line) ? this.#inSmall(line, true) : line;
    const small = this.#inSmall(line, false);
    return less(this.#cost(...wordsOf(small)), this.#cost(...wordsOf(line))) ? small : line;
  }

  #isTitle(line) {
    const end = trimEnd(line);
    if (end.endsWith(".") && !end.endsWith("..")) return false;
    const words = wordsOf(this.#withoutSymbols(line)).filter((word) => lettersOf(word).length && cased(word));
    const begins = (word) => isUpper(lettersOf(word)[0]);
    if (!words.every((word) => begins(word) || lettersOf(word).length < LONG)) return false;
    const behind = words.slice(1).filter(begins);
    const enough = behind.length >= CAPITALS && 3 * (behind.length + 1) >= 2 * words.length;
    return enough && 2 * behind.filter((word) => this.#prefersSmall(word)).length > behind.length;
  }

  #inSmall(line, title) {
    let first = true;
    const parts = line.split(new RegExp(`([${WHITE}]+)`, "u"));
    for (let k = 0; k < parts.length; k += 2) {
      const word = parts[k];
      if (this.symbols.has(word) || !/[\p{L}\p{N}]/u.test(word)) {
        first ||= SENTENCE_ENDS.test(word);
        continue;
      }
      if (cased(word) && !(title && hasInnerCapital(word))) {
        const form = this.#form(word);
        parts[k] = first ? this.#begin(form) : form;
      }
      first = SENTENCE_ENDS.test(word);
    }
    return parts.join("");
  }

  #begin(form) {
    const capital = capitalised(form);
    return this.#cost(capital)[0] <= this.#cost(form)[0] ? capital : form;
  }

  #form(word) {
    const small = word.toLowerCase();
    const capital = capitalised(small);
    const form = this.#prefers(small, capital) ? small : capital;
    return less(this.#cost(word), this.#cost(form)) ? word : form;
  }

  #prefersSmall(word) {
    const [own, other] = [word.toLowerCase(), word].map((one) => this.#encode(one));
    const known = own.length === 1 && other.length === 1 && own[0] < other[0];
    return less(this.#cost(word.toLowerCase()), this.#cost(word)) || known;
  }

  #prefers(small, capital) {
    const costs = [this.#cost(small), this.#cost(capital)];
    if (!same(...costs)) return less(...costs);
    const [ids, others] = [small, capital].map((one) => this.#encode(one));
    const letters = lettersOf(small).length;
    const sum = (some) => some.reduce((a, b) => a + b, 0);
    return (ids.length === 1 && letters > 1) || (letters > 1 && letters <= ids.length) || sum(ids) <= sum(others);
  }

  #cost(...words) {
    const ids = words.flatMap((word) => this.#encode(word));
    return [ids.filter((id) => id === UNKNOWN).length, ids.length];
  }
}

function inCapitals(line) {
  const text = line.replaceAll("ß", "");
  const whole = /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
  if (!whole && [...text].filter(isUpper).length < MANY * MOST) return false;
  const letters = lettersOf(text);
  if (letters.some((c) => !cased(c) && !/\p{Lowercase}/u.test(c))) return false;
  const capitals = letters.filter(isUpper).length;
  return (capitals === letters.length && letters.length > 0) || capitals >= MOST * Math.max(MANY, letters.length);
}

function hasInnerCapital(word) {
  const characters = [...word];
  return characters.some((c, k) => k > 0 && isUpper(c) && isLetter(characters[k - 1]));
}

function capitalised(word) {
  const characters = [...word];
  const k = characters.findIndex(isLetter);
  if (k < 0) return word;
  const raised = characters[k].toUpperCase();
  if ([...raised].length === 1) characters[k] = raised;
  return characters.join("");
}
