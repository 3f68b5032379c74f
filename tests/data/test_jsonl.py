"""Rows of one's own out of JSON lines: columns, splits, and mistakes told by file, row and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hargo.cli.workflow import data_files
from hargo.config import study_from
from hargo.config.options import DataOptions
from hargo.data.build import build, load_source
from hargo.errors import UserError

ROWS = [{"prompt": f"question {n}", "answer": "yes" if n % 2 else "no"} for n in range(10)]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def options(path: Path, **more: Any) -> DataOptions:
    return DataOptions(source="jsonl", path=str(path), **more)


def test_a_file_of_prompts_and_answers_is_a_data_set(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", ROWS)
    rows = load_source(options(path), ["race_c"])
    assert [row.id for row in rows] == [f"race_c/{n:05d}" for n in range(1, 11)]
    assert (rows[1].prompt, rows[1].answer) == ("question 1", "yes")
    split = build(options(path, eval_fraction=0.3), ["race_c"])
    assert (len(split.train), len(split.eval)) == (7, 3)


def test_columns_may_have_other_names_and_a_folder_several_files(tmp_path: Path) -> None:
    shape = {"question": "q", "label": "yes", "kind": "race_c", "origin": "a", "side": "eval", "more": 3}
    write(tmp_path / "a.jsonl", [shape, {**shape, "question": "r", "side": "train"}])
    write(tmp_path / "b.jsonl", [{**shape, "kind": "plp", "name": "plp/first", "side": "train"}])
    columns = {
        "prompt": "question",
        "answer": "label",
        "task": "kind",
        "family": "origin",
        "split": "side",
        "id": "name",
    }
    made = options(tmp_path, columns=columns, protocol="given")
    split = build(made, ["race_c", "plp"])
    assert [row.id for row in split.train] == ["race_c/00002", "plp/first"] and len(split.eval) == 1
    assert split.eval[0].meta["family"] == "a"
    assert len(load_source(made, ["race_c"])) == 2, "rows of other tasks are left out"


@pytest.mark.parametrize(
    ("rows", "tasks", "words"),
    [
        (
            [*ROWS, {"prompt": "x"}],
            ["race_c"],
            "row 11: key 'answer' is missing; add it, or name the column with data.",
        ),
        ([{"prompt": "x", "answer": 3}], ["race_c"], "row 1: key 'answer' holds a number, not a string"),
        ([ROWS[0], "text"], ["race_c"], "row 2: is a string, not an object"),
        (ROWS, ["race_c", "plp"], "row 1: key 'task' is missing, and the study has several tasks"),
        ([{**ROWS[0], "split": "test"}], ["race_c"], "row 1: key 'split' is 'test'; write train or eval"),
        ([{**ROWS[0], "task": "plp"}], ["race_c"], "no rows for task 'race_c'"),
        ([{**ROWS[0], "id": "a"}, {**ROWS[1], "id": "a"}], ["race_c"], "row id 'a' occurs twice"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, rows: list[Any], tasks: list[str], words: str) -> None:
    with pytest.raises(UserError) as error:
        load_source(options(write(tmp_path / "mine.jsonl", rows)), tasks)
    assert words in str(error.value) and "mine.jsonl" in str(error.value) and "\n" not in str(error.value)


def test_a_split_of_ones_own_needs_its_column(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="row 1: protocol 'given' needs the column 'split'"):
        load_source(options(write(tmp_path / "mine.jsonl", ROWS), protocol="given"), ["race_c"])


def test_a_study_of_ones_own_rows_names_its_tasks(tmp_path: Path) -> None:
    value = {"name": "mine", "pretrain": {}, "data": {"source": "jsonl", "path": str(tmp_path)}}
    with pytest.raises(UserError, match="does not declare its tasks; list them"):
        study_from(value, "study.yaml")
    study = study_from({**value, "tasks": ["race_c"]}, "study.yaml")
    with pytest.raises(UserError, match="neither a file of JSON lines nor a folder"):
        data_files(study)
    path = write(tmp_path / "mine.jsonl", ROWS)
    assert data_files(study) == [path]
    with pytest.raises(UserError, match="`columns` would be ignored"):
        study_from({"name": "x", "pretrain": {}, "data": {"columns": {"prompt": "q"}}}, "study.yaml")
