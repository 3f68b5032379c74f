"""Protocols, limits and the manifest."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hargo.config.options import DataOptions
from hargo.data import build, protocols
from hargo.data.programs import take_apart
from hargo.data.records import Row
from hargo.data.similarity import NEAR, characters, fingerprint, groups, nearest_at_least, similarity
from hargo.errors import UserError

TASKS = ["race_c", "race_fortran", "mlperf", "plp"]
PAPER = DataOptions(source="hpcgpt", path="unused")


def questions(count: int, task: str = "plp") -> list[Row]:
    return [Row(f"{task}/{i:05d}", task, f"Question {i} of {task}?", str(i)) for i in range(count)]


def program(number: int, code: str, answer: str) -> Row:
    prompt = (
        f"Given the code snippet: {code}, help me detect if adding pragma will cause a data race problem? yes or no."
    )
    return Row(f"race_c/{number:05d}", "race_c", prompt, answer)


@pytest.fixture(scope="module")
def rows(shared_data: Path) -> list[Row]:
    return build.load_source(DataOptions(source="hpcgpt", path=str(shared_data / "hpcgpt")), TASKS)


def counts(side: list[Row]) -> list[int]:
    return [sum(row.task == task for row in side) for task in TASKS]


def test_paper_split_has_the_papers_sizes_and_touches_no_row(rows: list[Row]) -> None:
    split = build.split_rows(rows, PAPER)
    assert (len(split.train), len(split.eval)) == (5273, 584)
    assert counts(split.eval) == [185, 157, 182, 60]
    assert sorted([*split.train, *split.eval], key=lambda r: r.id) == sorted(rows, key=lambda r: r.id)
    assert build.split_rows(rows, PAPER) == split
    other = build.split_rows(rows, PAPER.model_copy(update={"split_seed": 1}))
    assert {r.id for r in other.eval} != {r.id for r in split.eval}


def test_split_of_a_task_does_not_depend_on_the_others(rows: list[Row]) -> None:
    both = build.split_rows(rows, PAPER).eval
    alone = build.split_rows([row for row in rows if row.task == "plp"], PAPER).eval
    assert alone == [row for row in both if row.task == "plp"]


def test_manifest_describes_the_written_files(tmp_path: Path) -> None:
    split = build.split_rows(questions(50) + questions(30, "mlperf"), PAPER)
    build.write(split, tmp_path)
    for side in ("train", "eval"):
        data = (tmp_path / f"{side}.jsonl").read_bytes()
        assert split.report[side]["sha256"] == hashlib.sha256(data).hexdigest()
    assert split.report["eval"]["rows"] == {"plp": 5, "mlperf": 3, "total": 8}
    assert (split.report["protocol"], split.report["split_seed"]) == ("paper", 0)


def test_strict_split_of_the_real_files(rows: list[Row]) -> None:
    split = build.split_rows(rows, PAPER.model_copy(update={"protocol": "strict"}))
    dropped = split.report["dropped"]
    assert dropped["malformed"] == {"race_c": 21, "mlperf": 4, "total": 25}
    assert dropped["no directive"] == {"race_c": 46, "race_fortran": 19, "total": 65}
    assert len(split.train) + len(split.eval) == len(rows) - sum(counts["total"] for counts in dropped.values())
    assert 4300 < len(split.train) < 4800 and 470 < len(split.eval) < 540
    for task in TASKS:
        train, held = ([row for row in side if row.task == task] for side in (split.train, split.eval))
        assert held
        for view in (fingerprint, characters):
            assert not any(nearest_at_least([view(row) for row in held], [view(row) for row in train], NEAR))
    yes = [row.answer for row in split.eval if row.task == "race_c"].count("yes")
    assert 70 < yes < 90  # of about 172: the balance of the source
    assert not any("DRB" in row.prompt for row in [*split.train, *split.eval])


def test_drop_gives_the_first_reason_that_applies() -> None:
    pragma = "#pragma omp parallel for\nfor (i = 0; i < 9; i++) a[i] = b[i];"
    rows = [
        program(0, pragma, "yes"),
        program(1, pragma + " // no race here", "no"),
        program(2, "for (;;) x++;", "no"),
        program(3, "", "no"),
        program(4, pragma.replace("9", "8"), "no"),
        program(5, f"```c\n{pragma.replace('9', '8')}\n```", "no"),
        program(6, pragma.replace("9", "7"), "no\n\nplease note"),
        Row("plp/00000", "plp", " ", "a"),
        Row("plp/00001", "plp", "Q", "·"),
        Row("plp/00002", "plp", "Q?", "A"),
    ]
    kept, dropped = protocols.drop(rows)
    assert [row.id for row in kept] == ["race_c/00004", "plp/00002"]
    assert {row.id: reason for row, reason in dropped} == {
        "race_c/00000": "conflicting",
        "race_c/00001": "conflicting",
        "race_c/00002": "no directive",
        "race_c/00003": "malformed",
        "race_c/00005": "repeated",
        "race_c/00006": "malformed",
        "plp/00000": "malformed",
        "plp/00001": "malformed",
    }
    assert take_apart(kept[0].prompt).code == pragma.replace("9", "8")


def test_given_follows_the_source() -> None:
    rows = [Row("plp/0", "plp", "a", "b", {"split": "eval"}), Row("plp/1", "plp", "c", "d", {"split": "train"})]
    split = protocols.given(rows)
    assert ([r.id for r in split.train], [r.id for r in split.eval]) == (["plp/1"], ["plp/0"])
    with pytest.raises(UserError, match=r"row plp/00000: meta.split is None"):
        protocols.given(questions(1))


def test_blank_prompt_stays_under_the_paper_protocol() -> None:
    rows = [Row("plp/x", "plp", "", "answer"), *questions(20)]
    split = build.split_rows(rows, PAPER)
    assert any(row.prompt == "" for row in [*split.train, *split.eval])


def test_a_task_with_one_row_trains_and_alone_is_an_error() -> None:
    split = build.split_rows(questions(1, "mlperf") + questions(20), PAPER)
    assert [row.id for row in split.train if row.task == "mlperf"] == ["mlperf/00000"]
    with pytest.raises(UserError, match="evaluation side of 1 rows is empty"):
        build.split_rows(questions(1), PAPER)


def test_repeated_ids_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from hargo.data import hpcgpt

    monkeypatch.setattr(hpcgpt, "load", lambda options, tasks: [*questions(3), *questions(1)])
    with pytest.raises(UserError, match="row id 'plp/00000' occurs twice"):
        build.load_source(PAPER, ["plp"])


def test_limits_keep_the_shares_of_the_tasks() -> None:
    rows = questions(900) + questions(100, "mlperf")
    options = PAPER.model_copy(update={"train_limit": 90, "eval_limit": 20})
    split = build.split_rows(rows, options)
    assert split.report["train"]["rows"] == {"plp": 81, "mlperf": 9, "total": 90}
    assert split.report["eval"]["rows"] == {"plp": 18, "mlperf": 2, "total": 20}
    whole = build.split_rows(rows, PAPER)
    assert {r.id for r in split.eval} < {r.id for r in whole.eval}
    assert split == build.split_rows(rows, options)
    large = PAPER.model_copy(update={"train_limit": 10_000})
    assert build.split_rows(rows, large).train == whole.train


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 100), st.integers(0, 5))
def test_limit_is_exact_and_fair(sizes: list[int], size: int, seed: int) -> None:
    rows = [row for name, count in zip(TASKS, sizes, strict=False) for row in questions(count, name)]
    kept = protocols.limit(rows, size, seed, "train")
    assert len(kept) == min(size, len(rows))
    for name, count in zip(TASKS, sizes, strict=False):
        share = min(size, len(rows)) * count / len(rows)
        assert abs(sum(row.task == name for row in kept) - share) < 1


def plain_lcs(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


sequences = st.lists(st.sampled_from("abcd"), max_size=12).map(tuple)


@given(sequences, sequences)
def test_similarity_is_that_of_the_textbook_table(a: tuple[str, ...], b: tuple[str, ...]) -> None:
    assert similarity(a, b) == (2 * plain_lcs(a, b) / (len(a) + len(b)) if a or b else 1)


@given(share=st.floats(0.01, 0.99), seed=st.integers(0, 9))
def test_reserved_rows_are_a_share_of_each_task_and_nobody_elses(share: float, seed: int) -> None:
    rows = [Row(f"{task}/{k}", task, "p", "a") for task, size in {"x": 40, "y": 11}.items() for k in range(size)]
    first, reserved = protocols.reserve(rows, share, seed)
    assert sorted(row.id for row in [*first, *reserved]) == sorted(row.id for row in rows)
    assert len(reserved) == round(share * len(rows))
    for task, size in {"x": 40, "y": 11}.items():
        assert abs(sum(row.task == task for row in reserved) - share * size) <= 1


@settings(max_examples=50)
@given(st.lists(sequences, min_size=1, max_size=8))
def test_groups_are_the_connected_near_pairs(view: list[tuple[str, ...]]) -> None:
    found = groups(view, threshold=0.7)
    reach = [{i} for i in range(len(view))]
    for _ in view:
        for i, a in enumerate(view):
            for j, b in enumerate(view):
                total = len(a) + len(b)
                if not total or 2 * plain_lcs(a, b) / total >= 0.7:
                    reach[i] |= reach[j]
    assert found == [min(connected) for connected in reach]
