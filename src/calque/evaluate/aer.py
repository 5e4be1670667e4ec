"""Alignment error rate: links against links by hand."""

from collections.abc import Sequence

from calque.align.links import Gold, Links
from calque.evaluate.scores import Score
from calque.ground.version import VERSION


def alignment_error_rate(links: Sequence[Links], gold: Sequence[Gold]) -> Score:
    """AER = 100 (1 - (|A & S| + |A & P|) / (|A| + |S|)) over all sentences (Och and Ney 2003): A are the links, S the sure links by
    hand, P the possible ones, which include S. Less is better; without links on both sides it is 0.

    `detail`: precision |A & P| / |A| and recall |A & S| / |S|, in per cent, and the numbers of links, sure and possible ones.
    Raises ValueError where the numbers of sentences differ.
    """
    pairs = list(zip(links, gold, strict=True))
    count = sum(len(a) for a in links)
    sure, possible = sum(len(g.sure) for g in gold), sum(len(g.possible) for g in gold)
    hit_sure = sum(len(a & g.sure) for a, g in pairs)
    hit_possible = sum(len(a & g.possible) for a, g in pairs)
    rate = 100 * (1 - (hit_sure + hit_possible) / (count + sure)) if count + sure else 0.0
    detail = {
        "precision": 100 * hit_possible / count if count else 0.0,
        "recall": 100 * hit_sure / sure if sure else 0.0,
        "links": count,
        "sure": sure,
        "possible": possible,
    }
    signature = f"sentences:{len(gold)}|sure:{sure}|possible:{possible}|version:{VERSION}"
    return Score("AER", rate, signature, detail)
