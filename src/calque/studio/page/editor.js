// The editor: colours, completion, errors with their fixes, and a page for the word under the pointer.
import {
  EditorState, EditorView, StateEffect, StateField, Decoration, StreamLanguage, HighlightStyle, autocompletion, bracketMatching,
  completionKeymap, defaultKeymap, drawSelection, highlightActiveLine, history, historyKeymap, hoverTooltip, keymap, lineNumbers,
  lintGutter, lintKeymap, setDiagnostics, syntaxHighlighting, tags,
} from "./vendor/codemirror.js";
import { get } from "./api.js";
import { el, full } from "./dom.js";
import { keysAt, shared } from "./shared.js";

const ATOMS = new Set(["yes", "no", "none"]);
const known = { layers: new Map(), prelude: new Map(), settings: new Map() };

/** The words of the language, from the server. */
export function learn(words) {
  for (const kind of Object.keys(known)) known[kind] = new Map(words[kind].map((w) => [w.name, w]));
}

// -- colours

const language = StreamLanguage.define({
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/#.*/)) return "comment";
    if (stream.match(/->|→/)) return "operator";
    if (stream.match(/@\s*[A-Za-z_]\w*/)) return "labelName";
    if (stream.match(/\d+\.?\d*(e[+-]?\d+)?|\.\d+/i)) return "number";
    const first = stream.sol() || /^\s*$/.test(stream.string.slice(0, stream.start));
    const name = stream.match(/[A-Za-z_]\w*/);
    if (!name) return stream.next() && null;
    if (first && stream.match(/\s*(\([^)]*\)\s*)?=/, false)) return "definition";
    if (stream.match(/\s*=/, false)) return "propertyName";
    return known.layers.has(name[0]) ? "keyword" : known.prelude.has(name[0]) ? "macroName"
      : ATOMS.has(name[0]) || known.settings.has(name[0]) ? "atom" : "variableName";
  },
  tokenTable: { definition: tags.definition(tags.variableName) },
  languageData: { commentTokens: { line: "#" } },
});

const colours = HighlightStyle.define([
  { tag: tags.comment, class: "c-comment" }, { tag: tags.operator, class: "c-operator" }, { tag: tags.labelName, class: "c-label" },
  { tag: tags.number, class: "c-number" }, { tag: tags.keyword, class: "c-layer" }, { tag: tags.macroName, class: "c-prelude" },
  { tag: tags.atom, class: "c-atom" }, { tag: tags.propertyName, class: "c-argument" },
  { tag: tags.definition(tags.variableName), class: "c-definition" },
]);

// -- places that other parts of the page point at

