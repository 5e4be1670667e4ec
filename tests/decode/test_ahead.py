"""Several steps made by one call against steps made one by one."""

from typing import Any

import pytest
import torch
from test_recorded import FAMILIES, SETS, SOURCE, prepared, words_of

from calque.data.vocabulary import EOS
from calque.decode import ahead, recorded
from calque.decode.rule import Sampling, SearchSettings
from calque.decode.scorer import Candidates, Models, SourceBatch
from calque.decode.search import Hypotheses, search_with
from calque.model import Model
from calque.native.kernels import without_kernels
from calque.native.steps import Choosing, MadeSteps, StepTensors, make_steps

pytestmark = pytest.mark.skipif(not SETS, reason="no compiler, or no kernels for this processor")

LIMITS = torch.tensor([12, 5, 19, 14])
PREFIXES = [[5, 6], [], [7], [4, 4, 9, 8]]


class Calls(list[tuple[int, bool]]):
    """Of each call that made several steps how many, and whether hypotheses changed places in between."""

    def make(self, *given: Any) -> MadeSteps:
        made, before = make_steps(*given), next(x for x in given if isinstance(x, StepTensors))
        self.append((len(made.best), made.origin is not before.origin))
        return made


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()
    monkeypatch.setattr(recorded, "make_steps", found.make)
    return found


def searched(
    model: Model, settings: SearchSettings, several: int, candidates: Candidates | None = None, prefixes: Any = None
) -> Hypotheses:
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(ahead, "SEVERAL", several)
        scorer = Models([SourceBatch(model, SOURCE, SOURCE > 0)], candidates=candidates)
        return search_with(scorer, LIMITS, settings, prefixes)


def lively(text: str, precision: str, beam: int) -> Model:
    """A model whose sentences end, some early and some late: not at once where the end symbol is among many candidates."""
    model = prepared(text, precision)
    with torch.no_grad():
        model.output.bias[EOS] += 0.5 if beam == 1 else -0.4
    return model


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", FAMILIES)
def test_steps_made_together_choose_what_steps_alone_do(name: str, beam: int, precision: str, calls: Calls) -> None:
    model = lively(FAMILIES[name], precision, beam)
    for settings in (SearchSettings(beam), SearchSettings(beam, exact_length=15, n_best=beam)):
        together, some, alone = (repr(searched(model, settings, several)) for several in (16, 3, 1))
        assert together == alone
        assert some == alone
    assert max(steps for steps, _ in calls) > 3
    assert beam == 1 or any(moved for _, moved in calls)


@pytest.mark.parametrize("name", FAMILIES)
def test_samples_are_those_of_layers_one_by_one_and_leave_where_they_end(name: str) -> None:
    """Each is a sentence of its own, with a state of its own: 40 samples of four sentences end at different steps."""
    model, settings = (
        lively(FAMILIES[name], "float32", 1),
        SearchSettings(40, n_best=40, sampling=Sampling(temperature=1.2, seed=2)),
    )
    found = searched(model, settings, 1)
    model.programs = None
    with without_kernels():
        wanted = searched(model, settings, 1)
    assert found.tokens == wanted.tokens
    assert len({len(words) for some in found.tokens for words in some}) > 6
    for one, other in zip(found.logps, wanted.logps, strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-4)


