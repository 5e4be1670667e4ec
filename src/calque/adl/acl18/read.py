"""A file of the dialect: settings, and the two strings.

d = 256                  # --custom-seq-num-hidden; 512 where it is left out, as in the language
p = 0.1                  # --custom-seq-dropout; 0.1
num_embed = 256          # --num-embed; d
max_seq_len = 100        # the rows of `learn_pos` where a string leaves them out
FF_NUM_HIDDEN = 1024     # any name in capitals, for `$FF_NUM_HIDDEN`; `$NUM_HIDDEN` is d
encoder = "pos->repeat(6,res(norm->cnn))->norm"
decoder = "pos->repeat(6,res(norm->mh_dot_att))->norm"
"""

import math
import re
from collections.abc import Mapping
from typing import NoReturn

from calque.adl.acl18.dialect_layers import (
    ANY,
    FLAG,
    MISSING,
    NEVER,
    RATE,
    SIGNATURES,
    TRANSLATIONS,
    WHOLE,
    BoundLayer,
    DialectParameter,
)
from calque.adl.acl18.strings import WITH_CHAIN, StringArgument, StringFault, StringLayer, StringToken, parse
from calque.adl.acl18.terms import Value, call, chain
from calque.adl.limits import MAX_CHARACTERS, MAX_FAULTS, MAX_STATEMENTS
from calque.adl.parser import ParseResult
from calque.adl.signature import SETTINGS
from calque.adl.syntax import Number, Statement, Term, describe
from calque.ground.diagnostics import CalqueError, Diagnostic, Fix, Span, Text, error, nearest

