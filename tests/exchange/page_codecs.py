"""Models of sentencepiece that tests of pages learn."""

import io
import random
from typing import Any

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from calque.data.codecs import PieceCodec
from calque.data.imported_codec import ImportedCodec, ImportedPieces
from calque.data.subwords import learn
from calque.data.vocabulary import SPECIALS
from calque.experiment import DataSettings

TEXT = """
A dog runs. Two dogs run through the snow. The man is walking with his dog on the beach.
A woman in a red coat is standing by the sea. Children are playing football in the park.
An old man reads the newspaper. The girl's hat is blue, and the boy's is green (or not).
Ein Hund läuft. Zwei Hunde rennen durch den Schnee. Der Mann geht mit seinem Hund am Strand spazieren.
Eine Frau im roten Mantel steht am Meer. Kinder spielen Fußball im Park. Ein alter Mann liest die Zeitung.
Le chien court dans la neige ! Où est-il ? Là-bas, à côté de l'école.
""".strip().split("\n")
"""What codecs of these tests learn from."""


def pieces_of(kind: str, size: int, bytes_too: bool = False, symbols: tuple[str, ...] = ()) -> PieceCodec:
    """A codec of sentencepiece, learned from `TEXT`."""
    settings = DataSettings(subwords=kind, vocabulary_size=size, byte_fallback=bytes_too, symbols=symbols)
    codec, _ = learn(settings, TEXT * 4, TEXT * 4)
    assert isinstance(codec, PieceCodec)
    return codec


def imported(kind: str, size: int, listed: dict[str, Any] | None = None, **options: Any) -> ImportedCodec:
    """A codec of a model of sentencepiece that another tool might have learned from `TEXT`: its ids are others, some of its pieces
    have none, and some ids have pieces of another model.
    """
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        minloglevel=3,
        num_threads=1,
        **options,
    )
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(k) for k in range(3, processor.get_piece_size())]
    random.Random(1).shuffle(pieces)
    tokens = (*SPECIALS, ">>deu<<", "__de__", "\u2581elsewhere", "<s2>", *pieces[3:])
    return ImportedCodec(model.getvalue(), ImportedPieces(tokens, hidden=(4, 5), **(listed or {})))
