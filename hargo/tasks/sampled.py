"""Measures of tasks whose rows have several answers each."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from hargo.tasks.base import Measure, Verdict


def pass_at(k: int, name: str = "", title: str = "", headline: bool = True) -> Measure:
    """pass@k, for the `measures` of a task: the chance that one of k answers drawn from a row's is right, in percent.

    Of n answers of which c are right this is 1 - C(n - c, k) / C(n, k), the unbiased estimator of Chen et al. 2021,
    "Evaluating large language models trained on code", arXiv 2107.03374; n must be at least k. ValueError where k < 1.

    name: by default `pass_at_<k>`; two tasks of a study need two names. title: by default `pass@<k> %`

    >>> one_of_four = [Verdict("a", True), *[Verdict("b", False)] * 3]
    >>> [pass_at(k).score(one_of_four) for k in (1, 2, 4)]
    [0.25, 0.5, 1.0]
    """
    if k < 1:
        raise ValueError(f"pass@{k}: k must be at least 1")

    def passes(answers: Sequence[Verdict]) -> float:
        n, right = len(answers), sum(answer.correct for answer in answers)
        return 1 - comb(n - right, k) / comb(n, k)

    return Measure(name or f"pass_at_{k}", title or f"pass@{k} %", passes, percent=True, headline=headline, answers=k)
