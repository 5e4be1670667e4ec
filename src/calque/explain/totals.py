"""A whole model's figures: the two sides and what surrounds them, the embeddings and the output layer."""

from dataclasses import dataclass

from calque.adl.check import CheckedDefinition
from calque.explain.node_costs import Figures, figures
from calque.explain.paths import path_length, path_order, waits

POSITIONS = 8
"""Bytes of the history of a row: one 64-bit number, shared by all layers. With several hypotheses to a sentence, each row
keeps besides for every position, in 16 bits, whose it was."""
ORIGIN = 2
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Surroundings:
    """What surrounds an architecture, as `calque.model.Shape` has it. A size of None is not known and nothing is counted."""

    source_size: int | None = None
    target_size: int | None = None
    tying: str = "three-way"
    output_bias: bool = True


@dataclass(frozen=True)
class ModelCosts:
    """A definition and its figures at sentences of `length` and `source` positions."""

    checked: CheckedDefinition
    encoder: Figures
    decoder: Figures
    around: Surroundings
    length: int
    source: int

    @property
    def embeddings(self) -> int:
        """Parameters of the embeddings that no other matrix is."""
        around, width = self.around, self.checked.width
        source = 0 if around.tying == "three-way" and around.target_size else (around.source_size or 0)
        target = 0 if around.tying != "none" else (around.target_size or 0)
        return (source + target) * width

    @property
    def output(self) -> int:
        """Parameters of the output layer, which with tying are the target embedding's too."""
        out = self.checked.decoder.width_out
        return (self.around.target_size or 0) * (out + self.around.output_bias)

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.encoder.parameters + self.decoder.parameters + self.embeddings + self.output

    @property
    def output_products(self) -> int:
        """Multiply-adds of the output layer, per target position."""
        return (self.around.target_size or 0) * self.checked.decoder.width_out

    @property
    def per_source_token(self) -> int:
        """Multiply-adds per source token: of the encoder, and of what the decoder makes of it once."""
        return self.encoder.products.per_position(self.source, 0) + self.decoder.products.per_source(self.source)

    @property
    def per_place(self) -> int:
        """Multiply-adds per target position of what is computed ahead, before the first word."""
        return self.decoder.products.per_place(self.source)

    @property
    def per_target_token(self) -> int:
        """Multiply-adds per target token of a sentence of `length`, all positions at once; a third of an update's."""
        return self.step_products(self.length) + self.per_place

    def step_products(self, t: int) -> int:
        """Multiply-adds of decoding step t, from 1, of one row."""
        return self.decoder.products.per_position(t, self.source) + self.output_products

    @property
    def sentence(self) -> float:
        """Multiply-adds to decode a sentence: the encoder, the memories, what is computed ahead for `length`
        positions, as many steps of one row.
        """
        steps = sum(self.step_products(t) for t in (1, self.length)) * self.length / 2
        return self.per_source_token * self.source + self.per_place * self.length + steps

    def state_bytes(
        self, precision: str = "float32", capacity: int | None = None, rows: int = 1, beams: int = 1
    ) -> int:
        """Bytes of the decoding state of `rows` rows, `beams` to a sentence, history included, sources without padding."""
        return state_bytes(self.decoder, capacity or self.length, self.source, precision, rows, beams)

    @property
    def form(self) -> dict[str, tuple[int, float, str]]:
        """Per side: operations that wait for each other, the path between two positions, and how that grows."""
        sides = {"encoder": (self.checked.encoder, self.source), "decoder": (self.checked.decoder, self.length)}
        return {name: (waits(c, n), path_length(c, n), path_order(c)) for name, (c, n) in sides.items()}


def state_bytes(
    of: Figures,
    capacity: int,
    source: int,
    precision: str = "float32",
    rows: int = 1,
    beams: int = 1,
    padded: bool = False,
) -> int:
    """Bytes of the state of a decoder for at most `capacity` positions, the rows' shared history included."""
    item, sentences = BYTES[precision], rows // beams
    history = rows * (POSITIONS + (ORIGIN * capacity if beams > 1 else 0))
    return history + of.state.bytes(capacity, source, item, rows, sentences, padded)


def whole(
    checked: CheckedDefinition, around: Surroundings | None = None, length: int = 25, source: int = 25
) -> ModelCosts:
    """The figures of a definition."""
    return ModelCosts(
        checked, figures(checked.encoder), figures(checked.decoder), around or Surroundings(), length, source
    )
