"""A study with code of its own, in the workflow: what it plans, what a change of that code reruns, and its report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import outside
import pytest
import yaml
from calls import jobs, snakemake, taken_for_finished

STUDY: dict[str, Any] = {
    "name": "own",
    "extend": {"tasks": {"shout": "shout:TASK"}, "methods": {"lifted": "lifted:METHOD", "unused": "unused:METHOD"}},
    "tasks": ["shout"],
    "data": {"source": "jsonl", "path": "mine/rows.jsonl", "protocol": "given"},
    "model": {"scratch": {"vocabulary": 300, "hidden": 32, "layers": 1, "heads": 2, "intermediate": 64}},
    "pretrain": {"steps": 2, "batch_size": 4},
    "sft": {"max_steps": 2},
    "rl": {"max_steps": 1, "prompts_per_step": 2},
    "methods": {"lifted": {"lift": 0.5}},
    "compute": {"threads": 1, "device": "cpu"},
}


def written(folder: Path, **sections: Any) -> Path:
    """A study, its code and its rows in the folder `mine`."""
    mine = outside.write(
        folder / "mine", {name: outside.FILES[name] for name in ("shout.py", "lifted.py", "lifted_loss.py")}
    )
    outside.write(mine, {"unused.py": outside.METHOD})
    words = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]
    rows = [
        {"prompt": f"Shout {first} {second}", "answer": first.upper(), "split": "eval" if first == "hen" else "train"}
        for first in words
        for second in words
    ]
    (mine / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    study = mine / "study.yaml"
    study.write_text(yaml.safe_dump({**STUDY, **sections}))
    return study


def test_a_change_of_own_code_redoes_what_used_it(tmp_path: Path) -> None:
    study = written(tmp_path, methods={"grpo": None, "lifted": None})
    taken_for_finished(tmp_path, study)
    assert jobs(tmp_path, study=study) == {}

    def changed(file: str, text: str) -> dict[str, int]:
        path = tmp_path / "mine" / file
        before = path.read_text()
        path.write_text(before + text)
        planned = jobs(tmp_path, study=study)
        path.write_text(before)
        return planned

    assert changed("lifted_loss.py", "\n# a comment\n") == changed("unused.py", "\nADDED = 1\n") == {}
    one = {"train": 1, "evaluate": 1, "report": 1}
    assert changed("lifted_loss.py", "\nADDED = 1\n") == changed("lifted.py", "\nADDED = 1\n") == one
    assert changed("shout.py", "\nADDED = 1\n") == {"train": 4, "evaluate": 3, "baselines": 1, "report": 1}


def test_faulty_code_of_its_own_is_one_message(tmp_path: Path) -> None:
    study = written(tmp_path)
    (tmp_path / "mine" / "shout.py").write_text("import yaml\n\nTASK = 1 / 0\n")
    done = snakemake(tmp_path, "--dry-run", "--configfile", study)
    assert done.code != 0 and "Traceback" not in done.text
    assert re.search(rf"{study}, line \d+: extend.tasks.shout: {tmp_path}/mine/shout.py, line 3: importing", done.text)


@pytest.mark.slow
def test_a_study_with_rows_task_and_method_of_its_own_runs_to_its_report(tmp_path: Path) -> None:
    study = written(tmp_path)
    done = snakemake(tmp_path, "--configfile", study, "--show-failed-logs")
    assert done.code == 0, done.text
    text = (tmp_path / "results" / "own" / "report" / "report.md").read_text()
    assert "Shouting" in text and "Lifted GRPO" in text
    assert yaml.safe_load((tmp_path / "results" / "own" / "study.yaml").read_text())["extend"]["folders"] == ["mine"]
    assert jobs(tmp_path, study=study) == {}
