"""Scores, held against sacrebleu called directly and against BLEU worked out by hand."""

import gzip
import json
import logging
import math
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from urllib.error import URLError

import pytest
import sacrebleu
from click.testing import CliRunner
from sacrebleu.metrics.ter import TER

from calque.cli import root
from calque.evaluate import METRICS, TOKENISERS, bleu, chrf, evaluate, evaluate_files, meteor, ter, tokeniser_for
from calque.evaluate.meteor_metric import Lists, MeteorSettings
from calque.evaluate.scores import BY_SPACES
from calque.ground.diagnostics import CalqueError, Diagnostic

HYPOTHESES = ["The cat sat on the mat.", "It's 3.5 km – far", "", "Ein Hund , sagt man .", "a b c d e f"]
REFERENCES = ["the cat sat on a mat.", "It is 3.5 km: far", "not empty", "Ein Hund, sagt er.", "a b c e d f"]


BUILT_IN = [name for name in TOKENISERS if name in (*BY_SPACES, "zh", "char")]
"""Tokenisations without further packages or models."""


@pytest.mark.parametrize("tokenize", BUILT_IN)
@pytest.mark.parametrize("lowercase", [False, True])
def test_bleu_is_sacrebleus(tokenize: str, lowercase: bool) -> None:
    ours = bleu(HYPOTHESES, REFERENCES, tokenize=tokenize, lowercase=lowercase)
    theirs = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], tokenize=tokenize, lowercase=lowercase, force=True)
    assert ours.name == "BLEU"
    assert ours.value == theirs.score
    assert ours.detail["precisions"] == tuple(theirs.precisions)
    assert (ours.detail["bp"], ours.detail["ratio"]) == (theirs.bp, theirs.ratio)
    assert set(ours.signature.split("|")) == {
        "nrefs:1",
        "eff:no",
        "smooth:exp",
        f"case:{'lc' if lowercase else 'mixed'}",
        f"tok:{tokenize}",
        f"version:{sacrebleu.__version__}",
    }


def test_settings_change_the_score() -> None:
    assert len({bleu(HYPOTHESES, REFERENCES, tokenize=t).value for t in BUILT_IN}) == 4
    for score in (bleu, chrf, ter):
        assert score(HYPOTHESES, REFERENCES).value != score(HYPOTHESES, REFERENCES, lowercase=True).value


OTHERS = ["A cat sat on the mat.", "It's 3.5 km, which is far", "", "Ein Hund , sagt er .", "f e d c b a"]


def test_several_references_are_scored_as_by_sacrebleu() -> None:
    references = [REFERENCES, OTHERS]
    ours = evaluate(HYPOTHESES, REFERENCES, ["bleu", "chrf", "ter"], more=[OTHERS])
    theirs = (
        sacrebleu.corpus_bleu(HYPOTHESES, references, force=True),
        sacrebleu.corpus_chrf(HYPOTHESES, references),
        TER(case_sensitive=True).corpus_score(HYPOTHESES, references),
    )
    assert [score.value for score in ours] == [score.score for score in theirs]
    assert all("nrefs:2" in score.signature for score in ours)
    with pytest.raises(ValueError, match="as many hypotheses as references"):
        bleu(HYPOTHESES, REFERENCES, OTHERS[:2])


def test_the_best_reference_of_each_sentence_counts_for_meteor() -> None:
    settings = MeteorSettings("other", lists=Lists())
    first, second = ["a b c d", "x y", "m n"], ["a x y z", "k l", "m n"]
    hypotheses = ["a b c e", "k l", "m o"]
    found = meteor(hypotheses, first, second, settings=settings, tokenize="none")
    assert found.value == meteor(hypotheses, [first[0], second[1], "m n"], settings=settings, tokenize="none").value
    assert found.value > max(meteor(hypotheses, r, settings=settings, tokenize="none").value for r in (first, second))
    assert found.signature.startswith("nrefs:2|lang:other|")


