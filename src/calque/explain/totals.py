"""The costs of a whole model: both sides, the embeddings and the output layer."""

from dataclasses import dataclass

from calque.adl.check import CheckedDefinition
from calque.explain.node_costs import Figures, figures
from calque.explain.paths import path_length, path_order, waits

POSITIONS = 8
"""Bytes of the history of a row: one 64-bit number, shared by all layers."""
ORIGIN = 2
"""With several hypotheses per sentence, bytes per row and position for the row that it comes from."""
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Surroundings:
    """The matrices around an architecture, as in `calque.model.Shape`. A size of None is unknown, and nothing is counted for it."""

    source_size: int | None = None
    target_size: int | None = None
    tying: str = "three-way"
    output_bias: bool = True


@dataclass(frozen=True)
class ModelCosts:
    """A definition and its costs for sentences of `length` target and `source` source positions."""

    checked: CheckedDefinition
    encoder: Figures
    decoder: Figures
    around: Surroundings
    length: int
    source: int

    @property
    def embeddings(self) -> int:
        """Parameters of embeddings that are not shared with the output layer."""
        around, width = self.around, self.checked.width
        source = 0 if around.tying == "three-way" and around.target_size else (around.source_size or 0)
        target = 0 if around.tying != "none" else (around.target_size or 0)
        return (source + target) * width

    @property
    def output(self) -> int:
        """Parameters of the output layer; with tying, they are also those of the target embedding."""
        out = self.checked.decoder.width_out
        return (self.around.target_size or 0) * (out + self.around.output_bias)

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.encoder.parameters + self.decoder.parameters + self.embeddings + self.output

    @property
    def output_products(self) -> int:
        """Multiply-adds of the output layer, per target position."""
        return (self.around.target_size or 0) * self.checked.decoder.width_out

    @property
    def per_source_token(self) -> int:
        """Multiply-adds per source token: of the encoder, and of the decoder's memories."""
        return self.encoder.products.per_position(self.source, 0) + self.decoder.products.per_source(self.source)

    @property
    def per_place(self) -> int:
        """Multiply-adds per target position before the first word."""
        return self.decoder.products.per_place(self.source)

    @property
    def per_target_token(self) -> int:
        """Multiply-adds per target token of a sentence of `length`, all positions at once; a third of those of an update."""
        whole = self.decoder.whole.per_position(self.length, self.source)
        return whole + self.output_products + self.per_place

    def step_products(self, t: int) -> int:
        """Multiply-adds of decoding step t, from 1, of one row."""
        return self.decoder.products.per_position(t, self.source) + self.output_products

    @property
    def sentence(self) -> float:
        """Multiply-adds to decode a sentence: the encoder, the memories, and `length` steps of one row."""
        steps = sum(self.step_products(t) for t in (1, self.length)) * self.length / 2
        return self.per_source_token * self.source + self.per_place * self.length + steps

    def state_bytes(
        self, precision: str = "float32", capacity: int | None = None, rows: int = 1, beams: int = 1
    ) -> int:
        """Bytes of the decoding state of `rows` rows, `beams` per sentence, with the history, without padding of sources."""
        return state_bytes(self.decoder, capacity or self.length, self.source, precision, rows, beams)

    @property
    def form(self) -> dict[str, tuple[int, float, str]]:
        """For each side: sequential operations, the path length, and its growth."""
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
    """Bytes of the state of a decoder for at most `capacity` positions, with the history that its layers share."""
    item, sentences = BYTES[precision], rows // beams
    history = rows * (POSITIONS + (ORIGIN * capacity if beams > 1 else 0))
    return history + of.state.bytes(capacity, source, item, rows, sentences, padded)


def whole(
    checked: CheckedDefinition, around: Surroundings | None = None, length: int = 25, source: int = 25
) -> ModelCosts:
    """The costs of a definition."""
    return ModelCosts(
        checked, figures(checked.encoder), figures(checked.decoder), around or Surroundings(), length, source
    )
