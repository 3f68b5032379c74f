"""The HPC-GPT files, from a folder and from the hub cache, and what happens when they are not there or damaged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hargo.config.options import DataOptions
from hargo.data import build, hpcgpt
from hargo.errors import UserError

TASKS = ["race_c", "race_fortran", "mlperf", "plp"]
GOOD = {"instruction": "What?", "input": "", "output": "896"}


def folder(path: Path, rows: object) -> DataOptions:
    path.mkdir(exist_ok=True)
    text = rows if isinstance(rows, str) else json.dumps(rows)
    (path / "task1_plp.json").write_text(text, encoding="utf-8")
    return DataOptions(source="hpcgpt", path=str(path))


def test_real_files_are_read_as_they_are(shared_data: Path) -> None:
    options = DataOptions(source="hpcgpt", path=str(shared_data / "hpcgpt"))
    rows = hpcgpt.load(options, TASKS)
    counts = {task: sum(row.task == task for row in rows) for task in TASKS}
    assert counts == {"race_c": 1858, "race_fortran": 1576, "mlperf": 1820, "plp": 603}
    assert len(rows) == 5857 == len({row.id for row in rows})
    source = json.loads((shared_data / "hpcgpt" / "task2_c_c++.json").read_text(encoding="utf-8"))
    row = next(row for row in rows if row.id == "race_c/01499")
    assert (row.prompt, row.answer) == (source[1499]["instruction"], source[1499]["output"])
    assert row.meta == {"source_file": "task2_c_c++.json", "source_row": 1499}


def test_input_follows_the_instruction_and_numbers_become_text(tmp_path: Path) -> None:
    options = folder(tmp_path, [{"instruction": "Q", "input": "more", "output": 896}])
    (row,) = hpcgpt.load(options, ["plp"])
    assert (row.id, row.prompt, row.answer) == ("plp/00000", "Q\nmore", "896")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([GOOD, {"instruction": "Q", "input": ""}], ["task1_plp.json, row 1", "'output'", "missing"]),
        ([GOOD, "text"], ["row 1", "a string", "not an object"]),
        ([{**GOOD, "output": None}], ["row 0", "'output'", "null"]),
        ([{**GOOD, "instruction": ["a"]}], ["row 0", "'instruction'", "a list"]),
        ({"a": 1}, ["an object", "not a list"]),
        ('[{"instruction": ', ["task1_plp.json", "not valid JSON"]),
    ],
)
def test_damaged_file_is_named_with_row_and_key(tmp_path: Path, rows: object, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        hpcgpt.load(folder(tmp_path, rows), ["plp"])
    message = str(caught.value)
    assert all(word in message for word in words) and "\n" not in message


def test_missing_folder_file_and_task_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such folder; set data\.path"):
        hpcgpt.load(DataOptions(source="hpcgpt", path=str(tmp_path / "nowhere")), ["plp"])
    options = folder(tmp_path, [GOOD])
    with pytest.raises(UserError, match=r"task1_ml_perf\.json: no such file"):
        hpcgpt.load(options, ["plp", "mlperf"])
    with pytest.raises(UserError, match="no task 'poetry'"):
        hpcgpt.load(options, ["poetry"])


def test_empty_source_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no rows for task 'plp'"):
        build.build(folder(tmp_path, []), ["plp"])


SCRIPT = """
import sys
from hargo.config.options import DataOptions
from hargo.data.hub import load
from hargo.errors import UserError
try:
    print(len(load(DataOptions(source="hub", path=sys.argv[1]), ["race_c", "plp"])))
except UserError as error:
    print("UserError:", error)
"""


def run_offline(home: Path, name: str) -> str:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home)}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_hub_offline_without_cache_names_the_prefetch_rule(tmp_path: Path) -> None:
    message = run_offline(tmp_path, "HPC-GPT/HPC")
    assert message.startswith("UserError: hub data set HPC-GPT/HPC: task2_c_c++.json is not in the hub cache")
    assert "hargo data prefetch" in message and "\n" not in message
    assert "not a hub id" in run_offline(tmp_path, "not a/hub/id")


def test_hub_offline_reads_the_cache(tmp_path: Path, shared_data: Path) -> None:
    cached = tmp_path / "hub" / "datasets--HPC-GPT--HPC"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40)
    shutil.copytree(shared_data / "hpcgpt", cached / "snapshots" / ("0" * 40))
    assert run_offline(tmp_path, "HPC-GPT/HPC") == str(1858 + 603)