def test_the_command_takes_several_references_and_writes_json(tmp_path: Path) -> None:
    names = []
    for name, lines in (("hypotheses", HYPOTHESES), ("references", REFERENCES), ("others", OTHERS)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        names.append(str(tmp_path / name))
    done = CliRunner().invoke(root, ["evaluate", *names, "--metric", "bleu", "--metric", "ter", "--json"])
    expected = evaluate(HYPOTHESES, REFERENCES, ["bleu", "ter"], more=[OTHERS])
    assert json.loads(done.stdout) == json.loads(json.dumps([asdict(score) for score in expected]))
    (tmp_path / "others").write_text("one\n")
    done = CliRunner().invoke(root, ["evaluate", *names])
    assert isinstance(done.exception, CalqueError)
    assert [d.code for d in done.exception.diagnostics] == ["D501"]


def test_chrf_and_ter_are_sacrebleus() -> None:
    assert chrf(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    theirs = TER(case_sensitive=True).corpus_score(HYPOTHESES, [REFERENCES])
    ours = ter(HYPOTHESES, REFERENCES)
    assert (ours.value, ours.detail["edits"]) == (theirs.score, theirs.num_edits)
    assert "case:mixed" in ours.signature
    assert "case:lc" in ter(HYPOTHESES, REFERENCES, lowercase=True).signature


JAPANESE = ["彼らはついにそれが真実だと認めた。", "彼は水泳が得意ではなかった。"]
NEARLY = ["彼らはそれが真実だと認めた。", "彼は水泳が得意だった。"]


def test_text_without_spaces_is_scored_by_characters() -> None:
    assert bleu(JAPANESE, JAPANESE).value == 0 < bleu(NEARLY, JAPANESE, tokenize="char").value
    assert bleu(JAPANESE, JAPANESE, tokenize="char").value == pytest.approx(100)
    edits, theirs = (
        ter(NEARLY, JAPANESE, tokenize="char"),
        TER(normalized=True, asian_support=True, case_sensitive=True),
    )
    assert edits.value == theirs.corpus_score(NEARLY, [JAPANESE]).score
    assert edits.detail["reference_length"] > ter(NEARLY, JAPANESE).detail["reference_length"] == len(JAPANESE)
    assert "asian:yes" in edits.signature
    assert "asian:no" in ter(NEARLY, JAPANESE).signature
    assert [s.name for s in evaluate(NEARLY, JAPANESE, ("ter",), tokenize="zh")] == ["TER"]
    assert evaluate(NEARLY, JAPANESE, ("ter",), tokenize="zh")[0].value == edits.value


def test_the_tokenisation_suits_the_script() -> None:
    assert tokeniser_for(JAPANESE) == tokeniser_for(["ฉันไม่รู้จักเขาเลย", "他们终于承认了。", *JAPANESE]) == "char"
    assert (
        tokeniser_for(["彼 ら は つい に それ が 真実 だ と 認め た 。"])
        == tokeniser_for(["그는 수영을 좋아하지 않았다."])
        == "13a"
    )
    assert tokeniser_for(REFERENCES) == tokeniser_for([]) == tokeniser_for(["1 2 3", ""]) == "13a"
    # A name in another script does not decide.
    assert tokeniser_for(["The word 真実 stands here among others.", "Donaudampfschifffahrtsgesellschaft"]) == "13a"


@pytest.mark.parametrize(
    ("metric", "tokenize", "warned"), [("bleu", "13a", 1), ("ter", "none", 1), ("bleu", "char", 0), ("chrf", "13a", 0)]
)
def test_whole_lines_as_words_are_reported(tmp_path: Path, metric: str, tokenize: str, warned: int) -> None:
    file = tmp_path / "ja"
    file.write_text("\n".join(JAPANESE) + "\n", encoding="utf-8")
    found: list[Diagnostic] = []
    evaluate_files(file, file, (metric,), tokenize=tokenize, warn=found.append)
    assert [d.code for d in found] == ["D505"] * warned
    for command in (["evaluate", file, file], ["compare", file, file, "--references", file]):
        done = CliRunner().invoke(root, [*map(str, command), "--metric", metric, "--tokenize", tokenize])
        assert done.exit_code == 0
        assert done.stderr.count("D505") == warned


def test_tokenisers_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(tmp_path))

    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "sacrebleu_tokenizer_spm.model").write_bytes(b"cut off")

    def no_network(url: str, path: str) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.download_file", no_network)
    for tokenize, code, said in (
        ("ja-mecab", "X323", "sacrebleu[ja]"),
        ("flores200", "X324", "cannot be used: no route to host"),
        ("flores101", "X324", "cannot be used: "),
    ):
        with pytest.raises(CalqueError, match=re.escape(said)) as caught:
            bleu(JAPANESE, JAPANESE, tokenize=tokenize)
        assert [d.code for d in caught.value.diagnostics] == [code]
        assert caught.value.exit_code == 2


