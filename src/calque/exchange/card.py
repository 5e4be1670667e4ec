"""The model card that goes with an exported model: what is known of a run, in Markdown."""

from collections.abc import Sequence
from pathlib import Path

from calque.exchange.weights import Exported
from calque.experiment import DecodeSettings
from calque.explain.totals import Surroundings, whole
from calque.ground.languages import LanguagePair
from calque.ground.version import VERSION

CARD = "README.md"


def card(exported: Exported, title: str, usage: str, scores: Sequence[str]) -> str:
    """The text of the card. `scores` are lines with a score and its signature, `usage` how the model is used there."""
    parts = [
        f"# {exported.folder.resolve().name}: {title}",
        f"Exported by Calque {VERSION}. The lines marked *to fill in* are known to nobody but you.",
        "## Use",
        usage,
        "## Architecture",
        f"```\n{exported.model.checked.text}```",
        _cost(exported),
        "## Text that it was trained on",
        _corpus(exported),
        "## Scores",
        "\n".join(_scores(exported, scores)),
        "## Languages, intended use, limits",
        _languages(exported),
        "## Licence",
        "*to fill in*: the licence of the model, and those of the texts that it was trained on.",
    ]
    return "\n\n".join(parts) + "\n"


def _languages(exported: Exported) -> str:
    one = LanguagePair(*exported.options.languages)
    pairs = list(exported.options.tags) or ([one] if all(one) else [])
    named = "".join(f"From `{pair.source}` into `{pair.target}`. " for pair in pairs)
    named += "*to fill in*: " if pairs else "*to fill in*: languages, "
    return f"{named}domain, what the model must not be used for."


def _cost(exported: Exported) -> str:
    shape = exported.model.shape
    around = Surroundings(shape.source_size, shape.target_size, shape.tying, shape.output_bias)
    costs = whole(exported.model.checked, around)
    rows = [
        ("hash of the architecture", exported.model.checked.hash),
        ("parameters", f"{costs.parameters:,}"),
        (
            f"multiply-adds of a sentence of {costs.source} source and {costs.length} target tokens",
            f"{costs.sentence:,.0f}",
        ),
        (f"bytes of the decoding state after {costs.length} tokens, float32", f"{costs.state_bytes():,}"),
        ("entries of the vocabularies", f"{shape.source_size:,} and {shape.target_size:,}"),
        ("tying", shape.tying),
    ]
    return _table(("figure", "value"), rows)


def _corpus(exported: Exported) -> str:
    data, meta = exported.trained.experiment.data, exported.trained.meta
    names = ", ".join(f"`{Path(file).name}`" for file in data.train_files) or "*to fill in*"
    rows = [
        ("files", names),
        ("digest of the compiled corpus", f"`{meta.get('data', 'none')}`"),
        ("subwords", data.subwords),
    ]
    if symbols := exported.trained.codecs[0].symbols:
        rows.append(("symbols, words that are never cut", ", ".join(f"`{one}`" for one in symbols)))
    if tag := exported.trained.experiment.decode.tag:
        rows.append(("symbol in front of every line", f"`{tag}`: other tools want it in the text"))
    if origin := meta.get("imported"):
        rows.append(("imported from", f"{origin['format']} ({origin['model_type']})"))
    return _table(("what", "value"), rows) + "\n\n*to fill in*: where the text comes from."


def _scores(exported: Exported, scores: Sequence[str]) -> list[str]:
    figures = exported.trained.meta.get("figures", {})
    named = {"perplexity": "perplexity of the validation text: {:.3f}", "update": "updates of the training: {:,}"}
    lines = [f"- {text.format(figures[name])}" for name, text in named.items() if figures.get(name) is not None]
    lines += [f"- {score}" for score in scores]
    return lines or ["*to fill in*"]


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join(lines)


def length_penalty(decode: DecodeSettings) -> float | None:
    """The exponent of the length in libraries that divide a score by T^alpha; None for another normalisation."""
    return {"length": decode.alpha, "none": 0.0}.get(decode.normalise)
