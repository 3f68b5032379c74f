"""The demo through profiles/slurm: the same numbers, to the bit, as through profiles/local."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import Cluster
from places import ROOT

SMALL = [
    "name=small",
    "seeds=[0]",
    "methods={grpo: {}, hargo: {}}",
    "data={embedded: {kernels: 60, eval_kernels: 24, mlperf: 60, eval_mlperf: 20, plp: 40, eval_plp: 10}}",
    "pretrain={steps: 20}",
    "sft={max_steps: 20}",
    "rl={max_steps: 4, prompts_per_step: 4}",
]


def demo(folder: Path, profile: str, *options: str, **variables: str) -> Path:
    """Where the study's results are after a run."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)]
    study = ["--configfile", str(ROOT / "config/demo.yaml"), "--config", *SMALL]
    done = subprocess.run(
        [*command, "--profile", str(ROOT / "profiles" / profile), *options, *study],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return folder / "results/small"


def digests(results: Path) -> dict[str, str]:
    """Of every model and every table."""
    found = [*results.rglob("*.safetensors"), *results.rglob("*.csv"), *results.rglob("predictions.jsonl")]
    return {str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


@pytest.mark.slow
def test_the_demo_on_the_cluster_has_the_numbers_of_the_demo_here(cluster: Cluster, tmp_path: Path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    local = demo(here, "local")
    slurm = demo(there, "slurm", "--submitit-poll", "2", "--latency-wait", "10", **cluster.environment)
    assert digests(local) == digests(slurm)
    assert len(digests(local)) >= 12
    # the report of the one that ran on a cluster says what its jobs cost
    assert "Cluster jobs" in (slurm / "report/report.md").read_text()
    assert "Cluster jobs" not in (local / "report/report.md").read_text()
