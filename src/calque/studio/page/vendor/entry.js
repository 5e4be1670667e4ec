// What the studio takes from CodeMirror 6, as one module. README.md says how codemirror.js is made from it.
export { EditorState, StateEffect, StateField } from "@codemirror/state";
export { EditorView, Decoration, keymap, lineNumbers, highlightActiveLine, drawSelection, hoverTooltip } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { autocompletion, completionKeymap } from "@codemirror/autocomplete";
export { setDiagnostics, lintGutter, lintKeymap } from "@codemirror/lint";
export { StreamLanguage, HighlightStyle, syntaxHighlighting, bracketMatching } from "@codemirror/language";
export { tags } from "@lezer/highlight";
