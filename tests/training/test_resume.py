"""Checkpoints, runs that are killed or asked to stop, and what a run leaves."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny
import torch
import yaml

from hargo.errors import UserError
from hargo.io import read_json, read_jsonl
from hargo.training import checkpoint
from hargo.training.job import Places, train


def weights(folder: Path) -> str:
    return hashlib.sha256((folder / "model" / "model.safetensors").read_bytes()).hexdigest()


def trained(folder: Path, seed: int = 0):
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    return model, optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.rand(5, 3)).square().sum().backward()
    optimizer.step()


def test_checkpoint_restores_weights_moments_and_random_state(tmp_path):
    model, optimizer = trained(tmp_path)
    for _ in range(3):
        step(model, optimizer)
    checkpoint.save(tmp_path, 3, model, {"optimizer": optimizer}, {"method": {"baseline": -1.25}})
    for _ in range(2):
        step(model, optimizer)
    other, fresh = trained(tmp_path, seed=9)
    assert checkpoint.load_newest(tmp_path, other, {"optimizer": fresh}) == {"step": 3, "method": {"baseline": -1.25}}
    for _ in range(2):
        step(other, fresh)
    assert torch.equal(other.weight, model.weight) and torch.equal(other.bias, model.bias)


def test_newest_complete_checkpoint_wins(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "KEEP", 3)
    model, optimizer = trained(tmp_path)
    for n in (1, 2, 3):
        step(model, optimizer)
        checkpoint.save(tmp_path, n, model, {"optimizer": optimizer}, {})
    (tmp_path / "step-0000003" / checkpoint.MARKER).unlink()  # died before the marker
    (tmp_path / ".step-0000004.abc").mkdir()  # died before the rename
    assert checkpoint.load_newest(tmp_path, model, {"optimizer": optimizer})["step"] == 2
    assert not (tmp_path / ".step-0000004.abc").exists()
    tensors = tmp_path / "step-0000002" / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:100])  # a full disk, a bad block
    assert checkpoint.load_newest(tmp_path, model, {"optimizer": optimizer})["step"] == 1
    assert (tmp_path / "broken-step-0000002").is_dir()  # nothing is lost


def test_old_checkpoints_are_removed(tmp_path):
    model, optimizer = trained(tmp_path)
    step(model, optimizer)
    for n in range(1, 6):
        checkpoint.save(tmp_path, n, model, {"optimizer": optimizer}, {})
    assert [p.name for p in checkpoint.complete(tmp_path)] == ["step-0000004", "step-0000005"]


RUN = """
import sys
from pathlib import Path
import yaml
from hargo.config import study_from
from hargo.training.job import Places, train
stage, folder, out, checkpoints = sys.argv[1], *map(Path, sys.argv[2:])
study = study_from(yaml.safe_load(open(folder / "study.yaml")), "study.yaml")
train(study, stage, 1, Places(folder / ("base" if stage == "sft" else "sft/model"), folder / "data", out, checkpoints))
"""


def launch(stage: str, start: Path, out: Path) -> subprocess.Popen:
    (start / "study.yaml").write_text(yaml.safe_dump(tiny.study().model_dump(mode="json")))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RUN, stage, str(start), str(out), str(out / "checkpoints")]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def steps_done(out: Path) -> int:
    files = list((out / "checkpoints").glob("*/metrics.jsonl"))
    return files[0].read_text().count("\n") if files else 0


@pytest.mark.parametrize("stage", ["sft", "hargo"])
def test_killed_twice_and_resumed_a_run_ends_in_the_same_bits(start, tmp_path, stage):
    whole = tmp_path / "whole"
    assert launch(stage, start, whole).wait(timeout=300) == 0
    out = tmp_path / "killed"
    total = len(read_jsonl(whole / "metrics.jsonl"))
    for at in (1, total - 2):  # before the first checkpoint and after several
        process = launch(stage, start, out)
        while process.poll() is None and steps_done(out) < at:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL, "finished before it could be killed"
        assert not (out / "model").exists()
    process = launch(stage, start, out)
    assert process.wait(timeout=300) == 0, process.stderr.read()
    assert weights(out) == weights(whole)
    ours, theirs = read_jsonl(out / "metrics.jsonl"), read_jsonl(whole / "metrics.jsonl")
    assert [{k: v for k, v in r.items() if k != "seconds"} for r in ours] == [
        {k: v for k, v in r.items() if k != "seconds"} for r in theirs
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_asked_to_stop_it_writes_a_checkpoint_and_goes_on_from_there(start, tmp_path, number):
    """The step in hand is finished; with checkpoints far apart the one that was asked for is the only one."""
    study = tiny.study(rl={"checkpoint_every": 100, "max_steps": 12})
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))

    def command(out: Path) -> list[str]:
        places = ["--model", start / "sft" / "model", "--data", start / "data", "--out", out]
        options = ["--config", tmp_path / "study.yaml", "--seed", "1", *places, "--checkpoints", out / "checkpoints"]
        return [sys.executable, "-m", "hargo", "train", "hargo", *map(str, options)]

    whole, out = tmp_path / "whole", tmp_path / "stopped"
    subprocess.run(command(whole), check=True, capture_output=True)
    process = subprocess.Popen(command(out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and steps_done(out) < 2:
        time.sleep(0.005)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == os.EX_TEMPFAIL, told
    assert told.splitlines()[-1].startswith("stopped: hargo seed 1:") and number.name in told
    (folder,) = (out / "checkpoints").iterdir()
    (saved,) = checkpoint.complete(folder)
    assert saved.name == f"step-{steps_done(out):07d}" and not (out / "model").exists()
    done = subprocess.run(command(out), check=True, capture_output=True, text=True)
    assert "resuming after step" in done.stderr
    assert weights(out) == weights(whole)


def test_outputs_and_provenance(start):
    record = read_json(start / "sft" / "run.json")
    assert record["seed"] == 0 and record["options"]["batch_size"] == 8
    text = json.dumps(record)
    for name in ("torch", "transformers", "wall_seconds", "device"):
        assert name in text
    lines = read_jsonl(start / "sft" / "metrics.jsonl")
    assert [r["step"] for r in lines] == list(range(1, len(lines) + 1))
    assert not list((start / "checkpoints").rglob("step-*"))  # removed once the model is written
    assert lines[-1]["loss"] < lines[0]["loss"]


def test_other_settings_never_share_checkpoints(start, tmp_path):
    data = start / "data"
    for rate in (1e-3, 2e-3):
        study = tiny.study(sft={"learning_rate": rate, "max_steps": 2})
        train(study, "sft", 0, Places(start / "base", data, tmp_path / f"{rate}", tmp_path / "checkpoints"))
    assert len([p for p in (tmp_path / "checkpoints").iterdir()]) == 2
    assert weights(tmp_path / "0.001") != weights(tmp_path / "0.002")


def test_rl_logs_what_shows_that_gradient_moves(start, tmp_path):
    train(tiny.study(), "hargo", 0, Places(start / "sft" / "model", start / "data", tmp_path, tmp_path / "checkpoints"))
    last = read_jsonl(tmp_path / "metrics.jsonl")[-1]
    for key in (
        "reward/mean",
        "reward/std",
        "reward/race_c/mean",
        "zero_std",
        "kl",
        "clip_share",
        "entropy",
        "length/mean",
        "truncated",
        "grad_norm",
        "learning_rate",
    ):
        assert isinstance(last[key], float), key
    for key in ("dist/advantage", "dist/confidence", "dist/weight"):
        assert len(last[key]) == 7 and last[key] == sorted(last[key])
    assert list((tmp_path / "checkpoints").rglob("events.out.tfevents*"))


def test_no_rows_is_one_line(start, tmp_path):
    shutil.copytree(start / "data", tmp_path / "data")
    (tmp_path / "data" / "train.jsonl").write_text("")
    with pytest.raises(UserError, match="no training rows"):
        train(
            tiny.study(),
            "sft",
            0,
            Places(start / "base", tmp_path / "data", tmp_path / "out", tmp_path / "checkpoints"),
        )