const setMarks = StateEffect.define();
const marks = StateField.define({
  create: () => Decoration.none,
  update(value, change) {
    value = value.map(change.changes);
    for (const effect of change.effects) {
      if (effect.is(setMarks)) value = Decoration.set(effect.value.map((m) => Decoration.mark({ class: m.name }).range(m.from, m.to)), true);
    }
    return value;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** Marks places of an editor's text: [{from, to, name}]. */
export function markPlaces(view, places) {
  const end = view.state.doc.length;
  const inside = places.filter((p) => p.from < p.to && p.to <= end).sort((a, b) => a.from - b.from || a.to - b.to);
  view.dispatch({ effects: setMarks.of(inside) });
}

// -- completion

/** The call around an offset whose bracket is open: its name, or null. */
function callAround(text) {
  let depth = 0;
  for (let k = text.length - 1; k >= 0; k--) {
    if (text[k] === ")") depth++;
    else if (text[k] === "(" && depth-- === 0) return text.slice(0, k).match(/[A-Za-z_]\w*$/)?.[0] ?? null;
  }
  return null;
}

const note = (text) => () => el("div", { class: "about" }, text);

function layerOptions() {
  const layers = [...known.layers.values()].map((w) => ({ label: w.name, type: "keyword", detail: "layer", info: note(w.equation) }));
  const prelude = [...known.prelude.values()].map((w) => ({ label: w.name, type: "function", detail: "prelude", info: note(w.text) }));
  return [...layers, ...prelude];
}

function argumentOptions(call) {
  const layer = known.layers.get(call), names = layer?.arguments ?? [];
  const own = names.map((a) => ({
    label: `${a.name}=`, type: "property", boost: 5, detail: a.default === null ? "" : a.default,
    info: note(`${a.doc} (${a.expects})`),
  }));
  const choices = names.flatMap((a) => a.choices.map((c) => ({ label: c, type: "enum", boost: 4, detail: a.name })));
  const macro = (known.prelude.get(call)?.arguments ?? []).map((name) => ({ label: `${name}=`, type: "property", boost: 5 }));
  return [...own, ...choices, ...macro];
}

async function takeZoo(view, name) {
  const { text } = await get(`/api/zoo/${name}`);
  setText(view, text);
}

const zooOptions = () =>
  shared.words.zoo.map((entry) => ({
    label: entry.name, type: "text", detail: "opens it", boost: -50, info: note(entry.about), apply: (view) => takeZoo(view, entry.name),
  }));

function complete(context) {
  const text = context.state.doc.toString(), line = context.state.doc.lineAt(context.pos);
  const before = text.slice(line.from, context.pos);
  if (/#/.test(before)) return null;
  const label = context.matchBefore(/@\s*[A-Za-z_]?\w*/);
  if (label) {
    const names = new Set(["end", ...[...text.matchAll(/[\w)]\s*@\s*([A-Za-z_]\w*)/g)].map((m) => m[1])]);
    const from = label.from + label.text.match(/^@\s*/)[0].length;
    return { from, options: [...names].map((n) => ({ label: n, type: "variable", detail: "label" })), validFor: /^\w*$/ };
  }
  if (/^[\w/-]*$/.test(before) && (before || context.explicit)) {
    const starts = ["encoder", "decoder", ...known.settings.keys()].map((n) => ({ label: n, type: "variable", apply: `${n} = `, info: known.settings.get(n) && note(known.settings.get(n).doc) }));
    return { from: line.from, options: [...starts, ...zooOptions()], validFor: /^[\w/-]*$/ };
  }
  const word = context.matchBefore(/[A-Za-z_]\w*/);
  if (!word && !context.explicit && !/(->|=|\(|,)\s*$/.test(before)) return null;
  const own = [...text.matchAll(/^[ \t]*([A-Za-z_]\w*)[ \t]*(\([^)]*\))?[ \t]*=/gm)].map((m) => m[1])
    .filter((n) => !["encoder", "decoder", "adl"].includes(n));
  const call = callAround(text.slice(0, context.pos));
  const options = [
    ...(call ? argumentOptions(call) : []), ...layerOptions(),
    ...[...new Set(own)].map((n) => ({ label: n, type: "variable", detail: "yours", boost: 2 })),
    ...["d_in", ...known.settings.keys(), ...ATOMS].filter((n) => !own.includes(n)).map((n) => ({ label: n, type: "constant" })),
  ];
  return { from: word ? word.from : context.pos, options, validFor: /^\w*$/ };
}

// -- the word at a place

function wordAt(state, pos) {
  const line = state.doc.lineAt(pos), at = pos - line.from;
  for (const m of line.text.matchAll(/[A-Za-z_]\w*/g)) {
    if (m.index <= at && at <= m.index + m[0].length) return { name: m[0], from: line.from + m.index, to: line.from + m.index + m[0].length };
  }
  return null;
}

/** What is known about a place: of the word its equation, of the layers written there shapes and costs, of a setting its meaning. */
export function about(state, pos) {
  const word = wordAt(state, pos), rows = [];
  if (shared.reply?.ok && shared.text === state.doc.toString()) {
    const keys = keysAt(pos);
    rows.push(...shared.good.rows.filter((row) => keys.includes(row.key)));
  }
  if (!word) return null;
  const layer = known.layers.get(word.name), macro = known.prelude.get(word.name), setting = known.settings.get(word.name);
  const shown = layer ? rows.filter((row) => row.name === word.name) : rows.filter((row) => row.depth === Math.min(...rows.map((r) => r.depth)));
  return { word, layer, macro, setting, rows: shown, title: layer?.signature ?? macro?.text ?? (setting ? `${setting.name}: ${setting.doc}` : "") };
}

/** The costs of a row in words. */
export const costs = (row) =>
  [`width ${row.width}`, row.copies > 1 ? `${row.copies} copies` : "", `${full(row.parameters)} parameters`,
    `${full(row.products)} multiply-adds per step`, row.state_bytes ? `${full(row.state_bytes)} bytes of state` : "",
    row.sees ? `sees ${row.sees}` : ""].filter(Boolean).join(", ");

const hover = hoverTooltip((view, pos) => {
  const found = about(view.state, pos);
  if (!found || !(found.title || found.rows.length)) return null;
  const dom = el("div", { class: "hover" },
    found.title && el("code", {}, found.title),
    found.layer && el("p", {}, found.layer.equation),
    found.rows.map((row) => el("p", { class: "cost" }, `${row.side} ${row.text}: ${costs(row)}`)));
  return { pos: found.word.from, end: found.word.to, above: true, create: () => ({ dom }) };
}, { hoverTime: 200 });

// -- the editor

/** Makes an editor in an element. `onchange` receives the text, `oncursor` the offset, `onpoint` the offset under the pointer. */
export function makeEditor(parent, label, { onchange, oncursor = () => {}, onpoint = () => {} }) {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      extensions: [
        lineNumbers(), history(), drawSelection(), highlightActiveLine(), bracketMatching(), lintGutter(), marks, hover,
        language, syntaxHighlighting(colours), autocompletion({ override: [complete], maxRenderedOptions: 200, icons: false }),
        keymap.of([...completionKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", autocapitalize: "off" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onchange(update.state.doc.toString());
          if (update.docChanged || update.selectionSet) oncursor(update.state.selection.main.head);
        }),
        EditorView.domEventHandlers({
          pointermove: (event, view) => onpoint(view.posAtCoords({ x: event.clientX, y: event.clientY })),
          pointerleave: () => onpoint(null),
        }),
      ],
    }),
  });
  return view;
}

/** Replaces the whole text, which can be undone. */
export const setText = (view, text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: 0 } });

/** Applies the edit of a fault, which belongs to the text that was checked. */
export function takeFix(view, text, fix) {
  if (view.state.doc.toString() !== text) return;
  view.dispatch({ changes: { from: fix.from, to: fix.to, insert: fix.insert } });
  view.focus();
}

/** Underlines the faults of a text, unless it has changed meanwhile. */
export function underline(view, text, faults) {
  if (view.state.doc.toString() !== text) return;
  const end = view.state.doc.length;
  const diagnostics = faults.map((f) => ({
    from: Math.min(f.from, end),
    to: Math.min(Math.max(f.to, f.from + 1), end),
    severity: f.severity === "warning" ? "warning" : "error",
    source: f.code,
    message: f.message + (f.help ? `\n${f.help}` : ""),
    actions: f.fix ? [{ name: f.fix.words, apply: (v) => takeFix(v, text, f.fix) }] : [],
  }));
  view.dispatch(setDiagnostics(view.state, diagnostics));
}
