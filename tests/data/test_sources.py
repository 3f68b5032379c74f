"""The HPC-GPT files, from a folder and from the hub cache, and what happens when they are not there or damaged."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hargo.config.options import DataOptions
from hargo.data import build, hpcgpt
from hargo.data.records import Row, load_rows
from hargo.errors import UserError
from hargo.io import read_jsonl, write_jsonl

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
from hargo.data.records import Row, load_rows
from hargo.errors import UserError
from hargo.io import read_jsonl, write_jsonl
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


def test_text_that_no_file_can_hold_and_numbers_that_are_none_are_named(tmp_path: Path) -> None:
    for text, words in (
        (r'[{"instruction": "a", "input": "", "output": "b"}, {"instruction": "x\ud83d", "input": "", "output": "b"}]',
         ["row 1", "'instruction'", r"half a surrogate pair (\ud83d) at character 1"]),
        ('[{"instruction": "a", "input": "", "output": NaN}]', ["row 0", "'output'", "nan"]),
        ('[{"instruction": "a", "input": "", "output": true}]', ["row 0", "'output'", "a truth value"]),
        ("[" * 100_000, ["task1_plp.json", "nested too deeply"]),
        ("\ufeff[]", ["task1_plp.json", "BOM"]),
    ):  # fmt: skip
        with pytest.raises(UserError) as caught:
            hpcgpt.load(folder(tmp_path, text), ["plp"])
        message = str(caught.value)
        assert all(word in message for word in words) and "\n" not in message, message
    whole = r'[{"instruction": "\ud83d\ude00\u0000", "input": "", "output": "b"}]'
    assert hpcgpt.load(folder(tmp_path, whole), ["plp"])[0].prompt == "\N{GRINNING FACE}\0"


def test_a_path_may_begin_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path / "data", [GOOD])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(hpcgpt.load(DataOptions(source="hpcgpt", path="~/data"), ["plp"])) == 1


# --- rows in JSON lines ---

ROW = {"id": "plp/0", "task": "plp", "prompt": "Q", "answer": "A", "meta": {}}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([1], "is a list, not an object"),
        ({**ROW, "id": 3}, "'id' holds a number"),
        ({**ROW, "id": " "}, "'id' is blank"),
        ({**ROW, "answer": None}, "'answer' holds null"),
        ({**ROW, "meta": "x"}, "'meta' holds a string"),
        ({**ROW, "label": "yes"}, "unknown key 'label'"),
        ({"id": "a"}, "'task' is missing"),
        ({**ROW, "prompt": "\ud800"}, r"half a surrogate pair (\ud800)"),
        (ROW, "id 'plp/0' is also that of row 1"),
    ],
)
def test_a_row_that_is_none_is_named(tmp_path: Path, row: object, words: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(row)}\n")
    with pytest.raises(UserError) as caught:
        load_rows(path)
    assert f"{path}, row 2" in str(caught.value) and words in str(caught.value)


def test_half_a_surrogate_pair_in_an_output_is_written_and_read_back(tmp_path: Path) -> None:
    value = {"output": "a\ud800b\N{GRINNING FACE}"}
    write_jsonl(tmp_path / "x.jsonl", [value])
    assert read_jsonl(tmp_path / "x.jsonl") == [value]
    rows = [Row("plp/0", "plp", "Q\udc00", "A")]
    build.write(build.Split(rows, rows, {}), tmp_path)
    assert build.digest(rows) == hashlib.sha256((tmp_path / "eval.jsonl").read_bytes()).hexdigest()


def test_a_build_depends_on_its_inputs_only(tmp_path: Path) -> None:
    """Not on the order of a folder, the hash seed, the locale or the working folder."""
    names = ["DRB001-k-yes.c", "DRB002-k-no.cpp", "DRB003-l-yes.c", "DRB004-m-no.c"]
    kernels = {name: f"int a{name[5]};\n#pragma omp barrier\n" for name in names}
    script = """
import sys
from hargo.config.options import DataOptions
from hargo.data import build
for source, tasks, path in (("drb", ["race_c"], sys.argv[1]), ("embedded", ["race_c", "plp"], None)):
    split = build.build(DataOptions(source=source, path=path, eval_fraction=0.5), tasks)
    print(build.digest(split.train), build.digest(split.eval))
"""
    told = set()
    for turn, order in enumerate((sorted(kernels), sorted(kernels, reverse=True))):
        (tmp_path / str(turn) / "k").mkdir(parents=True)
        for name in order:
            (tmp_path / str(turn) / "k" / name).write_text(kernels[name])
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(turn),
            "LC_ALL": ("C", "C.UTF-8")[turn],
            "TZ": ("UTC", "Asia/Tokyo")[turn],
        }
        done = subprocess.run(
            [sys.executable, "-c", script, "k"],
            cwd=tmp_path / str(turn),
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        told.add(done.stdout)
    assert len(told) == 1
