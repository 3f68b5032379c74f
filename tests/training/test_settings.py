"""Runs of other settings or other code never share checkpoints, and it is said what differs."""

from __future__ import annotations

import datetime as dt
import logging
import shutil
from pathlib import Path

import pytest
import tiny

from hargo import fingerprint
from hargo.errors import Interrupted
from hargo.io import read_json
from hargo.training import checkpoint, job
from hargo.training.job import Places, train
from hargo.training.settings import differences
from hargo.training.update import OneLoss


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch):
    """Runs of two steps that are then asked to stop."""
    real = OneLoss.apply

    def step(update, batches, number, rate):
        if number == 2:
            raise Interrupted("stopped by the test")
        return real(update, batches, number, rate)

    monkeypatch.setattr(OneLoss, "apply", step)


def interrupted(start: Path, out: Path, **overrides: object) -> None:
    study = tiny.study(rl={"max_steps": 4, "checkpoint_every": 2}, **overrides)
    with pytest.raises(Interrupted):
        train(study, "grpo", 0, Places(start / "sft" / "model", start / "data", out, out / "checkpoints"))


def folders(out: Path) -> list[Path]:
    return [folder for folder in (out / "checkpoints").iterdir() if checkpoint.complete(folder)]


def test_it_is_said_which_setting_differs(start, tmp_path, stopped, caplog) -> None:
    interrupted(start, tmp_path)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "hargo"):
        interrupted(start, tmp_path, model={"date": dt.date(2025, 1, 1)}, methods={"grpo": {"clip": 0.1}})
    (line,) = [record.getMessage() for record in caplog.records if "other settings" in record.getMessage()]
    assert "options.clip was 0.2, is 0.1" in line and "model.date was 2024-07-26, is 2025-01-01" in line
    assert "step-0000002" in line and "start" not in line.partition("stays where it is:")[2]
    assert len(folders(tmp_path)) == 2  # nothing is lost


def test_the_same_settings_go_on_without_a_word(start, tmp_path, stopped, caplog) -> None:
    with caplog.at_level(logging.INFO, "hargo"):
        interrupted(start, tmp_path)
        interrupted(start, tmp_path)
    assert len(folders(tmp_path)) == 1
    assert "other settings" not in caplog.text and "resuming after step 2" in caplog.text


def test_changed_code_starts_afresh_and_names_the_file(start, tmp_path, stopped, caplog, monkeypatch) -> None:
    interrupted(start, tmp_path)
    package = tmp_path / "hargo"
    shutil.copytree(fingerprint.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    path = package / "tasks" / "race.py"
    path.write_text(path.read_text() + "\nREWARD = 2\n")
    monkeypatch.setattr(fingerprint, "PACKAGE", package)
    for cached in (fingerprint._files, fingerprint._read):
        cached.cache_clear()
    try:
        with caplog.at_level(logging.WARNING, "hargo"):
            interrupted(start, tmp_path)
    finally:
        for cached in (fingerprint._files, fingerprint._read):
            cached.cache_clear()
    assert "hargo/tasks/race.py has changed" in caplog.text and "hargo/methods" not in caplog.text
    assert len(folders(tmp_path)) == 2


def test_another_start_or_end_of_answers_is_another_run(start, tmp_path) -> None:
    before = job._start_digest(start / "sft" / "model")
    shutil.copytree(start / "sft" / "model", tmp_path / "model")
    assert job._start_digest(tmp_path / "model") == before
    path = tmp_path / "model" / "generation_config.json"
    path.write_text(path.read_text().replace("}", ', "unknown": 1}'))
    assert job._start_digest(tmp_path / "model") != before


def test_differences_are_named_by_key() -> None:
    before = {"seed": 0, "options": {"beta": 0.1, "old": 1}, "code": {"hargo/a.py": "1", "hargo/b.py": "2"}}
    after = {"seed": 0, "options": {"beta": 0.2}, "code": {"hargo/a.py": "1", "hargo/b.py": "3"}}
    assert differences(before, after) == [
        "hargo/b.py has changed",
        "options.beta was 0.1, is 0.2",
        "options.old was 1, is not set",
    ]


def test_the_run_tells_of_its_code(start) -> None:
    assert len(read_json(start / "sft" / "run.json")["code"]) == 8
