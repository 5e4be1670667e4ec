// What the studio takes from CodeMirror 6, as one module. README.md says how codemirror.js is made from it.
export { EditorState, StateEffect, StateField, Compartment, RangeSetBuilder } from "@codemirror/state";
export {
  EditorView, Decoration, keymap, lineNumbers, highlightActiveLine, drawSelection, hoverTooltip, placeholder,
} from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, undo, redo } from "@codemirror/commands";
export { autocompletion, completionKeymap, startCompletion, acceptCompletion } from "@codemirror/autocomplete";
export { setDiagnostics, lintGutter, lintKeymap, forEachDiagnostic } from "@codemirror/lint";
export {
  StreamLanguage, HighlightStyle, syntaxHighlighting, bracketMatching, indentUnit,
} from "@codemirror/language";
export { tags } from "@lezer/highlight";
