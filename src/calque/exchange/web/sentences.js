// Divides a line into sentences, and finds the white space that follows a translation, by the rules of calque/decode/divided.py.

import { WHITE } from "./white.js";

const MARKS = ".!?…؟۔।॥։።፧။។៕";
const ENDS = new RegExp(
  `(?<![${MARKS}])[${MARKS}]+["'”’»)\\]]*([${WHITE}]+)|(?<![。！？｡])[。！？｡]+[”’」』）]*([${WHITE}]*)`,
  "gu",
);
const OPENING = /["'“‘«([¿¡]*/uy;
const WIDE = /[\u3000-\u312f\u31a0-\u9fff\uf900-\ufaff\uff00-\uff9f\uffe0-\uffee\u{1b000}-\u{1b16f}\u{20000}-\u{3ffff}]/u;
const WORD = /[\p{L}\p{N}]/u;
const LAST = /[\p{L}\p{N}]*$/u;
const SHORT = /^(\p{L}|[0-9]{1,2}|[A-Z][bcdfghjklmnpqrstvwxz]{1,3})$/u;
const WINDOW = 11; // more than five characters

// Pairs of a sentence and the white space behind it.
export function sentencesIn(line) {
  const found = [];
  let began = 0;
  for (const match of line.matchAll(ENDS)) {
    const at = match.index;
    const behind = at + match[0].length;
    const before = [...line.slice(Math.max(0, at - WINDOW), at)].slice(-5).join("");
    const initial = line[at] === "." && SHORT.test(before.match(LAST)[0]);
    OPENING.lastIndex = behind;
    const opening = OPENING.exec(line)[0];
    const [follows = ""] = line.slice(behind + opening.length, behind + opening.length + 2);
    if (!follows || initial || /\p{Lowercase}/u.test(follows)) continue;
    const end = behind - (match[1] ?? match[2] ?? "").length;
    found.push([line.slice(began, end), line.slice(end, behind)]);
    began = behind;
  }
  return [...found, [line.slice(began), ""]];
}

// What follows a translation: Chinese and Japanese sentences have no space between them.
export function between(sentence, space, translation) {
  const [wide, becomes] = [isWide(sentence), isWide(translation)];
  if (wide && !becomes && translation) return space || " ";
  return becomes && !wide && space === " " ? "" : space;
}

function isWide(text) {
  for (const character of [...text].reverse()) {
    if (WIDE.test(character)) return true;
    if (WORD.test(character)) return false;
  }
  return false;
}
