"""`calque export`: a run as the folder or file of another tool, whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from calque.data.codecs import PieceCodec
from calque.exchange.card import CARD, card, length_penalty
from calque.exchange.to_argos import package_folder, write_argos
from calque.exchange.to_calque import write_calque
from calque.exchange.to_ctranslate2 import write_ctranslate2
from calque.exchange.to_hf import write_hf
from calque.exchange.to_marian import write_marian
from calque.exchange.to_onnx import write_onnx
from calque.exchange.to_web import write_web
from calque.exchange.weights import NO_OPTIONS, Exported, Options, open_exported
from calque.ground.diagnostics import Place, error
from calque.ground.files import alone, replacing
from calque.layers.contract import Registry
from calque.run.folder import CODECS, refuse_full
from calque.run.tensors import writing

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Format:
    """A format to write: its title in the card, the function that fills a folder, and how to use the result.

    ending    of the name where the result is a zip archive of one folder
    inside    the name of that folder
    codecs    the files of the codecs go with it: the format has none of its own
    """

    title: str
    write: Callable[[Exported, Path, str], None]
    usage: Callable[[Exported], str]
    ending: str = ""
    inside: Callable[[Exported], str] | None = None
    codecs: bool = True


def export(
    run: Path,
    to: str,
    out: Path | None,
    precision: str,
    scores: Sequence[str],
    tell: Tell,
    options: Options = NO_OPTIONS,
    registry: Registry | None = None,
) -> Path:
    """Writes a run for another tool; returns the folder or file.

    `registry` has the layers of the run's plugins. Raises X405 (the folder has files already), what `load_model` raises, and what
    the format cannot carry (X50, X519 to X521, X523).
    """
    form = FORMATS[to]
    named = run if run.name not in ("", "..") else run.resolve()
    out = out or named.with_name(f"{named.name}-{to}{form.ending}")
    if form.ending and out.exists():
        raise error("X405", Place(str(out)), name=out)
    refuse_full(out)
    exported = open_exported(run, options, registry)
    with writing(out), alone(out, tell), _place(form, exported, out) as folder:
        form.write(exported, folder, precision)
        for file in sorted((run / CODECS).iterdir()) if form.codecs else ():
            if not file.name.startswith(".") and not (folder / file.name).exists():
                shutil.copyfile(file, folder / file.name)
        (folder / CARD).write_text(card(exported, form.title, form.usage(exported), scores), encoding="utf-8")
    return out


@contextlib.contextmanager
def _place(form: Format, exported: Exported, out: Path) -> Iterator[Path]:
    """An empty folder that becomes `out` at the end of the block: itself, or as an archive."""
    if form.inside is None:
        with replacing(out) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as made:
        folder = Path(made, form.inside(exported))
        folder.mkdir()
        yield folder
        archive = shutil.make_archive(str(Path(made, "package")), "zip", made, folder.name)
        os.replace(archive, out)


def _ctranslate2_usage(exported: Exported) -> str:
    decode = exported.trained.experiment.decode
    penalty = length_penalty(decode)
    options = f"beam_size={decode.beam}, min_decoding_length=0, return_end_token=True"
    if penalty is None:
        how = f"CTranslate2 has no normalisation `{decode.normalise}`: choose a `length_penalty`."
    else:
        options += f", length_penalty={penalty}"
        how = (
            'With these options CTranslate2 searches as Calque does with `stop = "full"`; `return_end_token` makes the end symbol '
            "count as a word."
        )
    longest = f"{decode.max_length_factor:g} times the pieces of the source and {decode.max_length_offset} more"
    how += f" A translation ends after 256 pieces (`max_decoding_length`), in Calque after {longest}."
    return "\n".join(
        (
            "```python",
            *_ctranslate2_lines(exported, options),
            "```",
            "",
            f"{how} The files of the codecs, which cut text into pieces, stand beside the model.",
        )
    )


def _ctranslate2_lines(exported: Exported, options: str) -> list[str]:
    """The lines of Python that translate; whole where the text is cut by sentencepiece."""
    source, target = exported.trained.codecs
    call = f"translator.translate_batch([pieces], {options})"
    head = ["import ctranslate2", "", 'translator = ctranslate2.Translator("FOLDER")']
    if not all(isinstance(codec, PieceCodec) for codec in (source, target)):
        return [*head, f"{call}[0].hypotheses[0]  # pieces: a line, cut by the codec of the source"]
    names = {"reader = writer": "joint"} if source is target else {"reader": "source", "writer": "target"}
    opened = (
        f'{one} = sentencepiece.SentencePieceProcessor(model_file="FOLDER/sentencepiece.{side}.model")'
        for one, side in names.items()
    )
    return [
        head[0],
        "import sentencepiece",
        *head[1:],
        *opened,
        'pieces = reader.encode("a line", out_type=str)',
        f"found = {call}[0].hypotheses[0]",
        'writer.decode([piece for piece in found if piece != "</s>"])',
    ]


def _hf_usage(exported: Exported) -> str:
    return "\n".join(
        (
            "```python",
            "from transformers import AutoModelForSeq2SeqLM, AutoTokenizer",
            "",
            'model, tokenizer = (kind.from_pretrained("FOLDER") for kind in (AutoModelForSeq2SeqLM, AutoTokenizer))',
            'ids = model.generate(**tokenizer(["a line"], return_tensors="pt", padding=True))',
            "tokenizer.batch_decode(ids, skip_special_tokens=True)",
            "```",
            "",
            '`generation_config.json` makes `generate` search as Calque does; with `stop = "best"` it goes on a little longer.',
            "Text for codecs other than sentencepiece has to be cut into pieces before the tokenizer; `MarianTokenizer` changes",
            "punctuation where sacremoses is installed.",
        )
    )


def _onnx_usage(exported: Exported) -> str:
    return (
        "Three graphs for onnxruntime: `encoder`, `init` and `step`. `model.json` lists the states, which go from step to step; "
        "`examples/onnx_greedy.py` of Calque decodes with them in 40 lines."
    )


def _argos_usage(exported: Exported) -> str:
    lines = [
        "```sh",
        "python -c \"from argostranslate import package; package.install_from_path('PACKAGE.argosmodel')\"",
        f"argos-translate --from-lang {exported.options.languages[0]} --to-lang {exported.options.languages[1]} 'a sentence'",
        "```",
        "",
        "LibreTranslate serves it too. Argos Translate cuts text into sentences itself, with a model that it fetches once.",
        "It keeps 4 hypotheses, divides a score by the length to the power of 0.2, and writes the source word for an unknown one.",
    ]
    if exported.trained.experiment.data.subwords == "codes":
        lines += [
            "",
            "The run reads text that was cut into words before the merges. Argos Translate cuts by the rules of Moses, with",
            "`&apos;` for an apostrophe, and changes punctuation: this suits the run only if its text was cut in the same way.",
        ]
    return "\n".join(lines)


def _marian_usage(exported: Exported) -> str:
    return (
        "```sh\nmarian-decoder -c decoder.yml < input.txt > output.txt\n```\n\n"
        "Where a vocabulary is a list of words (`.yml`), text has to be cut into them before."
    )


def _web_usage(exported: Exported) -> str:
    return (
        "```sh\npython -m http.server --directory FOLDER\n```\n\n"
        "The page is then at http://localhost:8000. Any web server for files serves it; every text stays in the browser, "
        "which also keeps the page for when there is no network, if it was fetched by https or from the machine itself."
    )


def _calque_usage(exported: Exported) -> str:
    return (
        "```sh\ncalque translate FOLDER < new.txt\n```\n\n"
        "A run folder like any other, on which every command works that needs no corpus, log or checkpoints; "
        "`model.json` says under `stored` in which type its matrices are. Further training starts from it with `--from`."
    )


FORMATS = {
    "calque": Format("a run to translate with", write_calque, _calque_usage, codecs=False),
    "marian": Format("a model of Marian", write_marian, _marian_usage, codecs=False),
    "argos": Format(
        "a package of Argos Translate", write_argos, _argos_usage, ".argosmodel", package_folder, codecs=False
    ),
    "web": Format("a page that translates in the browser", write_web, _web_usage, codecs=False),
    "onnx": Format("ONNX graphs", write_onnx, _onnx_usage),
    "hf": Format("a model of Hugging Face transformers", write_hf, _hf_usage),
    "ctranslate2": Format("a CTranslate2 model", write_ctranslate2, _ctranslate2_usage),
}
"""The formats by the words of `--to`."""
