"""No evaluation row has a twin in training under the strict protocol, by a measure independent of the split's."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from hargo.config.options import DataOptions
from hargo.data import build, protocols
from hargo.data.records import Row
from hargo.data.similarity import fingerprint, groups

C = "auto break case char const continue default do double else enum extern float for goto if inline int long register"
C += " return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false"
OMP = "pragma omp parallel sections section single master critical barrier atomic flush ordered task taskwait taskgroup"
OMP += " taskloop simd target teams distribute map to from tofrom private firstprivate lastprivate shared default none"
OMP += " reduction schedule static dynamic guided collapse nowait num_threads copyin copyprivate depend in out inout"
OMP += " safelen read write update capture for do if end threadprivate"
FORTRAN = "program module use implicit none integer real logical character complex double precision dimension"
FORTRAN += (
    " allocatable allocate deallocate subroutine function call contains print write format then else elseif if do"
)
FORTRAN += " while end enddo endif parameter intent recursive select case exit cycle stop return"
WORDS = {"race_c": set(C.split()), "race_fortran": set(FORTRAN.split())}
#: operators of two characters are one token here and two for the split
TOKEN = re.compile(
    r"\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|[A-Za-z_]\w*|\d[\w.]*|\s+|\+\+|--|[-+*/=<>!]=|&&|\|\||->|.", re.DOTALL
)


def renamed(row: Row) -> tuple[str, ...]:
    """The program's tokens, with its names numbered in order of appearance."""
    code = re.search(r"snippet: (.*), help me", row.prompt, re.DOTALL)
    assert code is not None, row.prompt
    seen: dict[str, str] = {}
    found = []
    for line in code[1].lower().split("\n"):
        directive = re.match(r"\s*(?:#\s*(?:pragma|include)|!\$omp)", line)
        for token in TOKEN.findall(line):
            if re.match(r"[a-z_]", token):
                known = token in WORDS[row.task] or (directive and token in OMP.split())
                found.append(token if known else seen.setdefault(token, f"v{len(seen)}"))
            elif not token.isspace():
                found.append("n" if token[0].isdigit() else "s" if token[0] in "\"'" else token)
    return tuple(found)


def twin(row: tuple[str, ...], others: dict[tuple[str, ...], Counter[str]]) -> float:
    """The highest difflib ratio of a row with others of which none can be ruled out by its length and tokens."""
    best, mine = 0.0, Counter(row)
    for other, counts in others.items():
        total = len(row) + len(other)
        if 2 * min(len(row), len(other)) > 0.9 * total and 2 * (mine & counts).total() > 0.9 * total:
            best = max(best, SequenceMatcher(None, row, other, autojunk=False).ratio())
    return best


@pytest.fixture(scope="module")
def rows(shared_data: Path) -> list[Row]:
    source = DataOptions(source="hpcgpt", path=str(shared_data / "hpcgpt"))
    return build.load_source(source, ["race_c", "race_fortran"])


@pytest.mark.parametrize(
    "seed", [0, 2, pytest.param(1, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
def test_no_pair_across_the_sides_is_alike(rows: list[Row], seed: int) -> None:
    split = build.split_rows(rows, DataOptions(source="hpcgpt", path="x", protocol="strict", split_seed=seed))
    for task in WORDS:
        known = {words: Counter(words) for words in (renamed(row) for row in split.train if row.task == task)}
        asked = [row for row in split.eval if row.task == task]
        assert len(asked) > 150
        assert not [row.id for row in asked if (words := renamed(row)) in known or twin(words, known) > 0.9]


def test_names_that_are_words_elsewhere_hide_no_twin(rows: list[Row]) -> None:
    kept = {row.id: row for row in protocols.drop(rows)[0]}
    for one, two in (("race_c/00747", "race_c/00750"), ("race_fortran/00279", "race_fortran/01067")):
        pair = [fingerprint(kept[one]), fingerprint(kept[two])]
        assert groups(pair) == [0, 0]
        assert pair[0] == pair[1]
