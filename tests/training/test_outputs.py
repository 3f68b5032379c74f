"""What was trained is never trained twice, and a full disk or a torn log loses nothing."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
import yaml
from safetensors import safe_open

from hargo.io import read_jsonl
from hargo.training import checkpoint, job, outputs
from hargo.training.job import Places
from hargo.training.log import records
from hargo.training.update import OneLoss

LORA = {"methods": {"grpo": {"lora": {"rank": 2, "modules": ["q_proj", "down_proj"]}}}}
RL = {"max_steps": 4, "checkpoint_every": 2}


def train(start: Path, out: Path, **overrides: object) -> None:
    study = tiny.study(**{"rl": RL, **overrides})
    job.train(study, "grpo", 0, Places(start / "sft" / "model", start / "data", out, out / "checkpoints"))


def content(folder: Path) -> dict[str, bytes]:
    """The outputs; times differ between runs."""
    found = {path.name: path.read_bytes() for path in (folder / "model").iterdir()}
    steps = [{k: v for k, v in step.items() if k != "seconds"} for step in read_jsonl(folder / "metrics.jsonl")]
    return {**found, "metrics.jsonl": json.dumps(steps).encode()}


def remove_outputs(out: Path) -> None:
    """As Snakemake does with those of a job that failed."""
    shutil.rmtree(out / "model")
    (out / "metrics.jsonl").unlink()
    (out / "run.json").unlink()


def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OneLoss, "apply", lambda *_: pytest.fail("trained again"))


@pytest.mark.parametrize("links", [True, False])
def test_removed_outputs_come_back_without_training(start, tmp_path, monkeypatch, links) -> None:
    def refuse(*_, **__):
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    train(start, tmp_path)
    before = content(tmp_path)
    (folder,) = (tmp_path / "checkpoints").iterdir()
    assert len(checkpoint.complete(folder)) == (0 if links else 1)
    if links:
        weights = [p / "model" / "model.safetensors" for p in (tmp_path, outputs.finished(folder, 4))]
        assert os.path.samefile(*weights)  # no second copy
    remove_outputs(tmp_path)
    no_training(monkeypatch)
    train(start, tmp_path)
    assert content(tmp_path) == before and (tmp_path / "run.json").is_file()


def test_outputs_of_other_settings_are_let_go(start, tmp_path) -> None:
    for steps in (2, 3):
        train(start, tmp_path, rl={**RL, "max_steps": steps})
    assert len(list((tmp_path / "checkpoints").glob("*/finished-*"))) == 1


def test_stopped_right_after_training_it_trains_nothing_twice(start, tmp_path) -> None:
    """SIGTERM once the outputs are written: what a workflow removes then comes back from what was kept."""
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(tiny.study(rl=RL).model_dump(mode="json")))
    places = ["--model", start / "sft" / "model", "--data", start / "data", "--out", tmp_path]
    options = ["--config", tmp_path / "study.yaml", "--seed", "0", *places, "--checkpoints", tmp_path / "checkpoints"]
    code = (
        "import os, signal; from hargo.training import job; real = job.Job._finish\n"
        "def finish(self, *rest):\n"
        "    real(self, *rest); os.kill(os.getpid(), signal.SIGTERM)\n"
        "job.Job._finish = finish\n"
        "from hargo.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "train", "grpo", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == -signal.SIGTERM, done.stderr
    before = content(tmp_path)
    remove_outputs(tmp_path)
    again = [sys.executable, "-m", "hargo", "train", "grpo", *map(str, options)]
    done = subprocess.run(again, capture_output=True, text=True, check=True)
    assert "trained before" in done.stderr and "step 1/" not in done.stderr
    assert content(tmp_path) == before


def test_a_checkpoint_of_adapters_has_them_alone_and_goes_on_in_the_same_bits(start, tmp_path, monkeypatch) -> None:
    train(start, tmp_path / "whole", **LORA)
    real = checkpoint.save
    frozen = (start / "sft" / "model" / "model.safetensors").stat().st_size
    seen = []

    def save(folder, step, *rest, **more):
        real(folder, step, *rest, **more)
        with safe_open(folder / f"step-{step:07d}" / "tensors.safetensors", "pt") as file:
            seen.append(set(file.keys()))
        assert (folder / f"step-{step:07d}" / "tensors.safetensors").stat().st_size < frozen / 2
        if step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save", save)
    with pytest.raises(KeyboardInterrupt):
        train(start, tmp_path / "killed", **LORA)
    assert all("lora_" in key for key in seen[0] if not key.startswith("rng/"))
    train(start, tmp_path / "killed", **LORA)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_a_checkpoint_of_another_model_is_set_aside(tmp_path, caplog) -> None:
    import torch

    small, large = torch.nn.Linear(3, 2), torch.nn.Linear(4, 2)
    for model, step in ((small, 1), (large, 2)):
        checkpoint.save(tmp_path, step, model, {"optimizer": torch.optim.AdamW(model.parameters())}, {})
    found = checkpoint.load_newest(tmp_path, small, {"optimizer": torch.optim.AdamW(small.parameters())})
    assert found == {"step": 1} and (tmp_path / "broken-step-0000002").is_dir()
    assert "weight differs" in caplog.text


def test_a_full_disk_while_a_checkpoint_is_written_loses_nothing(start, tmp_path, monkeypatch) -> None:
    train(start, tmp_path / "whole")
    real = checkpoint.save_file

    def full(tensors, path):
        if "0000004" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        train(start, tmp_path / "full")
    (folder,) = (tmp_path / "full" / "checkpoints").iterdir()
    assert [path.name for path in checkpoint.complete(folder)] == ["step-0000002"]
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    monkeypatch.setattr(checkpoint, "save_file", real)
    train(start, tmp_path / "full")
    assert content(tmp_path / "full") == content(tmp_path / "whole")


WHOLE = [f'{{"step": {n}, "loss": {n}.5}}' for n in range(1, 7)]


@pytest.mark.parametrize(
    ("lines", "last", "steps", "told"),
    [
        (WHOLE, 4, [1, 2, 3, 4], False),
        ([*WHOLE[:4], '{"step": 5, "lo'], 4, [1, 2, 3, 4], False),
        ([*WHOLE[:4], '{"step"', *WHOLE[4:]], 6, [1, 2, 3, 4, 5, 6], False),
        ([*WHOLE[:2], '{"step": 3, "lo{"step": 4}', *WHOLE[4:]], 6, [1, 2, 5, 6], True),
        ([*WHOLE[:2], "\0" * 40, *WHOLE[3:]], 5, [1, 2, 4, 5], True),
        ([*WHOLE[:2], "\xff", "[]", "3", "{}", '{"step": null}', WHOLE[2]], 3, [1, 2, 3], False),
        ([WHOLE[0], WHOLE[0], WHOLE[1]], 2, [1, 2], False),
        ([], 0, [], False),
    ],
)
def test_torn_lines_of_the_log(tmp_path, caplog, lines, last, steps, told) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes("\n".join([*lines, ""]).encode("latin-1"))
    with caplog.at_level(logging.WARNING, "hargo"):
        assert [record["step"] for record in records(path, last)] == steps
    assert ("cannot be read" in caplog.text) == told == (tmp_path / "damaged-metrics.jsonl").is_file()


def test_a_run_goes_on_over_a_torn_log(start, tmp_path, monkeypatch) -> None:
    train(start, tmp_path / "whole")
    monkeypatch.setattr(checkpoint, "save", _and_stop(checkpoint.save))
    with pytest.raises(KeyboardInterrupt):
        train(start, tmp_path / "torn")
    (folder,) = (tmp_path / "torn" / "checkpoints").iterdir()
    with open(folder / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 3, "loss": 0.\n\0\0\0\0{"st')
    monkeypatch.undo()
    train(start, tmp_path / "torn")
    assert content(tmp_path / "torn") == content(tmp_path / "whole")


def _and_stop(save):
    def stopping(*arguments, **more):
        save(*arguments, **more)
        raise KeyboardInterrupt

    return stopping
