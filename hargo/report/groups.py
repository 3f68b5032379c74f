"""Which evaluation rows count as one observation: those of one family, or near-duplicates of each other.

A model that is right on one of them is likely to be right on the others, so intervals and tests take such a group as a
whole. Where a source names the family of each row, the families are the groups, also across tasks: the same kernel in C
and in Fortran is one. Otherwise, and where all rows of a task are of one family and families
separate nothing, rows at least 90 % similar are one group (`hargo.data.similarity`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from hargo.data import similarity
from hargo.data.records import Row

FAMILIES, NEAR = "families", "groups of near-duplicates"


@dataclass(frozen=True)
class Grouping:
    """Row id -> the number of its group; row id -> what that group is, `FAMILIES` or `NEAR`."""

    number: dict[str, int]
    kind: dict[str, str]

    def describe(self, ids: Sequence[str]) -> str:
        """How many groups these rows form, and of which kind.

        >>> Grouping({"a": 0, "b": 0, "c": 1}, dict.fromkeys("abc", FAMILIES)).describe(["a", "b", "c"])
        '3 rows in 2 families'
        >>> Grouping({"a": 0, "b": 1}, dict.fromkeys("ab", NEAR)).describe(["a", "b"])
        '2 rows, no two of them near-duplicates'
        """
        count = len({self.number[name] for name in ids})
        kinds = sorted({self.kind[name] for name in ids})
        if kinds == [NEAR] and count == len(ids):
            return f"{count} rows, no two of them near-duplicates"
        return f"{len(ids)} rows in {count} {' or '.join(kinds)}"


def grouping(rows: Sequence[Row]) -> Grouping:
    """The groups of these rows, numbered from 0 in order of appearance; kept for rows seen before."""
    return _grouping(tuple((row.id, row.task, row.prompt, row.meta.get("family")) for row in rows))


@lru_cache(maxsize=8)
def _grouping(rows: tuple[tuple[str, str, str, object], ...]) -> Grouping:
    by_task: dict[str, list[tuple[str, str, str, object]]] = {}
    for row in rows:
        by_task.setdefault(row[1], []).append(row)
    keys: dict[str, tuple[object, ...]] = {}
    kind: dict[str, str] = {}
    for task, mine in by_task.items():
        families = {family for *_, family in mine}
        named = None not in families and len(families) > 1
        copies = [Row(name, task, prompt, "") for name, _, prompt, _ in mine]
        near = [] if named else similarity.groups(*([view(row) for row in copies] for view in _VIEWS))
        for place, (name, *_, family) in enumerate(mine):
            keys[name] = (family,) if named else (task, near[place])
            kind[name] = FAMILIES if named else NEAR
    places = {key: number for number, key in enumerate(dict.fromkeys(keys.values()))}
    return Grouping({name: places[key] for name, key in keys.items()}, kind)


_VIEWS = (similarity.fingerprint, similarity.characters)
