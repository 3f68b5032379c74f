"""Training that a cluster takes away: preempted twice, cut by its time limit, and none the worse for it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import Cluster
from conftest import ROOT
from runs import eventually

STUDY = [
    "name=cut",
    "seeds=[0]",
    "methods={hargo: {}}",
    "data={embedded: {kernels: 60, eval_kernels: 24, mlperf: 60, eval_mlperf: 20, plp: 40, eval_plp: 10}}",
    "pretrain={steps: 20, checkpoint_every: 1000}",
    "sft={max_steps: 240, epochs: 100, checkpoint_every: 1000}",
    "rl={max_steps: 40, epochs: 100, checkpoint_every: 1000}",
]
MODELS = {"sft": "results/cut/sft/seed0", "train": "results/cut/train/hargo/seed0"}


def snakemake(folder: Path, *options: str, **variables: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)]
    study = ["--configfile", str(ROOT / "config/demo.yaml"), "--config", *STUDY]
    with (folder / "told").open("a") as log:
        return subprocess.Popen(
            [*command, *options, *study, "--", *(f"{path}/model" for path in MODELS.values())],
            env={**os.environ, **variables},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def steps(folder: Path, path: str) -> int:
    """Steps so far of a training run, from its checkpoints folder or, at the end, its outputs."""
    name = path.removeprefix("results/cut/").removeprefix("train/").replace("/", "-")
    found = [*(folder / "results/cut/checkpoints").glob(f"{name}/*/metrics.jsonl"), folder / path / "metrics.jsonl"]
    return max(len(file.read_text().splitlines()) if file.exists() else 0 for file in found)


def weights(folder: Path) -> str:
    return hashlib.sha256((folder / "model/model.safetensors").read_bytes()).hexdigest()


def preempt(cluster: Cluster, rule: str) -> None:
    """Work of higher priority takes the node of the rule's job; returns when that job has stopped."""
    shown = cluster.command("squeue", "-h", "-t", "R", "-o", "%N|%A|%j").splitlines()
    (node, job, _) = next(line.split("|") for line in shown if line.split("|")[2].startswith(f"{rule}-"))
    cluster.command("sbatch", "-p", "urgent", "--exclusive", "-w", node, "-o", "/dev/null", "--wrap", "sleep 1")
    eventually(lambda: cluster.command("squeue", "-h", "-j", job, "-o", "%T") != "RUNNING", 60)


@pytest.mark.slow
def test_sft_and_hargo_preempted_twice_and_cut_by_the_limit_end_in_the_same_weights(cluster: Cluster, tmp_path: Path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir(), cut.mkdir()
    undisturbed = snakemake(whole, "--profile", str(ROOT / "profiles/local"), "--cores", "1")
    # a limit of one minute, announced 45 seconds before, cuts whatever takes longer than 15 to 45 seconds
    disturbed = snakemake(
        cut,
        *("--profile", str(ROOT / "profiles/slurm"), "--latency-wait", "10", "--submitit-poll", "2"),
        *("--default-resources", "slurm_partition=preempt", "mem_mb=3000", "runtime=10"),
        *("--set-resources", "sft:runtime=1", "train:runtime=1", "--submitit-signal-delay", "45"),
        **cluster.environment,
    )
    for rule, path in MODELS.items():
        for at in (3, 8):
            eventually(lambda path=path, at=at: steps(cut, path) >= at, 400)
            preempt(cluster, rule)
    assert disturbed.wait(600) == 0, (cut / "told").read_text()
    assert undisturbed.wait(600) == 0, (whole / "told").read_text()
    for path in MODELS.values():
        assert weights(cut / path) == weights(whole / path)
    ends = [
        [json.loads(line).get("how") for line in path.read_text().splitlines() if '"end"' in line]
        for path in sorted(
            (cut / ".snakemake/submitit").glob("*/*/*_runs.jsonl"), key=lambda path: path.stat().st_mtime
        )
    ]
    long = [some for some in ends if some.count("requeued") >= 3]
    assert len(long) == 2 and all(some[-1] == "done" for some in long), ends
