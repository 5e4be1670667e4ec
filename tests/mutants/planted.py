"""Planted faults: each breaks one thing in a layer or a kind of state, as a person might, and names the law that must say so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from calque.layers import history, reverse, source
from calque.layers.cnn import Convolution
from calque.layers.contract import Context, Cost
from calque.layers.dot import compare, grouped, join, normalised, split
from calque.layers.dot_source_attention import DotSourceAttention
from calque.layers.dropout import Dropout
from calque.layers.feed import Feed
from calque.layers.ff import FeedForward
from calque.layers.history import Chunk, History, KeysValues
from calque.layers.learn_pos import LearnedPosition
from calque.layers.linear import Linear
from calque.layers.norm import Norm
from calque.layers.rnn import Recurrent
from calque.layers.self_attention import SelfAttention
from calque.layers.source import SourceAttention
from calque.layers.state import Cell, Memory, State, States, Window
from calque.layers.zero_first import ZeroFirst

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutant:
    """A fault: the layer that shows it, the law that must fail, and how it is planted."""

    layer: str
    law: str
    plant: Callable[[Patch], None]

    @property
    def name(self) -> str:
        return self.plant.__name__


MUTANTS: list[Mutant] = []


def mutant(layer: str, law: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def add(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS.append(Mutant(layer, law, plant))
        return plant

    return add


# -- counters


@mutant("pos", "equal")
def positions_not_advanced(patch: Patch) -> None:
    patch.setattr(History, "advance", lambda self, n, mask: self)


@mutant("learn_pos", "idle")
def positions_ignore_the_mask(patch: Patch) -> None:
    real = History.advance
    patch.setattr(History, "advance", lambda self, n, mask: real(self, n, None)._replace(at=None))


@mutant("learn_pos", "batch")
def one_position_for_all_rows(patch: Patch) -> None:
    real = LearnedPosition.step

    def step(self: LearnedPosition, x: Tensor, state: State, ctx: Context) -> Any:
        chunk = ctx.now
        same = chunk.history._replace(positions=chunk.history.positions.max().expand_as(chunk.history.positions))
        return real(self, x, state, ctx._replace(chunk=Chunk(same, chunk.n, chunk.mask, chunk.visible)))

    patch.setattr(LearnedPosition, "step", step)


@mutant("pos", "reorder")
def keep_forgets_the_positions(patch: Patch) -> None:
    patch.setattr(
        History, "keep", lambda self, rows, sentences: History(torch.zeros_like(self.positions[rows]), None, None)
    )


@mutant("pos", "idle")
def rows_taken_to_be_even(patch: Patch) -> None:
    real = History.advance
    patch.setattr(History, "advance", lambda self, n, mask: real(self, n, mask)._replace(at=(self.at or 0) + n))


@mutant("zero_first", "equal")
def zeros_before_every_chunk(patch: Patch) -> None:
    def step(self: ZeroFirst, x: Tensor, state: State, ctx: Context) -> Any:
        return self.forward(x, ctx), state

    patch.setattr(ZeroFirst, "step", step)


# -- windows


@mutant("cnn", "equal")
def window_off_by_one(patch: Patch) -> None:
    def write(self: Window, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Window]:
        seen = torch.cat([self.last, x], 1)
        return seen, Window(seen[:, x.shape[1] - 1 : x.shape[1] - 1 + self.last.shape[1]])

    patch.setattr(Window, "write", write)


@mutant("cnn", "idle")
def window_takes_idle_inputs(patch: Patch) -> None:
    real = Window.write
    patch.setattr(Window, "write", lambda self, x, mask: real(self, x, None))


@mutant("cnn", "padding")
def convolution_reads_padding(patch: Patch) -> None:
    real = Convolution.forward
    patch.setattr(Convolution, "forward", lambda self, x, ctx: real(self, x, ctx._replace(mask=None)))


@mutant("cnn", "causal")
def convolution_sees_one_ahead(patch: Patch) -> None:
    def forward(self: Convolution, x: Tensor, ctx: Context) -> Tensor:
        x = x if ctx.mask is None else x * ctx.mask[:, :, None]
        before = max(0, self.field - 1) if self.causal else self.field // 2
        return self._convolve(F.pad(x, (0, 0, before, self.field - before)), x.shape[1])

    patch.setattr(Convolution, "forward", forward)


# -- cells


@mutant("rnn", "idle")
def cell_ignores_the_mask(patch: Patch) -> None:
    patch.setattr(Cell, "write", lambda self, new, mask: Cell(new))


@mutant("rnn", "equal")
def gradient_stops_between_steps(patch: Patch) -> None:
    real = Recurrent.step

    def step(self: Recurrent, x: Tensor, state: Cell, ctx: Context) -> Any:
        return real(self, x, Cell(tuple(v.detach() for v in state.values)), ctx)

    patch.setattr(Recurrent, "step", step)


@mutant("rnn", "equal")
def final_state_copied_by_beam_and_not_by_sentence(patch: Patch) -> None:
    real = Recurrent._start

    def start(self: Recurrent, batch: int, ctx: Context) -> Cell:
        if self.start is None:
            return real(self, batch, ctx)
        return Cell(tuple(v.repeat(ctx.beams, 1) for v in ctx.sources[self.start].state or ()))

    patch.setattr(Recurrent, "_start", start)


@mutant("birnn-labelled", "padding")
def final_state_behind_the_padding(patch: Patch) -> None:
    real = Recurrent._run
    patch.setattr(Recurrent, "_run", lambda self, x, state, mask: real(self, x, state, None))


@mutant("rnn", "state")
def cell_remembered_in_the_module(patch: Patch) -> None:
    real = Recurrent._run

    def run(self: Any, x: Tensor, state: Cell, mask: Tensor | None) -> Any:
        y, after = real(self, x, getattr(self, "kept", state) if x.shape[1] == 1 else state, mask)
        self.__dict__["kept"] = after
        return y, after

    patch.setattr(Recurrent, "_run", run)


# -- keys and values


@mutant("mh_dot_self_att", "idle")
def idle_positions_overwrite_the_last_slot(patch: Patch) -> None:
    real = Chunk.place

    def place(self: Chunk, rows: int, stride: int, inner: int) -> Tensor:
        return real(self, rows, stride, inner) - (0 if self.mask is None else _idle(self, rows) * self.beams * inner)

    def _idle(self: Chunk, rows: int) -> Tensor:
        return (~self.mask)[:, None, :].expand(-1, rows, -1).flatten(0, 1).long()

    patch.setattr(Chunk, "place", place)


@mutant("mh_dot_self_att", "equal")
def every_visible_slot_is_seen(patch: Patch) -> None:
    patch.setattr(Chunk, "blocked", None)


@mutant("mh_dot_self_att", "equal")
def inputs_of_a_chunk_see_later_ones(patch: Patch) -> None:
    real = Chunk.blocked.func

    def blocked(self: Chunk) -> Tensor | None:
        mask: Tensor | None = real(self)
        return mask if mask is None or self.n == 1 else mask & mask.roll(1, 2)

    patch.setattr(Chunk, "blocked", property(blocked))


@mutant("mh_dot_self_att", "equal")
def newest_position_not_visible(patch: Patch) -> None:
    real = Chunk.__init__

    def init(self: Chunk, history: History, n: int, mask: Tensor | None, visible: int) -> None:
        real(self, history, n, mask, max(1, visible - 1))

    patch.setattr(Chunk, "__init__", init)


@mutant("mh_dot_self_att", "reorder")
def past_not_selected(patch: Patch) -> None:
    patch.setattr(History, "select", lambda self, rows: self)


@mutant("mh_dot_self_att", "reorder")
def future_written_where_nobody_looks(patch: Patch) -> None:
    real = History.select

    def select(self: History, rows: Tensor) -> History:
        after = real(self, rows)
        if self.origin is None:
            return after
        return after._replace(origin=self.origin.flatten(0, 1)[rows].view_as(after.origin))

    patch.setattr(History, "select", select)


@mutant("mh_dot_self_att", "model")
def several_hypotheses_look_for_their_common_past_in_their_own_slots(patch: Patch) -> None:
    real = History.spread

    def spread(self: History, rows: Tensor, past: int) -> History:
        fresh = History.new(len(rows), self.capacity, len(rows) // len(self.positions), rows.device)
        return real(self, rows, past)._replace(origin=fresh.origin)

    patch.setattr(History, "spread", spread)


@mutant("mh_dot_self_att", "model")
def the_last_position_of_a_common_past_is_lost(patch: Patch) -> None:
    real = KeysValues.spread
    patch.setattr(KeysValues, "spread", lambda self, rows, past: real(self, rows, past - 1))


@mutant("mh_dot_self_att", "reorder")
def keys_of_finished_sentences_stay(patch: Patch) -> None:
    real = KeysValues.keep
    patch.setattr(KeysValues, "keep", lambda self, rows, kept: real(self, rows, torch.arange(len(kept))))


@mutant("mh_dot_self_att", "equal")
def written_in_place_under_gradients(patch: Patch) -> None:
    real = history._put

    def put(buffer: Tensor, index: Tensor, new: Tensor) -> Tensor:
        with torch.no_grad():
            return real(buffer, index, new)

    patch.setattr(history, "_put", put)


@mutant("mh_dot_self_att", "causal")
def causal_mask_off_by_one(patch: Patch) -> None:
    real = Tensor.triu
    patch.setattr(Tensor, "triu", lambda self, k: real(self, k + 1))


@mutant("mh_dot_self_att", "padding")
def self_attention_reads_padding(patch: Patch) -> None:
    real = SelfAttention.forward
    patch.setattr(SelfAttention, "forward", lambda self, x, ctx: real(self, x, ctx._replace(mask=None)))


@mutant("mh_dot_self_att", "record")
def other_weights_are_recorded(patch: Patch) -> None:
    real = Chunk.by_row
    patch.setattr(Chunk, "by_row", lambda self, weights: real(self, weights).flip(1))


# -- memory of the source


@mutant("mh_dot_src_att", "equal")
def beams_folded_the_wrong_way(patch: Patch) -> None:
    def read(self: SourceAttention, x: Tensor, memory: Memory, ctx: Context) -> Tensor:
        batch, n, _ = x.shape
        sentences = batch // ctx.beams
        folded = x.view(ctx.beams, sentences, n, -1).transpose(0, 1).flatten(1, 2)
        y, _ = self.look(folded, memory, None)
        return y.unflatten(1, (ctx.beams, n)).transpose(0, 1).reshape(batch, n, -1)

    patch.setattr(source.SourceAttention, "read", read)


@mutant("mlp_src_att", "reorder")
def finished_sentences_stay_in_memory(patch: Patch) -> None:
    def keep(self: Memory, rows: Tensor, sentences: Tensor) -> Memory:
        first = torch.arange(sentences.numel())
        return Memory(self.keys[first], self.values[first], None if self.blocked is None else self.blocked[first])

    patch.setattr(Memory, "keep", keep)


@mutant("mh_dot_src_att", "reorder")
def memory_moves_with_the_beams(patch: Patch) -> None:
    patch.setattr(Memory, "select", lambda self, rows: self._replace(keys=self.keys.flip(0)))


@mutant("mlp_src_att", "padding")
def source_padding_is_read(patch: Patch) -> None:
    real = SourceAttention._memory
    patch.setattr(SourceAttention, "_memory", lambda self, ctx: real(self, ctx)._replace(blocked=None))


@mutant("mh_dot_src_att", "state")
def memory_not_counted(patch: Patch) -> None:
    patch.setattr(Memory, "bytes", lambda self: 0)


@mutant("mh_dot_src_att", "equal")
def scale_forgotten_for_single_queries(patch: Patch) -> None:
    real = DotSourceAttention.look

    def look(self: DotSourceAttention, x: Tensor, memory: Memory, near: Any) -> Any:
        q = split(self.q(x), self.heads)  # the scale is forgotten where queries come one at a time
        if x.shape[1] > 1:
            return real(self, x, memory, near)
        blocked = None if memory.blocked is None else memory.blocked[:, None, None]
        weights = normalised(compare(q, memory.keys, 1.0), blocked).to(memory.values.dtype)
        contexts = grouped(weights, memory.values)
        return self.out(join(contexts)), weights

    patch.setattr(DotSourceAttention, "look", look)


# -- feed, reverse


@mutant("feed", "state")
def feed_starts_from_what_was_fed_last(patch: Patch) -> None:
    real_start, real_step = Feed.init_state, Feed.step

    def init_state(self: Any, batch: int, capacity: int, ctx: Context) -> Any:
        fed, inner = real_start(self, batch, capacity, ctx).parts
        last = self.__dict__.get("last")
        return States((Cell((last,)) if last is not None and last.shape[0] == batch else fed, inner))

    def step(self: Any, x: Tensor, state: States, ctx: Context) -> Any:
        y, after = real_step(self, x, state, ctx)
        self.__dict__["last"] = y[:, -1].detach()
        return y, after

    patch.setattr(Feed, "init_state", init_state)
    patch.setattr(Feed, "step", step)


@mutant("feed", "reorder")
def feed_not_selected(patch: Patch) -> None:
    patch.setattr(Cell, "select", lambda self, rows: self)


@mutant("feed", "idle")
def feed_moves_on_while_idle(patch: Patch) -> None:
    real = Cell.write
    patch.setattr(Cell, "write", lambda self, new, mask: real(self, new, None))


@mutant("reverse", "padding")
def padding_comes_first_in_reverse(patch: Patch) -> None:
    patch.setattr(reverse, "backwards", lambda x, mask: x.flip(1))


# -- what is known before a layer is built, and what changes in training


@mutant("linear", "shape")
def cost_forgets_the_bias(patch: Patch) -> None:
    patch.setattr(Linear, "cost", classmethod(lambda cls, args, site: Cost(args.width * site.width)))


@mutant("ff", "shape")
def infer_names_another_width(patch: Patch) -> None:
    patch.setattr(FeedForward, "infer", classmethod(lambda cls, args, site: args.n + 1))


@mutant("dropout", "train")
def step_forgets_the_scale_of_dropout(patch: Patch) -> None:
    def step(self: Dropout, x: Tensor, state: Any, ctx: Context) -> Any:
        return (x * (torch.rand_like(x) >= self.p) if self.training else x), state

    patch.setattr(Dropout, "step", step)


@mutant("ff", "train")
def dropout_while_evaluated(patch: Patch) -> None:
    patch.setattr(FeedForward, "forward", lambda self, x, ctx: F.dropout(F.relu(self.project(x)), 0.1, training=True))


@mutant("norm", "batch")
def normalised_over_the_batch(patch: Patch) -> None:
    def forward(self: Norm, x: Tensor, ctx: Context) -> Tensor:
        return F.layer_norm(x - 1e-3 * x.mean(0, keepdim=True), x.shape[-1:], self.gain, self.shift, self.eps)

    patch.setattr(Norm, "forward", forward)