SIDES = ("encoder", "decoder")
_LINE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z_0-9]*)[ \t]*=[ \t]*(?P<quote>[\"']?)(?P<value>[^#\n]*)")
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?")
_OPTIONS = {"d": 512, "p": 0.1, "num_embed": None, "max_seq_len": None}


def read(text: Text, settings: Mapping[str, Statement] | None = None) -> ParseResult:
    """A file of the dialect as statements of the language; `settings` replace those of the file."""
    if len(text.body) > MAX_CHARACTERS:
        where = Span(text, MAX_CHARACTERS, MAX_CHARACTERS + 1)
        given: dict[str, object] = {"what": "characters", "limit": MAX_CHARACTERS, "found": len(text.body)}
        raise CalqueError(Diagnostic("C401", where, given))
    return _Reader(text).run(settings or {})


class _Reader:
    def __init__(self, text: Text):
        self.text = text
        self.faults: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.numbers: dict[str, Value] = {}
        self.names: dict[str, Span] = {}
        self.strings: dict[str, Span] = {}
        self.used: set[str] = set()

    def run(self, settings: Mapping[str, Statement]) -> ParseResult:
        self.lines()
        self.override(settings)
        width = self.width()
        self.used |= {"d", "num_embed"}
        if not isinstance(width.number, int) or width.number < 1:
            return self.refused(width)
        sides = [self.side(name, width.number) for name in SIDES if name in self.strings]
        made = [statement for statement in sides if statement is not None]
        if not self.faults and len(made) == len(SIDES):
            unread = [name for name in self.numbers if name not in self.used]
            self.faults += [Diagnostic("C127", self.names[name], {"name": name}) for name in unread]
        if "p" in self.numbers:
            made.insert(0, _statement("p", self.numbers["p"], self.names["p"]))
        made.insert(0, _statement("d", width, width.span))
        lost = [name for name in SIDES if name not in {s.name for s in made} and name in self.strings]
        return ParseResult(made, self.faults[:MAX_FAULTS], lost, tuple(self.warnings))

    def width(self) -> Value:
        """The width of the embeddings."""
        return self.numbers.get("num_embed") or self.numbers.get("d") or Value(512, Span(self.text, 0, 0))

    def refused(self, width: Value) -> ParseResult:
        """The result for a model whose width is no width: the fault, and nothing of the strings."""
        name = "num_embed" if "num_embed" in self.numbers else "d"
        self.fault("S205", width.span, name=name, expected="a whole number from 1", found=f"`{width.number}`")
        return ParseResult([], self.faults[:MAX_FAULTS], list(self.strings), tuple(self.warnings))

    def override(self, settings: Mapping[str, Statement]) -> None:
        """Replaces settings of the file. Raises X222 for an unknown name, S205 for a value that is not a number."""
        for name, statement in settings.items():
            given, known = statement.value, sorted({*_OPTIONS, *self.numbers})
            if name not in known:
                raise error("X222", statement.name_span, name=name, near=nearest(name, known), names=known)
            if not isinstance(given, Number) or not math.isfinite(given.value):
                raise error("S205", given.span, name=name, expected="a number", found=describe(given))
            self.numbers[name], self.names[name] = Value(given.value, given.span), statement.name_span

    # -- lines

    def lines(self) -> None:
        start = 0
        for count, line in enumerate(self.text.body.split("\n")):
            bare = line.partition("#")[0].strip()
            if bare:
                if len(self.names) >= MAX_STATEMENTS:
                    given: dict[str, object] = {"what": "statements", "limit": MAX_STATEMENTS, "found": count}
                    self.faults.append(Diagnostic("C401", Span(self.text, start, start + len(line)), given))
                    return
                at = start + line.index(bare)
                self.line(at, at + len(bare))
            start += len(line) + 1

    def line(self, start: int, end: int) -> None:
        match = _LINE.match(self.text.body, start, end)
        if match is None:
            self.fault("S207", Span(self.text, start, end))
            return
        name, value = match["name"], match["value"]
        name_span = Span(self.text, *match.span("name"))
        if name in self.names:
            first = ((self.names[name], "first written"),)
            self.faults.append(Diagnostic("C122", name_span, {"name": name}, None, first))
            return
        self.names[name] = name_span
        at = match.start("value")
        quote, value = match["quote"], value.rstrip()
        if quote and value.endswith(quote):
            value = value[:-1]
        span = Span(self.text, at, at + len(value))
        if name in SIDES:
            self.strings[name] = span
        elif name not in _OPTIONS and not name.isupper():
            known = [*_OPTIONS, *SIDES]
            self.fault("S207", name_span, name=name, near=nearest(name, known), names=known)
        elif not _NUMBER.fullmatch(value) or quote:
            self.fault("S205", span, name=name, expected="a number", found=f"`{quote}{value}{quote}`")
        else:
            self.numbers[name] = Value(float(value) if "." in value else int(value), span)

    def fault(self, code: str, span: Span, fix: Fix | None = None, **fields: object) -> None:
        if len(self.faults) <= MAX_FAULTS:
            self.faults.append(Diagnostic(code, span, fields, fix))

    # -- strings

    def side(self, name: str, width: int | float | None) -> Statement | None:
        span = self.strings[name]
        try:
            layers = parse(self.text, span.start, span.end, self.faults)
            terms, _ = self.chain(layers, width if isinstance(width, int) else 0)
        except StringFault:
            return None
        return Statement(name, None, chain(terms), self.names[name].to(span), self.names[name])

    def chain(self, layers: tuple[StringLayer, ...], width: int) -> tuple[tuple[Term, ...], int]:
        terms: list[Term] = []
        for layer in layers:
            made, width = self.layer(layer, width)
            terms += made
        return tuple(terms) or (call("id", layers[0].span),), width

    def layer(self, layer: StringLayer, width: int) -> tuple[tuple[Term, ...], int]:
        if layer.chain:
            inner, after = self.chain(layer.chain, width)
            if layer.count is None:
                return (call(layer.name, layer.span, chain(inner)),), after
            count = self.number(layer.count, "repeat", WHOLE)
            if count.zero:
                return (call("id", layer.span),), width
            return (call("repeat", layer.span, count, chain(inner)),), after
        if layer.name in MISSING or layer.name in NEVER:
            self.fault("S206", layer.name_span, what=f"the layer `{layer.name}`")
            raise StringFault()
        if layer.name not in SIGNATURES:
            near = nearest(layer.name, [*SIGNATURES, *WITH_CHAIN, "repeat"])
            fix = Fix(layer.name_span, near) if near else None
            self.fault("S202", layer.name_span, fix, name=layer.name, near=near)
            raise StringFault()
        bound = BoundLayer(
            layer,
            self.bind(layer),
            width,
            self.width_of_embeddings(),
            lambda span, what: self.fault("S206", span, what=what),
            self.remark,
            self.fits,
        )
        return TRANSLATIONS[layer.name](bound)

    def remark(self, span: Span, what: str, how: str) -> None:
        self.warnings.append(Diagnostic("S209", span, {"what": what, "how": how}, severity="warning"))

    def fits(self, span: Span, layer: str, expected: int, found: int) -> None:
        if expected != found:
            self.fault("S210", span, layer=layer, expected=expected, found=found)

    def width_of_embeddings(self) -> int:
        width = self.numbers.get("num_embed") or self.numbers.get("d")
        return int(width.number or 0) if width else 512

    # -- arguments

    def bind(self, layer: StringLayer) -> dict[str, Value]:
        parameters = SIGNATURES[layer.name]
        names = [p.name for p in parameters]
        given: dict[str, StringArgument] = {}
        positional = [a for a in layer.arguments if a.name is None]
        if len(positional) > len(parameters):
            extra = positional[len(parameters)]
            self.fault("S204", extra.span, layer=layer.name, limit=len(parameters), found=len(positional))
            raise StringFault()
        given.update(zip(names, positional, strict=False))
        for argument in layer.arguments:
            if argument.name is not None and argument.name not in names:
                near = nearest(argument.name, names)
                at = Span(self.text, argument.span.start, argument.span.start + len(argument.name))
                fix = Fix(at, near) if near else None
                self.fault("S203", at, fix, layer=layer.name, name=argument.name, near=near, names=names or None)
                raise StringFault()
            if argument.name is not None:  # the last of several counts, as in the original
                given[argument.name] = argument
        return {p.name: self.value(p, given.get(p.name), layer) for p in parameters}

    def value(self, parameter: DialectParameter, argument: StringArgument | None, layer: StringLayer) -> Value:
        if argument is None:
            return self.default(parameter, layer)
        if parameter.ignored:
            given = {"layer": layer.name, "name": parameter.name}
            self.warnings.append(Diagnostic("S208", argument.span, given, severity="warning"))
            return Value(None, argument.span)
        takes, token = parameter.takes, argument.value
        if isinstance(takes, tuple) or takes in (FLAG, ANY):
            words = ("True", "False") if takes == FLAG else takes
            if token.kind != "name" or (isinstance(words, tuple) and token.text not in words):
                self.wrong(parameter.name, token, takes)
            return Value(token.text, token.span)
        return self.number(token, parameter.name, takes)

    def default(self, parameter: DialectParameter, layer: StringLayer) -> Value:
        name = {"D": "d", "P": "p", "E": "num_embed", "M": "max_seq_len"}.get(str(parameter.default))
        if name is None or parameter.takes == ANY:
            value = parameter.default
            if isinstance(value, bool):
                value = str(value)
            return Value(value if isinstance(value, int | float | str) else None, layer.span, default=True)
        self.used.add(name)
        setting = self.numbers.get(name)
        if setting is not None:
            return Value(setting.value, layer.span, default=True)
        value = self.width_of_embeddings() if name == "num_embed" else _OPTIONS[name]
        if value is None:
            self.fault("S211", layer.span, layer=layer.name, name=name)
            raise StringFault()
        return Value(value, layer.span, default=True)

    def number(self, token: StringToken, name: str, takes: str) -> Value:
        value: int | float | None = None
        if token.kind == "number":
            value = float(token.text) if "." in token.text else int(token.text)
        elif token.kind == "variable":
            value = self.variable(token)
        whole = isinstance(value, int)
        if value is None or (takes == WHOLE and not whole) or (takes == RATE and value >= 1):
            self.wrong(name, token, takes)
        return Value(value, token.span)

    def variable(self, token: StringToken) -> int | float | None:
        """The number that `$NAME` stands for."""
        key = token.text[1:]
        number = self.numbers.get(key) or (self.default_width() if key == "NUM_HIDDEN" else None)
        if number is None:
            near = nearest(key, ["NUM_HIDDEN", *(k for k in self.numbers if k.isupper())])
            self.fault("S211", token.span, Fix(token.span, f"${near}") if near else None, name=key, near=near)
            raise StringFault()
        self.used.add(key)
        return number.number

    def default_width(self) -> Value:
        return self.numbers.get("d") or Value(512, Span(self.text, 0, 0))

    def wrong(self, name: str, token: StringToken, takes: str | tuple[str, ...]) -> NoReturn:
        expected = takes if isinstance(takes, str) else "one of " + ", ".join(f"`{word}`" for word in takes)
        self.fault("S205", token.span, name=name, expected=expected, found=f"`{token.text}`")
        raise StringFault()


def _statement(name: str, value: Value, span: Span) -> Statement:
    kind = SETTINGS[name]
    number = value.number if value.number is not None else kind[0]
    return Statement(name, None, Number(number, value.span), span.to(value.span), span)
