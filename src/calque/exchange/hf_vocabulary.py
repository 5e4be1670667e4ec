"""Codecs of imported models: which row of their matrices becomes which of our ids, and how text is cut."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor

from calque.data.codecs import Codec
from calque.data.imported_codec import ImportedCodec, ImportedPieces
from calque.data.vocabulary import SPECIALS
from calque.exchange.hf_folder import read_json, read_pieces
from calque.exchange.settings import TEXT, Kind, check_values, integer
from calque.ground.diagnostics import Place, error

Config = Mapping[str, Any]
TOKENIZER = "tokenizer_config.json"


def _is_token(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("content"), str)


_BY_NUMBER = Kind(
    "an object with the `content` of a token for each number",
    lambda value: isinstance(value, dict) and all(k.isdecimal() and _is_token(one) for k, one in value.items()),
)
_NUMBERED = Kind(
    "a list of tokens, each with `content` and `id`",
    lambda value: isinstance(value, list) and all(_is_token(one) and type(one.get("id")) is int for one in value),
)
_LISTED = Kind(
    "a list of tokens",
    lambda value: isinstance(value, list) and all(isinstance(one, str) or _is_token(one) for one in value),
)
_LISTS = ("additional_special_tokens", "extra_special_tokens")
"""Keys of tokens whose order is known and not their numbers."""


@dataclass(frozen=True)
class Languages:
    """What the person asked for: names of languages, as the model spells them, and text in front of every source."""

    source: str | None = None
    target: str | None = None
    text: str = ""


@dataclass(frozen=True)
class Words:
    """One side: the row of their matrix for each of our ids, and the codec.

    The row of our begin symbol is that of the word from which their decoder starts, which has a row of its own besides.
    """

    rows: tuple[int, ...]
    codec: Codec


@dataclass(frozen=True)
class PieceList:
    """A word list of theirs: word by id, the sentencepiece model, and the words that are no text."""

    words: Mapping[int, str]
    model: bytes
    hidden: frozenset[str]
    unknown: int


def read_words(folder: Path, config: Config, sizes: tuple[int, int], asked: Languages) -> tuple[Words, Words, bool]:
    """Source and target, and whether sources end with the end symbol of their own accord.

    Raises X510, X517, X522 for files, X515 for languages.
    """
    kind = config["model_type"]
    source, target = _lists(folder, kind)
    about = _about(folder)
    asked = Languages(asked.source or about.get("src_lang"), asked.target or about.get("tgt_lang"), asked.text)
    ends = (config["eos_token_id"], config["pad_token_id"], config["decoder_start_token_id"])
    one = SideWords(folder, source, sizes[0], ends, asked.text)
    two = SideWords(folder, target, sizes[1], ends, "")
    if kind == "marian":
        return marked_words(one, two, asked)
    if kind in ("m2m_100", "mbart"):
        return _multilingual(one, two, asked, config, about)
    return one.words(), two.words(), True


def marked_words(one: "SideWords", two: "SideWords", asked: Languages) -> tuple[Words, Words, bool]:
    first = () if asked.target is None or not one.marks else (one.language(asked.target, "target", ">>{}<<"),)
    return one.words(first=first), two.words(), True


def _multilingual(
    one: "SideWords", two: "SideWords", asked: Languages, config: Config, about: Config
) -> tuple[Words, Words, bool]:
    """M2M100, NLLB and mBART-50 write the language in front; mBART, and NLLB at first, behind the end symbol."""
    source = one.language(asked.source, "source", "__{}__", "{}")
    older = about.get("tokenizer_class", "").startswith("MBartTokenizer") or about.get("legacy_behaviour", False)
    target = two.language(asked.target, "target", "__{}__", "{}")
    begins = () if two.ids[target] == config["decoder_start_token_id"] else (target,)
    if older:
        return one.words(last=(2, source)), two.words(begins=begins), False
    return one.words(first=(source,)), two.words(begins=begins), True


class SideWords:
    """The ids of one side, with our special symbols in front: pad, begin, end, unknown. Raises X522."""

    def __init__(self, folder: Path, theirs: PieceList, size: int, ends: tuple[int, int, int], text: str):
        self.folder, self.theirs, self.text = folder, theirs, text
        end, pad, start = ends
        inside = integer(0, size - 1)
        check_values({"</s>": end, "<unk>": theirs.unknown}, {"</s>": inside, "<unk>": inside}, Place(str(folder)))
        special = (pad, start, end, theirs.unknown)
        plain = sorted(set(range(size)) - {pad, end, theirs.unknown})
        self.ids = (*special, *plain)
        self.tokens = (*SPECIALS, *_names(plain, theirs.words))
        self.marks = any(word.startswith(">>") and word.endswith("<<") for word in theirs.words.values())

    def language(self, name: str | None, side: str, *forms: str) -> int:
        """Our id of the word that marks a language. Raises X515."""
        tried = [form.format(name) for form in forms]
        for k, token in enumerate(self.tokens):
            if name is not None and token in tried:
                return k
        known = sorted(word for word in self.theirs.words.values() if word in self.theirs.hidden or word[:2] == ">>")
        names = [word.strip("_<>") for word in known][:300]
        raise error("X515", Place(str(self.folder)), side=side, found=name, names=", ".join(names))

    def words(self, **around: tuple[int, ...]) -> Words:
        """The side, with ids around its sentences."""
        hidden = tuple(
            k
            for k, (id_, token) in enumerate(zip(self.ids, self.tokens, strict=True))
            if k >= len(SPECIALS) and (id_ not in self.theirs.words or token in self.theirs.hidden)
        )
        pieces = ImportedPieces(self.tokens, hidden, self.text, marks=self.marks, **around)
        return Words(self.ids, ImportedCodec(self.theirs.model, pieces))


def _names(ids: Iterable[int], words: Mapping[int, str]) -> list[str]:
    """A different token for each id: those without a word, and those that spell one of our symbols, get another spelling."""
    names: list[str] = []
    seen = set(SPECIALS)
    for id_ in ids:
        name = words.get(id_, f"<row {id_}>")
        while name in seen:
            name = f"<{name}>"
        seen.add(name)
        names.append(name)
    return names


def _lists(folder: Path, kind: str) -> tuple[PieceList, PieceList]:
    if kind == "marian":
        return _marian_lists(folder)
    known = _languages(folder)
    if kind == "m2m_100" and (folder / "vocab.json").is_file():
        ids = _word_ids(folder, "vocab.json")
        model = read_pieces(folder, "sentencepiece.bpe.model")
    else:
        model = read_pieces(folder, "sentencepiece.bpe.model", "spiece.model", "source.spm")
        ids = _fairseq(model) if kind in ("m2m_100", "mbart", "bart") else _plain(model)
    if missing := [word for word, id_ in known.items() if id_ < 0]:
        known |= {word: len(ids) + k for k, word in enumerate(missing)}
    words = {id_: word for word, id_ in {**ids, **known}.items()}
    unknown = ids.get("<unk>", 3)
    theirs = PieceList(words, model, frozenset({*known, "<s>", "<mask>"}), unknown)
    return theirs, theirs


def _marian_lists(folder: Path) -> tuple[PieceList, PieceList]:
    separate = (folder / "target_vocab.json").is_file()
    lists = []
    for side, name in (("source", "vocab.json"), ("target", "target_vocab.json" if separate else "vocab.json")):
        ids = _word_ids(folder, name)
        marks = frozenset(word for word in ids if word.startswith(">>") and word.endswith("<<"))
        words = {id_: word for word, id_ in ids.items()}
        lists.append(PieceList(words, read_pieces(folder, f"{side}.spm"), marks, ids.get("<unk>", 1)))
    return lists[0], lists[1]


def _plain(model: bytes) -> dict[str, int]:
    processor = SentencePieceProcessor(model_proto=model)
    return {processor.id_to_piece(k): k for k in range(processor.get_piece_size())}


def _fairseq(model: bytes) -> dict[str, int]:
    """fairseq's order: four symbols, then the pieces of the model behind its three."""
    processor = SentencePieceProcessor(model_proto=model)
    symbols = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    pieces = {processor.id_to_piece(k): k + 1 for k in range(3, processor.get_piece_size())}
    return {**pieces, **symbols}


