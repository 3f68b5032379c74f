"""How rows become a training and an evaluation side: the protocols `paper`, `strict` and `given`, and size limits.

Every draw comes from a generator seeded with the split seed and the task's name, so the split of a task does not
depend on which other tasks a study has. Both sides keep the order of the source.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

from hargo.data.records import Row
from hargo.errors import UserError


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
        draw = random.Random(f"split/{seed}/{task}").sample(
            range(len(group)), eval_size(len(group), fraction)
        )
        chosen.update(group[i].id for i in draw)
    return _sides(rows, chosen)


def given(rows: list[Row]) -> Split:
    """The split the source brings along in `meta["split"]`."""
    for row in rows:
        if row.meta.get("split") not in ("train", "eval"):
            raise UserError(
                f"row {row.id}: meta.split is {row.meta.get('split')!r}, not 'train' or 'eval'; "
                "set data.protocol to paper or strict for a source that does not split itself"
            )
    return _sides(rows, {row.id for row in rows if row.meta["split"] == "eval"})


def limit(rows: list[Row], size: int | None, seed: int, side: str) -> list[Row]:
    """At most `size` rows, each task keeping its share (largest remainders), drawn with the seed, order kept."""
    if size is None or size >= len(rows):
        return rows
    groups = by_task(rows)
    exact = {task: size * len(group) / len(rows) for task, group in groups.items()}
    quota = {task: math.floor(value + 1e-9) for task, value in exact.items()}
    for task in sorted(groups, key=lambda name: (quota[name] - exact[name], name))[
        : size - sum(quota.values())
    ]:
        quota[task] += 1
    kept: set[str] = set()
    for task, group in groups.items():
        draw = random.Random(f"limit/{side}/{seed}/{task}").sample(range(len(group)), quota[task])
        kept.update(group[i].id for i in draw)
    return [row for row in rows if row.id in kept]


def _sides(rows: list[Row], chosen: set[str]) -> Split:
    return Split(
        train=[row for row in rows if row.id not in chosen],
        eval=[row for row in rows if row.id in chosen],
    )


def strict(rows: list[Row], seed: int, fraction: float) -> Split:
    """Cleaned, scrubbed and grouped split."""
    raise UserError("data.protocol 'strict' is not available yet; use 'paper'")