@pytest.mark.medium
@pytest.mark.parametrize(
    "settings",
    [
        SearchSettings(1, scores=False),
        SearchSettings(1, word_penalty=0.4),
        SearchSettings(4, normalise="none", n_best=3),
        SearchSettings(4, word_penalty=0.3, stop="full"),
        SearchSettings(2, normalise="gnmt", alpha=0.6, capacity=30),
    ],
)
@pytest.mark.parametrize("name", ["ssru", "rotary"])
def test_under_every_rule(name: str, settings: SearchSettings, calls: Calls) -> None:
    model = lively(FAMILIES[name], "int8", settings.beam)
    ids = torch.cat([torch.arange(4), torch.arange(5, 50, 3)])
    forbidden = torch.zeros(4, len(ids), dtype=torch.bool)
    for row in range(4):
        forbidden[row, 6 + row :: 5] = True
    for candidates in (None, Candidates(ids), Candidates(ids, forbidden), Candidates(None, words_of(4, 50) % 3 == 0)):
        allowed = PREFIXES if candidates is None or candidates.ids is None else [[5, 8], [], [11], [5, 5, 14, 8]]
        for prefixes in (None, allowed):
            together, alone = (repr(searched(model, settings, n, candidates, prefixes)) for n in (16, 1))
            assert together == alone
    assert calls


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", ["ssru", "rotary"])
def test_calls_go_on_behind_hypotheses_that_have_ended(name: str, beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[int] = []
    step = recorded.Recorded.step

    def counted(programs: recorded.Recorded, words: torch.Tensor, *given: Any) -> Any:
        alone.append(len(words))
        return step(programs, words, *given)

    monkeypatch.setattr(recorded.Recorded, "step", counted)
    found = searched(lively(FAMILIES[name], "int8", beam), SearchSettings(beam), 16)
    assert len({len(words) for (words, *_) in found.tokens}) > 1
    # Begin symbols, and where no further step can be made together: one before the limit of a sentence.
    assert alone[0] == len(LIMITS)
    assert len(alone) <= 1 + len(LIMITS)


@pytest.mark.parametrize("words", [1, 2, 5])
def test_where_a_beam_asks_for_more_words_than_there_are(words: int) -> None:
    model, ids = lively(FAMILIES["rotary"], "int8", 4), torch.cat([torch.arange(4), 5 + torch.arange(words)])
    together, alone = (repr(searched(model, SearchSettings(4, n_best=4), n, Candidates(ids))) for n in (16, 1))
    assert together == alone


def test_who_has_ended_stops_nobody(calls: Calls) -> None:
    """Greedy search: a sentence that is done may choose the end symbol at every step."""
    model = prepared(FAMILIES["ssru"], "float32")
    state = model.init_state(model.encode(SOURCE, SOURCE > 0), 9)
    output, programs = model.output, model.programs
    words = torch.full((4, 1), 7)
    best = output.choosing(EOS, EOS, 1, -1e4, False)  # the end symbol is always the best
    with torch.inference_mode():
        found = [
            programs.several(words, state, best._replace(needed=torch.tensor(needed), enough=enough), 4)
            for needed, enough in (([0] * 4, 5), ([0, 1, 0, 0], 4), ([0, 2, 0, 3], 4), ([0, 2, 0, 3], 3), ([0] * 4, 4))
        ]
    assert [len(made) for made, _ in found] == [4, 1, 3, 2, 1]
    assert all((one.words == EOS).all() for made, _ in found for one in made)


@pytest.mark.parametrize("name", ["ssru", "retention"])
def test_a_state_is_used_up_by_several_steps(name: str) -> None:
    model = prepared(FAMILIES[name], "bfloat16")
    choosing: Choosing = model.output.choosing(4, EOS, 1, 0.0, False)
    choosing = choosing._replace(needed=torch.ones(4, dtype=torch.int64))
    with torch.inference_mode():
        state = model.init_state(model.encode(SOURCE, SOURCE > 0), 5)
        _, state = model.step(words_of(4, 1), state, 1)
        with pytest.raises(IndexError):
            model.programs.several(torch.full((4, 1), 50), state, choosing, 3)
        made, after = model.programs.several(words_of(4, 1), state, choosing, 3)
        assert len(made) == 3
        assert after.parts[0].at == 4
        with pytest.raises(ValueError, match="used up"):
            model.programs.several(words_of(4, 1), state, choosing, 3)
        # Room for one more position is left.
        assert len(model.programs.several(words_of(4, 1), after, choosing, 3)[0]) == 1


def test_steps_are_made_alone_where_there_is_no_program_for_several() -> None:
    with without_kernels():
        plain = prepared(FAMILIES["ssru"], "float32")
        found = searched(plain, SearchSettings(2), 16)
    own = prepared(FAMILIES["ssru"], "float32")
    assert found.tokens == searched(own, SearchSettings(2), 16).tokens
