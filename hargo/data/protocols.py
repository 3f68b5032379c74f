"""How rows become a training and an evaluation side: the protocols `paper`, `strict` and `given`, and size limits.

Every draw comes from a generator seeded with the split seed and the task's name, so the split of a task does not
depend on which other tasks a study has. Both sides keep the order of the source.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hargo.data.grammar import has_directive
from hargo.data.programs import LABELS, LANGUAGES, take_apart, unwrap
from hargo.data.records import Row
from hargo.data.scrub import scrub
from hargo.data.similarity import NEAR, characters, fingerprint, groups
from hargo.errors import UserError

MISSING = "·"  # stands for a value that the result tables lack

#: rows this similar stay on one side: a little below `NEAR`, so that who cuts programs into tokens in another way (`++`
#: as one, or as two) finds no pair above it either
TOGETHER = NEAR - 0.02


@dataclass(frozen=True)
class Split:
    """Both sides of a data set and what is known about how they came about (the manifest)."""

    train: list[Row]
    eval: list[Row]
    report: dict[str, Any] = field(default_factory=dict)


def by_task(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows per task, tasks in order of first appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.task, []).append(row)
    return groups


def eval_size(rows: int, fraction: float) -> int:
    """Evaluation rows out of `rows`: the floor of the share (the sum over files is the paper's 584 of 5,857)."""
    return math.floor(rows * fraction + 1e-9)


def paper(rows: list[Row], seed: int, fraction: float) -> Split:
    """Seeded random split per task, rows untouched."""
    chosen: set[str] = set()
    for task, group in by_task(rows).items():
        draw = random.Random(f"split/{seed}/{task}").sample(range(len(group)), eval_size(len(group), fraction))
        chosen.update(group[i].id for i in draw)
    return _sides(rows, chosen)


def strict(rows: list[Row], seed: int, fraction: float) -> Split:
    """Seeded split of cleaned and scrubbed rows in which near-duplicates stay on one side.

    Dropped: see `drop`. Then the groups of a task (`hargo.data.similarity.groups`) are drawn in random order, and each
    goes to the evaluation side if it still fits there, label by label, so the largest families always train and both
    sides have the same share of yes.
    """
    kept, dropped = drop(rows)
    chosen: set[str] = set()
    sizes: dict[str, dict[str, int]] = {}
    for task, group in by_task(kept).items():
        members: dict[int, list[Row]] = {}
        views = [fingerprint(row) for row in group], [characters(row) for row in group]
        numbers = groups(*views, threshold=TOGETHER)
        for row, number in zip(group, numbers, strict=True):
            members.setdefault(number, []).append(row)
        order = list(members)
        random.Random(f"split/{seed}/{task}").shuffle(order)
        room = {label: eval_size(count, fraction) for label, count in _labels(group).items()}
        for number in order:
            counts = _labels(members[number])
            if all(count <= room[label] for label, count in counts.items()):
                for label, count in counts.items():
                    room[label] -= count
                chosen.update(row.id for row in members[number])
        sizes[task] = {"groups": len(members), "largest": max(len(part) for part in members.values())}
    split = _sides(kept, chosen)
    return Split(split.train, split.eval, {"dropped": _reasons(dropped), "near_duplicate_groups": sizes})


def drop(rows: list[Row]) -> tuple[list[Row], list[tuple[Row, str]]]:
    """Scrubbed rows worth keeping, and the others with the reason, the first that applies:

    malformed: empty prompt or answer, a missing value (`·`), or, for programs, an answer that is not yes or no
    no directive: a program without an OpenMP directive
    conflicting: the same prompt after scrubbing has another answer elsewhere (all its rows go)
    repeated: prompt and answer occurred before
    """
    reasons: dict[str, str] = {}
    scrubbed: dict[str, Row] = {}
    answers: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        reason = _unusable(row)
        if reason:
            reasons[row.id] = reason
            continue
        scrubbed[row.id] = clean = scrub(row)
        answers.setdefault(_same_prompt(clean), set()).add(_same_answer(clean))
    seen: set[tuple[str, str]] = set()
    for row in scrubbed.values():
        key = _same_prompt(row)
        if len(answers[key]) > 1:
            reasons[row.id] = "conflicting"
        elif key in seen:
            reasons[row.id] = "repeated"
        seen.add(key)
    kept = [scrubbed[row.id] for row in rows if row.id not in reasons]
    return kept, [(row, reasons[row.id]) for row in rows if row.id in reasons]


def _unusable(row: Row) -> str | None:
    answer = row.answer.strip()
    if not row.prompt.strip() or not answer or MISSING in answer:
        return "malformed"
    language = LANGUAGES.get(row.task)
    if language:
        code = unwrap(take_apart(row.prompt).code)
        if answer.lower() not in LABELS or not code:
            return "malformed"
        if not has_directive(code, language):
            return "no directive"
    return None


def _same_prompt(row: Row) -> tuple[str, str]:
    return row.task, " ".join(row.prompt.split())


def _same_answer(row: Row) -> str:
    return " ".join(row.answer.lower().split())


def _labels(rows: list[Row]) -> Counter[str]:
    """Rows per label for programs, so that both sides have the same balance; other tasks count as one label."""
    return Counter(_same_answer(row) if row.task in LANGUAGES else "" for row in rows)


def _reasons(dropped: list[tuple[Row, str]]) -> dict[str, dict[str, int]]:
    """Reason -> task -> rows."""
    table: dict[str, dict[str, int]] = {}
    for row, reason in dropped:
        counts = table.setdefault(reason, {})
        counts[row.task] = counts.get(row.task, 0) + 1
        counts["total"] = counts.get("total", 0) + 1
    return table


def given(rows: list[Row]) -> Split:
    """The split the source brings along in `meta["split"]`."""
    for row in rows:
        if row.meta.get("split") not in ("train", "eval"):
            raise UserError(
                f"row {row.id}: meta.split is {row.meta.get('split')!r}, not 'train' or 'eval'; "
                "set data.protocol to paper or strict for a source without a split of its own"
            )
    return _sides(rows, {row.id for row in rows if row.meta["split"] == "eval"})


def limit(rows: list[Row], size: int | None, seed: int, side: str) -> list[Row]:
    """At most `size` rows, each task keeping its share (largest remainders), drawn with the seed, order kept."""
    if size is None or size >= len(rows):
        return rows
    groups = by_task(rows)
    exact = {task: size * len(group) / len(rows) for task, group in groups.items()}
    quota = {task: math.floor(value + 1e-9) for task, value in exact.items()}
    for task in sorted(groups, key=lambda name: (quota[name] - exact[name], name))[: size - sum(quota.values())]:
        quota[task] += 1
    kept: set[str] = set()
    for task, group in groups.items():
        draw = random.Random(f"limit/{side}/{seed}/{task}").sample(range(len(group)), quota[task])
        kept.update(group[i].id for i in draw)
    return [row for row in rows if row.id in kept]


def reserve(rows: list[Row], share: float, seed: int) -> tuple[list[Row], list[Row]]:
    """Two parts without a row in common, the second with this share of each task, drawn with the seed; order kept."""
    reserved = limit(rows, round(share * len(rows)), seed, "reserved")
    kept = {row.id for row in reserved}
    return [row for row in rows if row.id not in kept], reserved


def _sides(rows: list[Row], chosen: set[str]) -> Split:
    return Split(
        train=[row for row in rows if row.id not in chosen],
        eval=[row for row in rows if row.id in chosen],
    )
