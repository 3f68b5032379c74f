"""The audit's figures on the real files, and on small ones counted by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from hargo.config.options import DataOptions
from hargo.data import build
from hargo.data.audit import answer_kind, audit, render
from hargo.data.protocols import Split
from hargo.data.records import Row
from hargo.data.scrub import scrub
from hargo.data.similarity import nearest, similarity

TASKS = ["race_c", "race_fortran", "mlperf", "plp"]


@pytest.fixture(scope="module")
def found(shared_data: Path) -> dict[str, Any]:
    options = DataOptions(source="hpcgpt", path=str(shared_data / "hpcgpt"))
    rows = build.load_source(options, TASKS)
    return audit(rows, build.split_rows(rows, options))


def test_sizes_and_answers(found: dict[str, Any]) -> None:
    tasks = found["tasks"]
    assert found["rows"] == 5857 and found["length_ratio"] == 59.0
    assert tasks["race_c"]["answers"] == {"yes": 853, "no": 984, "malformed": 21}
    assert tasks["race_fortran"]["answers"] == {"yes": 778, "no": 798, "malformed": 0}
    assert tasks["plp"]["answers"] == {"sentence": 528, "list": 53, "name": 22}
    mlperf = tasks["mlperf"]["answers"]
    assert (mlperf["number"], mlperf["list"], mlperf["id"]) == (279, 198, 73)
    assert abs(mlperf["sentence"] - 854) <= 0.01 * 854
    lengths = {task: tuple(round(v, 1) for v in tasks[task]["answer_characters"].values()) for task in TASKS}
    assert lengths == {
        "race_c": (3.5, 2, 147),
        "race_fortran": (2.5, 2, 3),
        "mlperf": (49.8, 46, 161),
        "plp": (147.2, 152, 327),
    }


def test_odd_rows_are_named(found: dict[str, Any]) -> None:
    tasks = found["tasks"]
    numbers = [423, 1499, *range(1542, 1547), *range(1638, 1643), *range(1698, 1703), *range(1714, 1718)]
    assert tasks["race_c"]["malformed"] == [f"race_c/{number:05d}" for number in numbers]
    assert tasks["mlperf"]["missing_values"] == [f"mlperf/{number:05d}" for number in (203, 208, 213, 218)]
    assert (tasks["race_c"]["wrapped"], tasks["race_fortran"]["wrapped"]) == (552, 1065)


def test_conflicts(found: dict[str, Any]) -> None:
    pairs = {task: (f["conflicts"]["prompts"], f["conflicts"]["rows"]) for task, f in found["tasks"].items()}
    assert pairs == {"race_c": (6, 21), "race_fortran": (0, 0), "mlperf": (92, 359), "plp": (13, 26)}
    assert round(found["tasks"]["mlperf"]["conflicts"]["ceiling"], 1) == 90.0


def test_labels_told(found: dict[str, Any]) -> None:
    c, fortran = (found["tasks"][task]["tells"] for task in ("race_c", "race_fortran"))
    assert fortran["program_name"]["rows"] == 1354
    assert round(fortran["program_name"]["right"], 1) == 95.0
    assert (len(c["comments"]), len(fortran["comments"]), len(fortran["strings"])) == (5, 2, 16)


def test_what_training_has_seen(found: dict[str, Any]) -> None:
    leak = {task: f["leakage"] for task, f in found["tasks"].items()}
    assert 47 < leak["mlperf"]["exact"] < 57
    assert 68 < leak["race_fortran"]["masked"] < 86 and 40 < leak["race_c"]["masked"] < 56
    assert leak["race_fortran"]["near"] > 94 and 86 < leak["race_c"]["near"] < 96


def test_text_holds_the_figures(found: dict[str, Any]) -> None:
    text = render(found)
    for words in ("5857 rows", "1354, right 95.0 %", "92 (359)", "race_c/00423", "59 times", "Protocol paper"):
        assert words in text


def test_small_set_counted_by_hand() -> None:
    def ask(number: int, prompt: str, answer: str) -> Row:
        return Row(f"plp/{number}", "plp", prompt, answer)

    rows = [ask(0, "A?", "x"), ask(1, "A?", "y"), ask(2, "A?", "x"), ask(3, "B?", "z"), ask(4, " ", "·")]
    figures = audit(rows, None)["tasks"]["plp"]
    assert figures["conflicts"] == {"prompts": 1, "rows": 3, "ceiling": 80.0}
    assert (figures["repeated_prompts"], figures["repeated_rows"]) == (2, 1)
    assert (figures["blank_prompts"], figures["missing_values"]) == (["plp/4"], ["plp/4"])
    leak = audit(rows, Split(rows[:1], rows[1:]))["tasks"]["plp"]["leakage"]
    assert leak == {
        "rows": 4, "exact": 50.0, "masked": 50.0, "near": 50.0, "told": {"rows": 0, "right": None},
    }  # fmt: skip


def test_nothing_to_audit_and_one_malformed_program() -> None:
    assert "0 rows" in render(audit([], None))
    text = render(audit([Row("race_c/0", "race_c", "", "maybe")], None))
    assert "blank prompt: 1 (race_c/0)" in text


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("1,024", "number"),
        ("3.0-2065", "id"),
        ("The ID is 3.0-2065.", "sentence"),
        ("CodeT5, CoTexT", "list"),
        ("NVIDIA A30", "name"),
    ],
)
def test_kinds_of_answers(answer: str, kind: str) -> None:
    assert answer_kind(answer) == kind


def test_labels_told_by_names_of_evaluation_rows() -> None:
    def program(number: int, name: str, answer: str) -> Row:
        return Row(f"race_fortran/{number}", "race_fortran", f"program {name}\n!$omp barrier\nend program", answer)

    rows = [program(0, "DRB1_orig_no", "no"), program(1, "DRB2_orig_yes", "no"), program(2, "sums", "yes")]
    leak = audit(rows, Split([], rows))["tasks"]["race_fortran"]["leakage"]
    assert leak["told"] == {"rows": 2, "right": 50.0}
    scrubbed = [scrub(row) for row in rows]
    assert audit(scrubbed, Split([], scrubbed))["tasks"]["race_fortran"]["leakage"]["told"]["rows"] == 0


def test_nearest_is_exact() -> None:
    """Against comparing every pair, on random sequences of few tokens."""
    rng = random.Random(0)
    one, two = ([tuple(rng.choices("abcd", k=rng.randint(0, 12))) for _ in range(40)] for _ in range(2))
    expected = [max(similarity(a, b) for b in two) for a in one]
    assert nearest(one, two) == pytest.approx(expected)
    assert nearest(one, []) == [0.0] * 40
