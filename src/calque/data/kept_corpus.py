"""A corpus that was compiled before, found again by what it was compiled from."""

from itertools import zip_longest
from pathlib import Path

from calque.data.corpus import INDEX, PreparedCorpus, open_corpus
from calque.data.inputs import GivenCodecs, deciding_keys, digest_of, files_of, inputs_of, settings_of, sums_of
from calque.data.sums import Sums
from calque.experiment import DataSettings


def compiled_before(
    settings: DataSettings,
    folder: Path,
    base: Path,
    given: GivenCodecs | None = None,
    own: bool = False,
    begun: str | None = None,
) -> PreparedCorpus | None:
    """The corpus that `prepare` compiled with these settings into `folder`; its text may have moved since, or be gone.

    None where there is no corpus, where settings or given codecs differ, where a file that can be read holds another text, and
    where one that cannot be read had another name. `own`: the files that the corpus was compiled from may have changed since. A
    corpus with the digest `begun` needs no look at the text. Raises what `open_corpus` raises for a damaged corpus.
    """
    if not (folder / INDEX).is_file():
        return None
    corpus = open_corpus(folder, verify=True)
    before = settings_of(corpus.about["settings"])
    same = deciding_keys(before) == deciding_keys(settings)
    if not same or list(corpus.about["splits"]) != list(files_of(settings, base)):
        return None
    if corpus.digest == begun:
        return corpus
    then = corpus.about.get("sums", [])  # older corpora know only the digest of all
    if then and corpus.digest != digest_of(before, files_of(before, base), then, given):
        return None
    known = Sums(folder.resolve())
    paths = inputs_of(settings, base, given)
    now = sums_of(paths, known)
    known.remember()
    texts = list(zip_longest(inputs_of(before, base, given), then, paths, now))
    return corpus if all(_same_text(*text, own) for text in texts) else None


def _same_text(before: Path | None, then: str | None, path: Path | None, now: str | None, own: bool) -> bool:
    """Whether a file may be the one before, of which this was the checksum then."""
    if before is None or path is None:
        return False
    if then is None or now is None:
        return before.name == path.name
    return then == now or (own and before == path)
