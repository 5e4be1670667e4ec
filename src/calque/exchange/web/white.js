// White space as Python has it, for regular expressions; that of JavaScript has one character more and five fewer.

export const WHITE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

const BEGIN = new RegExp(`^[${WHITE}]*`, "u");
const LAST = new RegExp(`[${WHITE}]$`, "u");

export function trimEnd(text) {
  let end = text.length;
  while (end > 0 && LAST.test(text[end - 1])) end--;
  return text.slice(0, end);
}

export const trim = (text) => trimEnd(text).replace(BEGIN, "");