def test_bleu_by_hand() -> None:
    # Of a a b c d: unigrams a b c d match (the second `a` is clipped), bigrams ab bc cd, trigrams abc bcd, and abcd.
    found = bleu(["a a b c d"], ["a b c d e"], tokenize="none")
    assert found.detail["precisions"] == pytest.approx((100 * 4 / 5, 100 * 3 / 4, 100 * 2 / 3, 100 * 1 / 2))
    assert found.detail["bp"] == 1
    assert found.value == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_brevity_by_hand() -> None:
    # Two sentences counted as one corpus: 5 tokens for 8, each n-gram right; 5, 3, 2 and 1 of them.
    found = bleu(["a b c d", "x"], ["a b c d e", "x y z"], tokenize="none")
    assert found.detail["precisions"] == (100, 100, 100, 100)
    assert found.detail["ratio"] == 5 / 8
    assert found.value == pytest.approx(100 * math.exp(1 - 8 / 5))


def test_ter_by_hand() -> None:
    # One word inserted, one substituted, for 5 words of reference; then one block moved.
    assert ter(["a b c x d"], ["a b c d"]).value == pytest.approx(100 / 4)
    assert ter(["a b x d e"], ["a b c d e"]).value == pytest.approx(100 / 5)
    assert ter(["c d a b"], ["a b c d"]).value == pytest.approx(100 / 4)


def test_chrf_by_hand() -> None:
    # Characters ab against abc: n = 1 has P 1, R 2/3; n = 2 has P 1, R 1/2; higher orders are empty in the hypothesis.
    precision, recall = 1, (2 / 3 + 1 / 2) / 2
    assert chrf(["a b"], ["ab c"]).value == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))


def test_tokenised_text_is_scored_without_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    bleu(["Das ist so ."] * 200, ["Das ist so ."] * 200, tokenize="none")
    assert not caplog.records
    bleu(["Das ist so ."] * 200, ["Das ist so ."] * 200)
    assert any("forgot to detokenize" in r.message for r in caplog.records)


def test_several_metrics_in_order() -> None:
    names = [s.name for s in evaluate(HYPOTHESES, REFERENCES, ("ter", "bleu", "chrf"))]
    assert names == ["TER", "BLEU", "chrF2"]
    assert len(evaluate(HYPOTHESES, REFERENCES, METRICS, meteor_settings=MeteorSettings("en", lists=Lists()))) == 4
    first = bleu(["a b c d"], ["a b c d"])
    assert str(first) == f"BLEU 100.00 {first.signature}"


def test_unequal_lists_are_refused() -> None:
    with pytest.raises(ValueError, match="2 and 1"):
        bleu(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="0 and 0"):
        chrf([], [])


def test_files(tmp_path: Path) -> None:
    hypotheses, references = tmp_path / "h.gz", tmp_path / "r"
    # U+2028 and U+0085 end no line.
    hypotheses.write_bytes(gzip.compress("a b c d\u2028e\nx\x85y z w\n".encode()))
    references.write_text("a b c d\u2028e\nx\x85y z w", encoding="utf-8")
    (found,) = evaluate_files(hypotheses, references, tokenize="none")
    assert found.value == pytest.approx(100)
    (found,) = evaluate_files(references, references, ("ter",))
    assert found.value == 0


@pytest.mark.parametrize(
    ("hypotheses", "references", "code"),
    [("a\nb\n", "a\n", "D501"), ("", "a\n", "D501"), ("a\n", "a\n\n", "D501"), ("", "", "D502"), (None, "a\n", "D101")],
)
def test_files_that_cannot_be_scored(tmp_path: Path, hypotheses: str | None, references: str, code: str) -> None:
    one, other = tmp_path / "h", tmp_path / "r"
    if hypotheses is not None:
        one.write_text(hypotheses)
    other.write_text(references)
    with pytest.raises(CalqueError) as caught:
        evaluate_files(one, other)
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert caught.value.exit_code == 1
    if code.startswith("D5"):
        assert code in str(caught.value)


def test_sacrebleu_is_loaded_late() -> None:
    probe = "import sys, calque.evaluate; print('sacrebleu' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_a_score_of_tokenised_text_warns_unless_told_not_to(caplog: pytest.LogCaptureFixture) -> None:
    lines = ["A man sits ."] * 120
    assert bleu(lines, lines, warn=False).value == bleu(lines, lines, tokenize="none").value
    assert not caplog.records
    bleu(lines, lines)
    assert "tokenized" in caplog.text
