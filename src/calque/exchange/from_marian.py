"""Marian's own models as texts and weights: `calque import FOLDER --from marian`, OPUS-MT and Bergamot's students among them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor
from torch import Tensor

from calque.data.codecs import WordCodec
from calque.data.vocabulary import SPECIALS, Vocabulary
from calque.exchange.hf_folder import Tensors, read_pieces
from calque.exchange.hf_vocabulary import Languages, PieceList, SideWords, Words, marked_words
from calque.exchange.imported import Filling, Matrices, assemble, definition, kinds_of, residual
from calque.exchange.marian import ACTIVATIONS, DECODER, EPSILON, NORMS, block_name, norm_names, norm_of
from calque.exchange.marian_files import read_npz, value_of, yaml_file
from calque.exchange.network import FEED, RECURRENT, SOURCE, Block, Side, alternate
from calque.exchange.settings import DROPOUT, SEARCH, SIZE, check_values, integer
from calque.exchange.weights import NEVER
from calque.ground.diagnostics import Place, error
from calque.model import Model

Config = Mapping[str, Any]
_FIXED: Mapping[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "dec-cell": ("ssru",),
    "layer-normalization": (False,),
    "transformer-ffn-activation": tuple(ACTIVATIONS),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-projection": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-attention-mask": ("default",),
    "transformer-pool": (False,),
    "transformer-tied-layers": ([],),
    "lemma-dim-emb": (0,),
    "ulr": (False,),
}
"""What settings have to be; of recurrent decoders alone where `_RECURRENT` says so."""
_RECURRENT = ("dec-cell", "layer-normalization")
_PLACES = {
    "transformer-preprocess": ("", "n", "r"),
    "transformer-postprocess": ("a", "an", "ar"),
    "transformer-postprocess-emb": ("", "n", "r"),
    "transformer-postprocess-top": ("", "n", "r"),
}
"""What a setting of steps can be, `d` for dropout left out: `n` and `r` are norms, `a` is the residual sum."""
_SIZES = ("dim-emb", "enc-depth", "dec-depth", "transformer-heads", "transformer-dim-ffn")
_OPTIONAL = {
    **{f"transformer-dropout{of}": DROPOUT for of in ("", "-attention", "-ffn")},
    "transformer-decoder-dim-ffn": integer(0),
}
_SEARCH = {"beam-size": SEARCH["beam"], "normalize": SEARCH["alpha"]}


class MarianFolder:
    """A folder with a model: its settings, its tensors, and the words of both sides. Raises X512, X517, X518, X521, X522."""

    def __init__(self, folder: Path, asked: Languages):
        self.folder = folder
        self.decoder = yaml_file(folder / DECODER) if (folder / DECODER).is_file() else {}
        self.search = _search(self.decoder, Place(str(folder / DECODER)))
        self.model = folder / _one(folder, self.decoder.get("models"))
        self.place = Place(str(self.model))
        self.config, self.tensors = read_npz(self.model)
        _check(self.config, self.place)
        self.words = self._words(asked)

    def _words(self, asked: Languages) -> tuple[Words, Words]:
        names = _named(self.decoder.get("vocabs")) or _vocabularies(self.folder)
        if len(names) not in (1, 2):
            raise error(
                "X521", Place(str(self.folder)), what="one or two vocabularies", found=", ".join(names) or "none"
            )
        sizes = len(_embedding(self.tensors, "encoder")), len(_embedding(self.tensors, "decoder"))
        lists = [_word_list(self.folder, name, side) for name, side in zip((names[0], names[-1]), _SIDES, strict=True)]
        one, two = (
            self._side(theirs, size, asked.text * (k == 0))
            for k, (theirs, size) in enumerate(zip(lists, sizes, strict=True))
        )
        if not (lists[0].model and lists[1].model):
            return _uncut(one), _uncut(two)
        return marked_words(one, two, asked)[:2]

    def _side(self, theirs: PieceList, size: int, text: str) -> SideWords:
        ends = {word: id_ for id_, word in theirs.words.items()}.get("</s>", 0)
        # They have no padding symbol, and begin with zeros: both have the row behind the last one, which `matrices` adds.
        return SideWords(self.folder, theirs, size, (ends, size, size), text)

    def read(self) -> Model:
        """The network. Raises X512 to X514, X518."""
        rows = (self.words[0].rows, self.words[1].rows)

        def read(filling: Filling, side: Side) -> None:
            _read_side(filling, side)

        text = text_of(self.config, self.tensors)
        return assemble(text, _matrices(self.tensors), rows, self.tensors, read, self.place)


_SIDES = ("source", "target")


# -- files


def _one(folder: Path, named: Any) -> str:
    """The file of a list in decoder.yml, or the only file of weights. Raises X521."""
    names = _named(named)
    if not names:
        names = sorted(
            path.name for path in folder.glob("*.npz") if not path.name.endswith((".optimizer.npz", ".orig.npz"))
        )
    if len(names) != 1:
        raise error("X521", Place(str(folder)), what="one .npz file", found=", ".join(names) or "none")
    return _present(folder, names[0])


def _named(value: Any) -> list[str]:
    """The files of a key in decoder.yml: a list of names, or one name."""
    return [str(name) for name in (value if isinstance(value, list) else [value]) if name]


def _present(folder: Path, name: str) -> str:
    """The name of a file that is there. Raises X521."""
    if not (folder / name).is_file():
        raise error("X521", Place(str(folder)), what=f"`{name}`", found="none")
    return name


def _search(decoder: Config, place: Place) -> dict[str, Any]:
    """Settings of a search. Raises X522."""
    values = {"beam-size": 4, "normalize": 0, **{key: value_of(value) for key, value in decoder.items()}}
    check_values(values, _SEARCH, place)
    return {"beam": values["beam-size"], "alpha": float(values["normalize"])}


def _vocabularies(folder: Path) -> list[str]:
    for pattern in ("*vocab*.spm", "*vocab*.yml", "*.spm"):
        if names := sorted(path.name for path in folder.glob(pattern)):
            return names if len(names) == 1 else []  # of two, nobody says which is the source's
    return []


def _word_list(folder: Path, name: str, side: str) -> PieceList:
    """The words of a vocabulary, with the model of sentencepiece that cuts text into them, if there is one.

    Raises X517, X521, X522.
    """
    path = folder / _present(folder, name)
    if name.endswith(".spm"):
        model = read_pieces(folder, name)
        processor = SentencePieceProcessor(model_proto=model)
        words = {k: str(processor.id_to_piece(k)) for k in range(processor.get_piece_size())}
        return PieceList(words, model, frozenset(), int(processor.unk_id()))
    ids = {str(word): value_of(id_) for word, id_ in yaml_file(path).items()}
    check_values(ids, dict.fromkeys(ids, integer(0)), Place(str(path)))
    words = {id_: word for word, id_ in ids.items()}
    cut = f"{side}.spm"
    marks = frozenset(word for word in words.values() if word.startswith(">>") and word.endswith("<<"))
    unknown = next((id_ for id_, word in words.items() if word == "<unk>"), 1)
    return PieceList(words, read_pieces(folder, cut) if (folder / cut).is_file() else b"", marks, unknown)


def _uncut(side: SideWords) -> Words:
    """A side whose text is cut already."""
    return Words(side.ids, WordCodec(Vocabulary(side.tokens[len(SPECIALS) :])))


# -- the text


def _check(config: Config, place: Place) -> None:
    """Raises X512 for a setting that the language cannot say, X522 for one that says nothing."""
    recurrent = config.get("transformer-decoder-autoreg") == "rnn"
    for key, values in _FIXED.items():
        found = config.get(key, values[0])
        if (found not in values) and (recurrent or key not in _RECURRENT):
            raise error("X512", place, key=key, found=_shown(found), expected=" or ".join(map(_shown, values)))
    for key, texts in _PLACES.items():
        if _steps(config, key) not in texts:
            raise error("X512", place, key=key, found=config.get(key), expected=" or ".join(f"`{t}`" for t in texts))
    before, behind = (_steps(config, f"transformer-{when}process") for when in ("pre", "post"))
    if len(before + behind) != 2:
        expected = "one norm, before or behind a block"
        raise error(
            "X512", place, key="transformer-preprocess", found=f"`{before}` and then `{behind}`", expected=expected
        )
    optional = {key: kind for key, kind in _OPTIONAL.items() if key in config}
    check_values(config, {**dict.fromkeys(_SIZES, SIZE), **optional}, place)


def _shown(value: Any) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _steps(config: Config, key: str) -> str:
    assumed = {"transformer-postprocess": "dan", "transformer-postprocess-emb": "d"}
    return str(config.get(key, assumed.get(key, "")) or "").replace("d", "")


def text_of(config: Config, tensors: Tensors) -> str:
    """The definition of a model."""
    sides = []
    for side in ("encoder", "decoder"):
        end = _steps(config, "transformer-postprocess-top")
        blocks = " -> ".join(_blocks(config, side))
        parts = [*_front(config, tensors, side), f"repeat({config[f'{side[:3]}-depth']}, {blocks})"]
        sides.append(" -> ".join([*parts, *([_norm(end)] if end else [])]))
    return definition(config["dim-emb"], *sides)


def _norm(letter: str) -> str:
    return f"{NORMS[letter]}(eps={EPSILON})"


def _front(config: Config, tensors: Tensors, side: str) -> list[str]:
    """Zeros in front, positions, the norm behind them."""
    p = config.get("transformer-dropout", 0.0)
    dropped = p if "d" in str(config.get("transformer-postprocess-emb", "d")) else 0.0
    parts = ["zero_first"] if side == "decoder" else []
    if "Wpos" in tensors:
        parts += [f"learn_pos({len(tensors.take('Wpos', dims=2))})", f"dropout({dropped})"]
    elif config.get("transformer-disable-position-embeddings", False):
        parts += [f"dropout({dropped})"]
    else:
        parts += [f"pos(dropout={dropped}, endpoint=yes)"]
    steps = _steps(config, "transformer-postprocess-emb")
    return [*parts, *([_norm(steps)] if steps else [])]


def _blocks(config: Config, side: str) -> list[str]:
    heads, p = config["transformer-heads"], config.get("transformer-dropout", 0.0)
    options = f"heads={heads}, bias=yes, dropout={config.get('transformer-dropout-attention', 0.0)}"
    bodies = [f"mh_dot_self_att({options})"]
    if side == "decoder" and config.get("transformer-decoder-autoreg", "self-attention") == "rnn":
        bodies = ["ssru -> linear" if config.get("transformer-rnn-projection", False) else "ssru"]
    if side == "decoder":
        bodies.append(f"mh_dot_src_att({options})")
    n = (side == "decoder" and config.get("transformer-decoder-dim-ffn", 0)) or config["transformer-dim-ffn"]
    act, inner = (
        ACTIVATIONS[config.get("transformer-ffn-activation", "relu")],
        config.get("transformer-dropout-ffn", 0.0),
    )
    first = f"ff({n}, dropout={inner})" if act == "relu" else f"linear({n}) -> act({act}) -> dropout({inner})"
    bodies.append(f"{first} -> linear")
    before = _steps(config, "transformer-preprocess")
    norm = _norm(before or _steps(config, "transformer-postprocess")[-1])
    return [residual(norm, body, p, bool(before)) for body in bodies]


# -- the tensors


def _embedding(tensors: Tensors, side: str) -> Tensor:
    return tensors.take([f"{side}_Wemb", "Wemb"], dims=2)


def _matrices(tensors: Tensors) -> Matrices:
    """Both embeddings and the output layer, with a row of zeros behind the last one, which is no word."""
    source, target, name = _embedding(tensors, "encoder"), _embedding(tensors, "decoder"), "decoder_ff_logit_out"
    output = target
    if f"{name}_W" in tensors:
        output = tensors.take(f"{name}_W", dims=2).t()
    elif f"{name}_Wt" in tensors:
        output = tensors.take(f"{name}_Wt", dims=2)
    bias = tensors.take(f"{name}_b").flatten() if f"{name}_b" in tensors else torch.zeros(len(output))
    rows = [torch.cat([matrix, torch.zeros(1, matrix.shape[1])]) for matrix in (source, target, output)]
    return Matrices(rows[0], rows[1], rows[2], torch.cat([bias, torch.tensor([NEVER])]))


def _read_side(filling: Filling, side: Side) -> None:
    if side.positions is not None and side.positions.name == "learn_pos":
        filling.put(f"{side.positions.path}.table", "Wpos")
    around = ((side.input_norm, f"{side.name}_emb", True), (side.final_norm, f"{side.name}_top", False))
    for node, name, before in around:
        if node is not None:
            _read_norm(filling, node.path, norm_names(name, node.name == "rms_norm", before))
    for k, blocks in enumerate(alternate(side, "import", kinds_of(side, SOURCE)), 1):
        for block in blocks:
            _read_block(filling, block, block_name(side.name, k, block.kind))


def _read_norm(filling: Filling, path: str, names: tuple[str, ...]) -> None:
    for ours, theirs in zip(("gain", "shift"), names, strict=False):
        filling.put(f"{path}.{ours}", theirs, Tensor.flatten)


def _read_block(filling: Filling, block: Block, name: str) -> None:
    _read_norm(filling, block.norm.path, norm_names(norm_of(block, name), block.norm.name == "rms_norm", block.pre))
    for ours, theirs in maps_of(block):
        filling.put(f"{ours}.weight", f"{name}_W{theirs}", Tensor.t, 2)
        if (ours, theirs) != (f"{block.node.path}.input", ""):
            filling.put(f"{ours}.bias", f"{name}_b{theirs}", Tensor.flatten)


def maps_of(block: Block) -> list[tuple[str, str]]:
    """The linear maps of a block: our path, and what follows `_W` and `_b` there. The first one of a recurrent unit has no bias."""
    path = block.node.path
    behind = None if block.out is None else f"{block.out.path}.project"
    if block.kind == FEED:
        return [(f"{path}.project", "1"), (str(behind), "2")]
    if block.kind == RECURRENT:
        return [(f"{path}.input", ""), (f"{path}.forget", "f"), *([(behind, "o")] if behind else [])]
    return [*((f"{path}.{letter}", letter) for letter in "qkv"), (behind or f"{path}.out", "o")]
