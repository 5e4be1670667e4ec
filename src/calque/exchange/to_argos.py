"""Runs as packages of Argos Translate, which LibreTranslate serves too: `calque export RUN --to argos`.

A package is a zip archive of one folder:

    metadata.json          its languages and its version
    model/                 a CTranslate2 model
    sentencepiece.model    or `bpe.model`: one file, which cuts sources and joins translations
    README.md              the model card

Translations are joined by the file of the source side. It also joins pieces that it does not have itself, as they are spelt, so
that two models of sentencepiece are no obstacle.
"""

import json
import re
from pathlib import Path

from calque.data.codecs import Codec, MergeCodec, PieceCodec
from calque.data.imported_codec import ImportedCodec
from calque.exchange.to_ctranslate2 import write_ctranslate2
from calque.exchange.weights import Exported
from calque.ground.diagnostics import Place, error
from calque.ground.languages import language_name

NAME = "Argos Translate"
WRITTEN_FOR = "1.11.0"
"""The version with which packages were tried; from this one on a package needs no splitter of sentences of its own."""
PACKAGE_VERSION = "1.0"
_CODE = re.compile(r"[A-Za-z]{2,3}([_-][A-Za-z0-9]{2,8})*")


def write_argos(exported: Exported, folder: Path, precision: str) -> None:
    """Fills the folder of a package.

    Raises X519 (languages), X520 (codecs without a place), and what `write_ctranslate2` raises.
    """
    source, target = languages_of(exported)
    prefix = _write_codec(exported, folder)
    (folder / "model").mkdir()
    write_ctranslate2(exported, folder / "model", precision)
    about = {
        "type": "translate",
        "package_version": PACKAGE_VERSION,
        "argos_version": WRITTEN_FOR,
        "from_code": source,
        "from_name": language_name(source),
        "to_code": target,
        "to_name": language_name(target),
        **({"target_prefix": prefix} if prefix else {}),
    }
    (folder / "metadata.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def package_folder(exported: Exported) -> str:
    """The name of the folder in the archive. Raises X519."""
    source, target = languages_of(exported)
    return f"translate-{source}_{target}-{PACKAGE_VERSION.replace('.', '_')}"


def languages_of(exported: Exported) -> tuple[str, str]:
    """The codes of both languages. Raises X519 where they were not named, are one, or are no codes."""
    source, target = exported.options.languages
    if not (_CODE.fullmatch(source) and _CODE.fullmatch(target)) or source == target:
        raise error("X519", Place(str(exported.folder)), source=source or "none", target=target or "none")
    return source, target


def _write_codec(exported: Exported, folder: Path) -> str:
    """Writes the file that cuts text; returns the word that every translation begins with. Raises X520."""
    source, target = exported.trained.codecs
    place = Place(str(exported.folder))
    if isinstance(source, MergeCodec) and isinstance(target, MergeCodec):
        (folder / "bpe.model").write_text(source.merges.text, encoding="utf-8")
        return ""
    for codec, side in ((source, "source"), (target, "target")):
        if reason := _misfit(codec):
            raise error("X520", place, format=NAME, side=side, kind=codec.kind, reason=reason)
    assert isinstance(source, PieceCodec | ImportedCodec)
    (folder / "sentencepiece.model").write_bytes(source.model)
    return " ".join(target.tokens(target.begins))


def _misfit(codec: Codec) -> str:
    """Why a codec has no place in a package; empty where it has."""
    if isinstance(codec, ImportedCodec):
        if codec.listed.text or codec.listed.first or codec.listed.last:
            return "sources get words around them, such as the name of their language"
        return "translations begin with several words" if len(codec.begins) > 1 else ""
    return "" if isinstance(codec, PieceCodec) else "a package cuts text by sentencepiece, or by merges"
