"""Programs of kernel calls against the same model run layer by layer, and each sentence against itself alone."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
import torch
from torch import Tensor

import calque
from calque import zoo
from calque.decode.prepare import prepare_for_decoding
from calque.decode.recorded import Recorded
from calque.layers.contract import Context
from calque.layers.norm import Norm
from calque.layers.registry import builtin
from calque.model import Model
from calque.native import kernels
from calque.native.kernels import Kernels
from calque.native.placed import Closed
from calque.prove.compose import random_program
from calque.prove.prover import definition
from calque.train.initialise import initialise
from instructions import SETS, load
from parts import mixed

pytestmark = pytest.mark.skipif(not SETS, reason="no compiler, or no kernels for this processor")

TRANSFORMER = "encoder = pos -> repeat(2, tenc) -> norm\ndecoder = pos -> repeat(2, tdec) -> norm"
PLAIN = "encoder = pos -> repeat(2, tenc) -> norm\n"
FAMILIES = {
    "average": f"{PLAIN}decoder = pos -> repeat(2, res(gate(average -> ffl)) -> norm -> res(mh_dot_src_att))",
    "ssru": f"{PLAIN}decoder = repeat(2, res(ssru) -> norm -> res(mh_dot_src_att))",
    "lstm": f"{PLAIN}decoder = rnn -> concat(id, mlp_src_att) -> ff(v=tanh)",
    "gru": f"{PLAIN}decoder = rnn(d, gru) -> take(3, 40) -> linear -> res(dot_src_att(s=1, project=none))",
    "tanh, fed": f"{PLAIN}decoder = feed(linear -> rnn(d, tanh) -> concat(id, mlp_src_att) -> linear)",
    "convolution": "encoder = learn_pos(3) -> repeat(2, res(cnn(glu))) @ e\n"
    "decoder = learn_pos(3) -> cnn(tanh, kernel=3, dilation=2) -> res(dot_src_att(s=1, project=none, from=@e -> norm))",
    "fixed": "encoder = pos -> res(hc_self_att(-1, 1)) -> norm\n"
    "decoder = pos -> res(hc_self_att(-1, 0)) -> res(hc_src_att(-1, 0, 0, 1)) -> mul(linear -> act(silu), linear)",
    "heads of one number": f"{PLAIN}decoder = res(hc_src_att(-1, 0, 1, width=3, out=no) -> linear)"
    " -> res(mh_dot_src_att(heads=48))",
    "window": f"{PLAIN}decoder = res(dot_src_att(project=q, s=1, window=2, center=predict)) -> res(mh_dot_src_att(window=1))",
    "window of real bounds": f"{PLAIN}decoder = res(mh_dot_src_att(window=2, center=predict, bounds=real, renorm=yes))",
    "rotary": "att = mh_dot_self_att(rope=10000, kv_heads=2, qk_norm=yes)\nencoder = repeat(2, res(rms_norm -> att)) -> rms_norm\n"
    "decoder = repeat(2, res_r(att) -> res_r(mh_dot_src_att) -> res_r(swiglu)) -> rms_norm(groups=2, gain=no)",
    "gated scan": "encoder = res(light_cnn(5, heads=12)) -> norm\n"
    "decoder = zero_first -> res(mul(linear, light_cnn(4, heads=d, softmax=no) -> rg_lru) -> linear) -> res(mh_dot_src_att)",
    "retention": f"{PLAIN}decoder = res(retention(4)) -> res(mh_dot_src_att) -> res(retention(3, rope=50))",
    "linear attention": f"{PLAIN}decoder = res(linear_att(4, feature=elu, key=24)) -> linear_att(2, delta=yes, feature=silu)"
    " -> mh_dot_src_att",
    "window of words": f"{PLAIN}decoder = res(mh_dot_self_att(window=3)) -> res(mh_dot_self_att(window=0))"
    " -> res(mh_dot_self_att(window=20, rope=90, kv_heads=1)) -> mh_dot_src_att",
    "alibi": "encoder = pos -> res(mh_dot_self_att(relative=alibi)) -> res(mh_dot_self_att(window=1, relative=alibi))\n"
    "decoder = res(mh_dot_self_att(relative=alibi, kv_heads=2)) -> res(mh_dot_self_att(window=2, relative=alibi))"
    " -> mh_dot_src_att",
    "buckets": "encoder = res(mh_dot_self_att(relative=t5, buckets=8, reach=5)) -> res(mh_dot_self_att(window=2))\n"
    "decoder = res(mh_dot_self_att(relative=t5, buckets=8, reach=20)) -> mh_dot_src_att",
    "additive scores through windows": f"{PLAIN}decoder = res(mlp_src_att(window=1)) -> res(mlp_src_att(window=2, center=predict))"
    " -> res(mlp_src_att(window=1, center=predict, bounds=real, renorm=yes))",
    "locations": f"{PLAIN}decoder = res(location_src_att(3)) -> res(location_src_att(3, renorm=yes)) -> res(location_src_att)"
    " -> res(location_src_att(window=1)) -> res(location_src_att(window=2, center=predict, bounds=real, renorm=yes))",
    "lengths": f"{PLAIN}decoder = learn_length(3) -> res(pool(3)) -> mh_dot_src_att",
    "recurrent encoder": "encoder = dropout -> birnn -> repeat(2, res(rnn)) -> norm\n"
    "decoder = rnn -> concat(id, mlp_src_att) -> ff",
    "states handed over": "encoder = concat(rnn(24, start=none) @ e, reverse(rnn(24, gru) @ f -> linear @ g)) -> rnn(d, tanh)\n"
    "decoder = concat(rnn(24, start=@e), rnn(24, gru, start=@f)) -> concat(id, mlp_src_att, linear -> dot_src_att(s=1, from=@g))"
    " -> ff",
    "scans of an encoder": "encoder = reverse(pos -> res(mh_dot_self_att) -> ssru) -> res(average) -> res(rg_lru) -> res(min_gru)\n"
    "decoder = res(hgrn(floor=0.5)) -> res(min_gru) -> res(mh_dot_src_att)",
    "dynamic convolution": "encoder = res(light_cnn(5, heads=4, dynamic=yes)) -> res(light_cnn(heads=48, dynamic=yes, softmax=no))"
    "\ndecoder = res(light_cnn(4, heads=3, dynamic=yes)) -> res(light_cnn(1, heads=2, dynamic=yes)) -> mh_dot_src_att",
    "between input and body": "encoder = highway(ffl) -> scale(-2, learn=one) -> drop_path(hgrn, 0.3, without=input)\n"
    "decoder = drop_path(ssru) -> res(scale(0.5) -> scale(0.1, learn=each)) -> highway(linear -> norm) -> mh_dot_src_att",
    "matrices of an encoder": "encoder = birnn(d, tanh) -> res(reverse(retention(4, rope=50))) -> res(gla(2)) -> pool(3)\n"
    "decoder = res(mh_dot_src_att) -> res(linear_att(3, decay=head, delta=yes))",
    "decays": f"{PLAIN}decoder = res(gla(2)) -> res(mamba2(4)) -> res(linear_att(3, decay=head, delta=yes)) -> res(mh_dot_src_att)",
}
MOVES = (1, 3, 4, 9, 10, 40)
"""The steps behind which hypotheses change places: one after the other, and after some without."""
LEAVES = {2: [0, 1, 2, 3], 5: [0, 2, 3], 6: [1, 2], 20: [1]}
"""The steps behind which sentences leave, and which of those still there stay."""
SOURCE = torch.tensor([[4, 9, 13, 7, 2], [7, 30, 2, 0, 0], [2, 0, 0, 0, 0], [8, 8, 21, 2, 0]])


def prepared(text: str, precision: str) -> Model:
    heads = "heads = 4\n" if re.search("mh_|tenc", text) else ""
    model = calque.build(f"adl = 0\nd = 48\n{heads}{text}\n", 50, 50).eval()
    initialise(model, "glorot", 0.1, 3)
    return prepare_for_decoding(model, precision)


def decoded(model: Model, source: Tensor, words: Tensor, beams: int, layers: bool = False) -> tuple[Tensor, Tensor]:
    """What the encoder leaves at real tokens, and z of each step, hypotheses of a sentence changing places in between."""
    programs, mask = model.programs, source > 0
    if layers:
        model.programs = None
    with torch.inference_mode():
        read = model.encode(source, mask)
        state, found = model.init_state(read, words.shape[1], beams), []
        there, every = torch.arange(len(words)).view(-1, beams), torch.arange(len(source))
        for t in range(words.shape[1]):
            z, state = model.step(words[there.flatten(), t : t + 1], state, t + 1, beams)
            found.append(z.new_zeros(len(words), *z.shape[1:]).index_copy_(0, there.flatten(), z).float())
            if t in MOVES and beams > 1:
                state = state.select(torch.arange(there.numel()).view(-1, beams).flip(1).flatten())
            if len(source) == 4 and t in LEAVES:
                left = every[LEAVES[t]]
                state, there = (
                    state.keep(torch.arange(there.numel()).view(-1, beams)[left].flip(1).flatten(), left),
                    there[left],
                )
    model.programs = programs
    return read["end"].value[mask].float(), torch.cat(found, 1)


def words_of(rows: int, length: int = 5) -> Tensor:
    return torch.randint(4, 50, (rows, length), generator=torch.Generator().manual_seed(rows))


def has_programs(model: Model) -> bool:
    return isinstance(model.programs, Recorded) and model.programs._encoder is not None


@pytest.fixture(params=SETS)
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    found = Kernels(load(request.param), request.param)
    monkeypatch.setattr(kernels, "_loaded", lambda: found)
    return str(request.param)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_program_computes_what_its_layers_do(instructions: str, precision: str) -> None:
    model = prepared(TRANSFORMER, precision)
    got, want = (decoded(model, SOURCE, words_of(8), 2, layers) for layers in (False, True))
    assert has_programs(model)
    close = {"float32": 1e-5, "bfloat16": 3e-2, "int8": 3e-2}[precision]
    for one, other in zip(got, want, strict=True):
        assert (one - other).abs().max() <= close * other.abs().max()


@pytest.mark.parametrize(("name", "how"), mixed(FAMILIES, [(1, "float32"), (2, "float32"), (2, "bfloat16")], of=2))
def test_every_kind_of_decoder_has_programs(name: str, how: tuple[int, str]) -> None:
    beams, precision = how
    model = prepared(FAMILIES[name], precision)
    got, want = (decoded(model, SOURCE, words_of(4 * beams, 90), beams, layers) for layers in (False, True))
    assert has_programs(model)
    assert isinstance(model.programs, Recorded)
    assert all(model.programs._steps.values())
    for step in model.programs._steps.values():
        assert beams == 1 or (step is not None and step.moves_made)
    for one, other in zip(got, want, strict=True):
        apart = (one - other).abs()
        # What is rounded to bfloat16 in one step is carried on into all others.
        assert (apart.max() if precision == "float32" else apart.mean() / 1000) <= 2e-5 * other.abs().max()


@pytest.mark.parametrize("name", ["average", "lstm", "fixed", "fixed, renorm", "states handed over", "decays"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_sentence_is_the_same_alone_to_the_bit(instructions: str, precision: str, name: str) -> None:
    """Sentences are of very different lengths, and alone they have room for fewer words."""
    text = FAMILIES[name.removesuffix(", renorm")]
    if name.endswith("renorm"):
        text = text.replace("hc_src_att(-1, 0, 0, 1)", "hc_src_att(-1, 0, 0, 1, renorm=yes)")
    model, words, generator = prepared(text, precision), words_of(6, 9), torch.Generator().manual_seed(5)
    source = torch.randint(4, 50, (6, 61), generator=generator)
    source[torch.arange(61) >= torch.tensor([[61], [40], [23], [9], [2], [1]])] = 0
    together = decoded(model, source, words, 1)[1]
    for i, length in enumerate((61, 40, 23, 9, 2, 1)):
        alone = decoded(model, source[i, None, :length], words[i : i + 1, :7], 1)[1]
        assert torch.equal(alone[0], together[i, :7])


@pytest.mark.medium
@pytest.mark.parametrize("name", ["sinusoids", "learned", "rotary"])
def test_positions_go_on_behind_those_of_the_first_tables(name: str) -> None:
    """Tables of positions grow several times on the way, in the step and in the encoder."""
    texts = {
        "sinusoids": TRANSFORMER,
        "learned": TRANSFORMER.replace("pos", "learn_pos(100)"),
        "rotary": FAMILIES["rotary"],
    }
    model = prepared(texts[name], "float32")
    for source in (SOURCE, torch.randint(4, 50, (4, 300), generator=torch.Generator().manual_seed(1))):
        got, want = (decoded(model, source, words_of(4, 300), 1, layers) for layers in (False, True))
        for one, other in zip(got, want, strict=True):
            assert (one - other).abs().max() <= 2e-5 * other.abs().max()


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("name", ["rotary", "ssru", "lstm", "locations", "retention"])
def test_layers_go_on_where_sentences_have_left(name: str, beams: int) -> None:
    model, words, found = prepared(FAMILIES[name], "float32"), words_of(4 * beams, 5), []
    programs = model.programs
    with torch.inference_mode():
        for layers in (False, True):
            model.programs, rows = None if layers else programs, torch.arange(4 * beams)
            state = model.init_state(model.encode(SOURCE, SOURCE > 0), 5, beams)
            for t, left in enumerate(([0, 1, 2, 3], [1, 3], [0, 1], [1])):
                _, state = model.step(words[rows, t : t + 1], state, t + 1, beams)
                kept = torch.arange(len(rows)).view(-1, beams)[left].flatten()
                state, rows = state.keep(kept, torch.tensor(left)), rows[kept]
            model.programs = None
            found += [torch.tensor(state.bytes()), model.step(words[rows, 4:], state, 5, beams)[0]]
    assert found[0] == found[2]
    torch.testing.assert_close(found[1], found[3], rtol=1e-4, atol=1e-5)


def test_threads_change_no_bit_of_a_recurrent_encoder() -> None:
    model, long = prepared(FAMILIES["states handed over"], "bfloat16"), torch.randint(4, 50, (40, 30))
    for row, length in enumerate(torch.randint(0, 31, (40,), generator=torch.Generator().manual_seed(2)).tolist()):
        long[row, length:] = 0
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with torch.inference_mode():
                found.append(model.encode(long, long > 0))
    finally:
        torch.set_num_threads(before)
    for label, point in found[0].items():
        assert torch.equal(point.value, found[1][label].value)
    assert [key for key, point in found[0].items() if point.state] == ["e", "f"]
    for i in "ef":
        for one, other in zip(found[0][i].state or (), found[1][i].state or (), strict=True):
            assert torch.equal(one, other)


def has_no_program(model: Model) -> bool:
    """Whether a side of the model runs layer by layer."""
    decoded(model, SOURCE[:, :3], words_of(4, 1), 1)
    return not has_programs(model) or not all(cast("Recorded", model.programs)._steps.values())


@pytest.mark.medium
def test_every_layer_has_a_program_but_these() -> None:
    without = set()
    for layer in builtin().values():
        for example in layer.examples:
            for side in example.sides:
                text = f"{definition(example, side).rstrip()} -> linear\n"
                if has_no_program(prepare_for_decoding(calque.build(text, 50, 50).eval(), "bfloat16")):
                    without.add(example.text)
    assert without == {
        "moe(ff(6) -> linear)",
        "res(moe(norm -> ffl, 3, top=1, renorm=no))",
        "moe(rnn(6), 3, top=2)",
        "moe(mh_dot_src_att(2), 2, top=1)",
        "rnn(6, dropout=0.3, norm=yes)",
        "rnn(6, gru, bias=no, norm=yes)",
        "rnn(6, tanh, dropout=0.5, norm=yes)",
        "mh_dot_self_att(heads=2, relative=shaw, reach=2)",
        "mh_dot_self_att(heads=2, relative=alibi, talking=yes, bias=yes)",
        "hc_self_att(-2, 1, renorm=yes)",  # in an encoder
    }


def apart(seed: int) -> float:
    """How far a random architecture with its programs is from its layers one by one, as a share of the largest number."""
    model = calque.build(f"{random_program(seed).rstrip()} -> linear\n", 50, 50).eval()
    initialise(model, "glorot", 0.1, 3)
    model, beams = prepare_for_decoding(model, "float32"), 1 + seed % 3
    got, want = (decoded(model, SOURCE, words_of(4 * beams, 7), beams, layers) for layers in (False, True))
    return max(
        float((one - other).abs().max() / (1e-3 + other.abs().max())) for one, other in zip(got, want, strict=True)
    )


@pytest.mark.medium
@pytest.mark.usefixtures("shapes_unchecked")
def test_random_architectures_compute_what_their_layers_do() -> None:
    assert {seed for seed in range(30) if apart(seed) > 1e-3} == set()


@pytest.mark.slow
@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("first", range(30, 1200, 90))
def test_many_random_architectures_compute_what_their_layers_do(first: int) -> None:
    assert {seed for seed in range(first, first + 90) if apart(seed) > 1e-3} == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.distinct())
def test_every_architecture_of_the_zoo_has_programs(name: str) -> None:
    model = prepare_for_decoding(calque.build(zoo.read(name).body, 50, 50).eval(), "bfloat16")
    assert not has_no_program(model)


def test_a_layer_without_a_program_runs_as_before() -> None:
    model = prepared("encoder = id\ndecoder = mh_dot_self_att(relative=shaw) -> mh_dot_src_att", "bfloat16")
    got, want = (decoded(model, SOURCE, words_of(4), 1, layers)[1] for layers in (False, True))
    assert torch.equal(got, want)
    assert isinstance(model.programs, Recorded)
    assert not any(model.programs._steps.values())


def test_sums_and_non_linearities_are_part_of_the_product_before() -> None:
    model = prepared(
        FAMILIES["fixed"].replace("encoder = pos -> res(hc_self_att(-1, 1)) -> norm", "encoder = res(ffl)"), "bfloat16"
    )
    assert isinstance(model.programs, Recorded)
    encoder = model.programs._encoder
    assert encoder is not None
    # Embedding, two products, the result.
    assert len(encoder.program._operations) == 4


def test_a_layer_of_a_plugin_does_not_inherit_a_program() -> None:
    class Doubled(Norm):
        def forward(self, x: Tensor, ctx: Context) -> Tensor:
            return 2 * super().forward(x, ctx)

    model = calque.build(f"adl = 0\nd = 48\nheads = 4\n{TRANSFORMER}\n", 50, 50).eval()
    for norm in (m for m in model.modules() if isinstance(m, Norm)):
        norm.__class__ = Doubled
    model = prepare_for_decoding(model, "bfloat16")
    got, want = (decoded(model, SOURCE, words_of(4), 1, layers)[1] for layers in (False, True))
    assert torch.equal(got, want)
    assert not has_programs(model)


def test_threads_that_share_a_model_wait_for_its_tables() -> None:
    model = prepared(TRANSFORMER, "bfloat16")
    assert isinstance(model.programs, Recorded)
    program = cast("Closed", model.programs._encoder.program)  # type: ignore[union-attr]  # it has one
    (place, rows), *_ = program._tables

    def slow(count: int) -> Tensor:
        time.sleep(0.1)
        return rows(count)

    program._tables = [(place, slow)]
    with ThreadPoolExecutor(4) as crew:
        found = list(crew.map(lambda _: decoded(model, SOURCE, words_of(4), 1), range(4)))
    assert all(torch.equal(got, want) for pair in found for got, want in zip(pair, found[0], strict=True))
    read, _ = decoded(model, SOURCE, words_of(4), 1, layers=True)
    torch.testing.assert_close(found[0][0], read, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("programs", [True, False])
def test_a_state_has_room_for_as_many_positions_as_it_was_made_for(programs: bool) -> None:
    model = prepared(TRANSFORMER, "bfloat16")
    if not programs:
        model.programs = None
    with torch.inference_mode():
        state = model.init_state(model.encode(SOURCE, SOURCE > 0), 2)
        for t in range(2):
            _, state = model.step(words_of(4, 1), state, t + 1)
        with pytest.raises(ValueError, match="room for 2 positions, not for 3"):
            model.step(words_of(4, 1), state, 3)


@pytest.mark.parametrize("name", ["ssru", "retention"])
@pytest.mark.parametrize("moved", [True, False])
def test_a_state_that_was_used_up_is_refused(name: str, moved: bool) -> None:
    model = prepared(FAMILIES[name], "bfloat16")
    with torch.inference_mode():
        state = model.init_state(model.encode(SOURCE, SOURCE > 0), 5)
        _, state = model.step(words_of(4, 1), state, 1)
        if moved:
            state = state.select(torch.tensor([1, 0, 2, 3]))
        with pytest.raises(IndexError):
            model.step(torch.full((4, 1), 50), state, 2)
        model.step(words_of(4, 1), state, 2)  # nothing was computed before
        every = torch.arange(4)
        for again in (
            lambda: model.step(words_of(4, 1), state, 2),
            lambda: model.step(words_of(4, 2), state, 3),
            lambda: state.select(every),
            lambda: state.keep(every, every),
        ):
            with pytest.raises(ValueError, match="used up"):
                again()


def test_a_state_of_another_model_is_continued_with_the_weights_of_this_one() -> None:
    model, other = (prepared(FAMILIES["ssru"], "bfloat16") for _ in range(2))
    other.programs = Recorded(other, model.programs._kernels)  # type: ignore[union-attr]  # it has them
    with torch.inference_mode():
        _, state = model.step(words_of(4, 1), model.init_state(model.encode(SOURCE, SOURCE > 0), 5), 1)
        step = state.parts[1].turns.step  # type: ignore[attr-defined]
        _, after = other.step(words_of(4, 1), state, 2)
        assert after.parts[1].turns.step is not step  # type: ignore[attr-defined]


def test_masks_and_words_of_any_layout() -> None:
    model = prepared(TRANSFORMER, "bfloat16")
    turned = (SOURCE.t().contiguous() > 0).t()
    assert not turned.is_contiguous()
    with torch.inference_mode():
        want, got = (
            model.step(words, model.init_state(model.encode(source, mask), 3), 1)[0]
            for words, source, mask in (
                (words_of(4, 1), SOURCE, SOURCE > 0),
                (words_of(4, 1).int(), SOURCE.int(), turned),
            )
        )
    assert torch.equal(got, want)


@pytest.mark.parametrize("number", [-1, 50])
def test_words_outside_the_vocabulary_are_an_error(number: int) -> None:
    model = prepared(TRANSFORMER, "bfloat16")
    with torch.inference_mode():
        state = model.init_state(model.encode(SOURCE, SOURCE > 0), 3)
        with pytest.raises(IndexError):
            model.step(torch.full((4, 1), number), state, 1)
        with pytest.raises(IndexError):
            model.encode(torch.full((1, 3), number))
