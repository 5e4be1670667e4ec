"""Lines that are searched once more: those whose translations lack what is required."""

from collections.abc import Callable, Iterable, Sequence

from calque.data.codecs import Codec
from calque.data.vocabulary import BOS
from calque.decode.required import Form, lacks
from calque.decode.sentences import EMPTY, Sentence, Translation
from calque.decode.terms import edges_of, stands_in

Search = Callable[[list[Sentence], list[int]], Iterable[tuple[list[int], list[list[Translation]]]]]
"""The translations of some of these sentences, batch by batch, with their numbers; a batch never waits for the next one."""


def searched(
    target: Codec,
    sentences: Sequence[Sentence],
    numbers: list[int],
    search: Search,
    done: Callable[[int], None] = lambda sentences: None,
) -> list[list[Translation]]:
    """The translations of some of the sentences, freely, and once more of those that then lack what is required; of the others
    the empty one. `done` is called with the number of sentences that are finished.
    """
    results = [[EMPTY] for _ in sentences]
    for rows, translations in search([s._replace(required=()) for s in sentences], numbers):
        for i, each in zip(rows, translations, strict=True):
            results[i] = each or [EMPTY]
        done(len(rows) - len(lacking(target, sentences, results, rows)))
    for rows, translations in search(list(sentences), lacking(target, sentences, results, numbers)):
        for i, each in zip(rows, translations, strict=True):
            results[i] = each or [EMPTY]
        done(len(rows))
    return results


def lacking(
    target: Codec, sentences: Sequence[Sentence], results: Sequence[Sequence[Translation]], rows: Iterable[int]
) -> list[int]:
    """Those of some sentences of which a translation lacks what is required. It has a phrase in the cut that a search would give
    it, or in whole words of its text, in another cut, such as behind a bracket.
    """

    def missing(forms: tuple[Form, ...], one: Translation) -> bool:
        anywhere = (target.decode(form) for form in forms if form[0] != BOS)
        return lacks((forms,), one.ids, edges_of(target)) and not any(stands_in(text, one.text) for text in anywhere)

    return [i for i in rows if any(missing(forms, one) for forms in sentences[i].required for one in results[i])]
