"""How alike two rows are, which train row is nearest, and groups of near-duplicates.

Similarity of two token sequences a and b is `2 LCS(a, b) / (|a| + |b|)`, LCS being the length of their longest
common subsequence: 1 for equal sequences, and 0.9 where one token in ten differs. Programs are compared after masking
names, numbers, strings, comments and layout (`hargo.data.roles.mask`), other prompts word by word, case folded. Masked
programs are at least as similar as the same programs with their names numbered in order of appearance.
Near-duplicates are pairs of 0.9 or more; a group is what such pairs connect.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from rapidfuzz.distance import LCSseq
from scipy.cluster.hierarchy import DisjointSet

from hargo.data.programs import LANGUAGES, take_apart, unwrap
from hargo.data.records import Row
from hargo.data.roles import mask

NEAR = 0.9

Tokens = tuple[str, ...]


def fingerprint(row: Row) -> Tokens:
    """The tokens by which a row is compared with others of its task."""
    language = LANGUAGES.get(row.task)
    if language:
        return tuple(mask(take_apart(row.prompt).code, language))
    return tuple(re.findall(r"\w+|[^\w\s]", row.prompt.lower()))


def characters(row: Row) -> Tokens:
    """The characters of a row's program (without its wrapping) or prompt, white space folded."""
    text = unwrap(take_apart(row.prompt).code) if row.task in LANGUAGES else row.prompt
    return tuple(" ".join(text.split()))


def similarity(one: Tokens, other: Tokens) -> float:
    """Twice the longest common subsequence over both lengths; 1 for two empty sequences.

    >>> similarity(("a", "b", "c", "d"), ("a", "x", "c", "d"))
    0.75
    """
    total = len(one) + len(other)
    return 2 * LCSseq.similarity(one, other) / total if total else 1.0


def candidates(left: Sequence[Tokens], right: Sequence[Tokens], threshold: float) -> Iterator[tuple[int, list[int]]]:
    """For each sequence of `left`, its index and the indices of `right` that can reach `threshold`.

    A common subsequence is no longer than the tokens both have, counted with repeats, which rules out most pairs.
    """
    places: dict[str, int] = {}
    for sequence in (*left, *right):
        for token in sequence:
            places.setdefault(token, len(places))
    first, second = _counts(left, places), _counts(right, places)
    lengths = second.sum(axis=1)
    for i, counts in enumerate(first):
        total = counts.sum() + lengths
        near = np.flatnonzero(2 * np.minimum(counts.sum(), lengths) >= threshold * total - 1e-9)
        shared = np.minimum(counts, second[near]).sum(axis=1)
        yield i, near[2 * shared >= threshold * total[near] - 1e-9].tolist()


def nearest_at_least(queries: Sequence[Tokens], base: Sequence[Tokens], threshold: float = NEAR) -> list[bool]:
    """For each query whether some sequence of `base` is at least `threshold` similar."""
    distinct = list(dict.fromkeys(base))
    known = set(distinct)
    found = []
    for i, near in candidates(queries, distinct, threshold):
        query = queries[i]
        found.append(query in known or any(similarity(query, distinct[j]) >= threshold for j in near))
    return found


def nearest(queries: Sequence[Tokens], base: Sequence[Tokens]) -> list[float]:
    """For each query its similarity to the most similar sequence of `base`; 0 where there is none."""
    distinct = list(dict.fromkeys(base))
    if not distinct:
        return [0.0] * len(queries)
    places: dict[str, int] = {}
    for sequence in (*queries, *distinct):
        for token in sequence:
            places.setdefault(token, len(places))
    first, second = _counts(queries, places), _counts(distinct, places)
    lengths = second.sum(axis=1)
    found = []
    for query, counts in zip(queries, first, strict=True):
        # no pair is more similar than its shared tokens allow: try the most promising first, until none can win
        total = counts.sum() + lengths
        bounds = np.where(total > 0, 2 * np.minimum(counts, second).sum(axis=1) / np.maximum(total, 1), 1.0)
        best = 0.0
        for j in np.argsort(-bounds, kind="stable"):
            if bounds[j] <= best:
                break
            best = max(best, similarity(query, distinct[j]))
        found.append(best)
    return found


def groups(*views: Sequence[Tokens], threshold: float = NEAR) -> list[int]:
    """A group number per row: equal where a chain of pairs at least `threshold` similar in some view connects two.

    views: several ways to see the same rows, each with one sequence per row, e.g. fingerprints and characters.
    The number is the index of the group's first row.
    """
    joined = DisjointSet(range(len(views[0])))
    for view in views:
        first: dict[Tokens, int] = {}
        for i, sequence in enumerate(view):
            joined.merge(i, first.setdefault(sequence, i))
        distinct, indices = list(first), list(first.values())
        for a, near in candidates(distinct, distinct, threshold):
            for b in near:
                i, j = indices[a], indices[b]
                if b > a and not joined.connected(i, j) and similarity(distinct[a], distinct[b]) >= threshold:
                    joined.merge(i, j)
    return [min(joined.subset(i)) for i in joined]


def _counts(sequences: Sequence[Tokens], places: dict[str, int]) -> np.ndarray:
    table = np.zeros((len(sequences), len(places)), np.int32)
    for i, sequence in enumerate(sequences):
        for token, count in Counter(sequence).items():
            table[i, places[token]] = count
    return table