def _about(folder: Path) -> dict[str, Any]:
    """The values of tokenizer_config.json. Raises X517, X522."""
    assumed = {"tokenizer_class": "", "added_tokens_decoder": {}}
    return _checked(folder, TOKENIZER, assumed, {"tokenizer_class": TEXT, "added_tokens_decoder": _BY_NUMBER})


def _checked(folder: Path, name: str, assumed: Config, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """The values of a file that need not be there, and what is assumed where it has none. Raises X517, X522."""
    own = read_json(folder, name, required=False)
    values = {**assumed, **{key: value for key, value in own.items() if value is not None}}
    lists = {
        key: _LISTED for key in _LISTS if not isinstance(values.get(key), dict | None)
    }  # objects name other tokens
    check_values(values, {**kinds, **lists}, Place(str(folder / name)))
    return values


def _word_ids(folder: Path, name: str, required: bool = True) -> dict[str, int]:
    """A file of words with their numbers. Raises X510, X517, X522."""
    ids = read_json(folder, name, required)
    check_values(ids, dict.fromkeys(ids, integer(0)), Place(str(folder / name)))
    return ids


def _languages(folder: Path) -> dict[str, int]:
    """Words that were added to the model's: their ids, -1 where only their order is known. Raises X517, X522."""
    about = _about(folder)
    added = {token["content"]: int(id_) for id_, token in about["added_tokens_decoder"].items()}
    added |= _word_ids(folder, "added_tokens.json", required=False)
    tokens = _checked(folder, "tokenizer.json", {"added_tokens": []}, {"added_tokens": _NUMBERED})["added_tokens"]
    added |= {token["content"]: token["id"] for token in tokens}
    lists = [_checked(folder, "special_tokens_map.json", {}, {}).get(_LISTS[0]), *map(about.get, _LISTS)]
    listed = next((one for one in lists if one and isinstance(one, list)), [])
    names = [word if isinstance(word, str) else word["content"] for word in listed]
    added |= {word: -1 for word in names if word not in added}
    symbols = ("<s>", "<pad>", "</s>", "<unk>")
    return {word: id_ for word, id_ in added.items() if word not in symbols}
