"""Builders of public corpora: each makes the files of a corpus from its published inputs."""

import functools
import gzip
import io
import re
import struct
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence

from calque.data.public import PublicCorpus

Inputs = Callable[[str], bytes]
Made = Iterator[tuple[str, bytes]]

_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.DOTALL)
_ESCAPE = re.compile(r"\\u|\\\\|\\([0-9]+);")


def copy(what: PublicCorpus, names: Sequence[str], inputs: Inputs) -> Made:
    """Each file is an input, decompressed."""
    for name in names:
        body = inputs(what.outputs[name].source)
        yield name, gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def envi(what: PublicCorpus, names: Sequence[str], inputs: Inputs) -> Made:
    """IWSLT'15 English-Vietnamese: training text from the shards of tensor2tensor, tokenised sets from archives, raw ones
    from XML.

    An output with `part` takes that file of its archive, or that side (`inputs`, `targets`) of its shards.
    """
    sides: Mapping[str, bytes] = {}
    for name in names:
        out = what.outputs[name]
        if out.source.endswith("*"):
            sides = sides or _decode_shards(what, out.source[:-1], inputs)
            yield name, sides[out.part]
        elif out.part:
            with tarfile.open(fileobj=io.BytesIO(inputs(out.source)), mode="r:gz") as archive:
                file = archive.extractfile(out.part)
                yield name, b"" if file is None else file.read()
        else:
            segments = _SEGMENT.findall(inputs(out.source).decode())
            # Escapes such as `&amp;` are kept, as in the tokenised sets.
            yield name, _text(segment.strip() for segment in segments)


def tatoeba(what: PublicCorpus, names: Sequence[str], inputs: Inputs) -> Made:
    """Tatoeba's pairs (English, tab, German), split by the numbers in `split`: `dev`, `test`, and `left_out` of train.

    Text is normalised to NFC, white space of any kind to one space. Training pairs keep the order of the source.
    """
    (source,) = {what.outputs[name].source for name in names}
    with zipfile.ZipFile(io.BytesIO(inputs(source))) as archive:
        lines = archive.read("deu.txt").decode().split("\n")
    pairs = [
        tuple(" ".join(unicodedata.normalize("NFC", t).split()) for t in line.split("\t")) for line in lines if line
    ]
    apart = {number for numbers in what.split.values() for number in numbers}
    sets = {**what.split, "train": [number for number in range(len(pairs)) if number not in apart]}
    for name in names:
        which, language = what.outputs[name].part.split(".")
        side = ("en", "de").index(language)
        yield name, _text(pairs[number][side] for number in sets[which])


BUILDERS: Mapping[str, Callable[[PublicCorpus, Sequence[str], Inputs], Made]] = {
    "copy": copy,
    "envi": envi,
    "tatoeba": tatoeba,
}


def _text(lines: Iterator[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _decode_shards(what: PublicCorpus, prefix: str, inputs: Inputs) -> dict[str, bytes]:
    """Both sides of the shards whose names begin with `prefix`, in order; the vocabulary is the input `vocabulary`."""
    vocabulary = [line[1:-1] for line in inputs("vocabulary").decode().split("\n") if line]
    sides: dict[str, list[str]] = {"inputs": [], "targets": []}
    for name in sorted(n for n in what.inputs if n.startswith(prefix)):
        for record in _records(inputs(name)):
            example = _example(record)
            for side, lines in sides.items():
                lines.append(_sentence(example[side], vocabulary))
    return {side: _text(iter(lines)) for side, lines in sides.items()}


def _sentence(numbers: Sequence[int], vocabulary: Sequence[str]) -> str:
    r"""A sentence of tensor2tensor's subwords: `_` ends a token, `\u` is `_`, `\\` is `\`, `\N;` is character N.

    A space stands between two tokens that both begin with a letter or a number, and nowhere else: other spaces are tokens.
    Numbers 0 and 1 are padding and end.
    """
    text, word_before = "", False
    for token in "".join(vocabulary[n] for n in numbers if n > 1).split("_"):
        if token:
            token, word = _token(token)
            text += (" " if word and word_before else "") + token
            word_before = word
    return text


@functools.lru_cache(maxsize=1 << 17)
def _token(written: str) -> tuple[str, bool]:
    """A token, and whether it begins with a letter or a number."""
    token = _ESCAPE.sub(lambda m: "_" if m[0] == "\\u" else "\\" if m[0] == "\\\\" else chr(int(m[1])), written)
    return token, unicodedata.category(token[0])[0] in "LN"


def _records(body: bytes) -> Iterator[bytes]:
    """The records of a TFRecord file: length (8 bytes), its checksum (4), the record, its checksum (4)."""
    at = 0
    while at < len(body):
        (length,) = struct.unpack_from("<Q", body, at)
        yield body[at + 12 : at + 12 + length]
        at += length + 16


def _example(record: bytes) -> dict[str, list[int]]:
    """The integers of a `tf.train.Example`, by feature."""
    numbers = {}
    for _, features in _fields(record):
        for _, entry in _fields(features):
            parts = dict(_fields(entry))
            ((_, values),) = _fields(parts[2])
            numbers[parts[1].decode()] = [n for _, packed in _fields(values) for n in _varints(packed)]
    return numbers


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protocol buffer whose fields all have a length: number and content."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        length, at = _varint(message, at)
        yield key >> 3, message[at : at + length]
        at += length


def _varints(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = _varint(packed, at)
        yield value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits per byte, lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
