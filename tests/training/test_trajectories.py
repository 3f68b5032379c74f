"""The first steps of every path of training, through the command line, beside those of the revision that wrote them.

What drifts between revisions without breaking any equivalence shows here. After a change that is meant to change
numbers, `python tests/training/test_trajectories.py` writes trajectories.json again; say in the commit why.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

KNOWN = Path(__file__).with_name("trajectories.json")
FIGURES = ("loss", "kl", "reward/mean", "grad_norm")
#: between processors and versions of libraries; a wrong denominator, sign or schedule is far beyond it
TOLERANCE = {"rel": 2e-3, "abs": 2e-5}

STUDY: dict[str, Any] = {
    "name": "steps",
    "tasks": ["plp"],  # whose rewards differ from the first step on: Adam would make noise of gradients of nothing
    "data": {"protocol": "given", "embedded": {"plp": 24, "eval_plp": 4}},
    "model": {"scratch": {"vocabulary": 400, "hidden": 32, "layers": 2, "heads": 2, "intermediate": 64}},
    "pretrain": {"steps": 5, "batch_size": 4},
    "sft": {"max_steps": 5, "batch_size": 4, "learning_rate": 2e-3},
    "rl": {
        "max_steps": 5,
        "prompts_per_step": 3,
        "learning_rate": 1e-3,
        "temperature": 1.0,
        "max_new_tokens": {"plp": 5},
    },
    "methods": {
        "hpc_gpt": {"max_steps": 5, "batch_size": 4},
        "grpo": {"kl": "exact"},
        "hargo": {"beta": 0.1},
        "lora": {"method": "hargo", "lora": {"rank": 2}},
        "ppo": {"inner_passes": 2},
        "dapo": None,
        "dpo": {"learning_rate": 1e-3},
    },
    "compute": {"threads": 1, "device": "cpu"},
}
#: commands of one process, which spares importing torch ten times
COMMANDS = """
import shlex, sys
from hargo.cli import app
for line in sys.argv[1:]:
    app([*shlex.split(line), "--config", "study.yaml"], standalone_mode=False)
"""


def trajectories(folder: Path) -> dict[str, list[dict[str, float]]]:
    """Run -> the figures of its steps."""
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY))
    at = Path("results") / STUDY["name"]
    lines = [f"data build --out {at / 'data'}", f"model prepare --data {at / 'data'} --out {at / 'model' / 'base'}"]
    runs = ["pretrain", "sft", *STUDY["methods"]]
    for name in runs:
        lines += [*(["preferences --seed 0"] if name == "dpo" else []), f"train {name} --seed 0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", COMMANDS, *lines]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, shlex.join(command) + done.stdout + done.stderr
    found = {}
    for name in runs:
        steps = (folder / at / "train" / name / "seed0" / "metrics.jsonl").read_text().splitlines()
        found[name] = [{key: step[key] for key in FIGURES if key in step} for step in map(json.loads, steps)]
    return found


def test_the_first_steps_are_those_of_the_committed_trajectories(tmp_path: Path) -> None:
    known, found = json.loads(KNOWN.read_text()), trajectories(tmp_path)
    assert found.keys() == known.keys()
    for name, steps in found.items():
        assert len(steps) == len(known[name]) == 5
        for number, (ours, theirs) in enumerate(zip(steps, known[name], strict=True)):
            assert ours == pytest.approx(theirs, **TOLERANCE), f"{name}, step {number + 1}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps(trajectories(Path(folder)), indent=1)
    KNOWN.write_text(text + "\n")
