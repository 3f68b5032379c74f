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
from places import ROOT
from runs import STARTED, eventually

STUDY = [
    "name=cut",
    "seeds=[0]",
    "methods={hargo: {}}",
    "data={embedded: {kernels: 60, eval_kernels: 24, mlperf: 60, eval_mlperf: 20, plp: 40, eval_plp: 10}}",
    "pretrain={steps: 20, checkpoint_every: 1000}",
    "sft={max_steps: 450, epochs: 100, checkpoint_every: 1000}",
    "rl={max_steps: 110, epochs: 100, checkpoint_every: 1000}",
]
MODELS = ("results/cut/train/sft/seed0", "results/cut/train/hargo/seed0")


def snakemake(folder: Path, *options: str, **variables: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)]
    study = ["--configfile", str(ROOT / "config/demo.yaml"), "--config", *STUDY]
    with (folder / "told").open("a") as log:
        process = subprocess.Popen(
            [*command, *options, *study, "--", *(f"{path}/model" for path in MODELS)],
            env={**os.environ, **variables},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    STARTED.append(process)
    return process


def steps(folder: Path, path: str) -> int:
    """Steps so far of a training run, from its checkpoints folder or, at the end, its outputs."""
    name = path.removeprefix("results/cut/").removeprefix("train/").replace("/", "-")
    found = [
        *(folder / "results/cut/checkpoints").glob(f"{name}/*/metrics.jsonl"),
        folder / path / "metrics.jsonl",
    ]
    return max(len(file.read_text().splitlines()) if file.exists() else 0 for file in found)


def weights(folder: Path) -> str:
    return hashlib.sha256((folder / "model/model.safetensors").read_bytes()).hexdigest()


def job_of(cluster: Cluster, folder: Path, rule: str, path: str) -> tuple[str, str]:
    """Id and node of the rule's job, once it runs and is two steps further than now."""
    before = steps(folder, path)

    def running() -> list[list[str]]:
        shown = cluster.command("squeue", "-h", "-t", "R", "-o", "%A|%N|%j").splitlines()
        return [line.split("|") for line in shown if f"|{rule}-" in line]

    eventually(lambda: steps(folder, path) >= before + 2 and running(), 400)
    number, node, _ = running()[0]
    return number, node


def stopped(cluster: Cluster, number: str) -> None:
    eventually(lambda: cluster.command("squeue", "-h", "-j", number, "-o", "%T") == "PENDING", 90)


@pytest.mark.slow
def test_sft_and_hargo_preempted_twice_and_cut_by_the_limit_end_in_the_same_weights(cluster: Cluster, tmp_path: Path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir(), cut.mkdir()
    undisturbed = snakemake(whole, "--profile", str(ROOT / "profiles/local"), "--cores", "1")
    disturbed = snakemake(
        cut,
        *("--profile", str(ROOT / "profiles/slurm"), "--latency-wait", "10", "--submitit-poll", "2"),
        *("--default-resources", "slurm_partition=preempt", "mem_mb=3000", "runtime=10"),
        *("--set-resources", "train:runtime=20"),
        **cluster.environment,
    )
    for path in MODELS:
        for _ in range(2):
            number, node = job_of(cluster, cut, "train", path)
            cluster.command("sbatch", "-p", "urgent", "--exclusive", "-w", node, "-o", "/dev/null", "--wrap", "sleep 1")
            stopped(cluster, number)
        number, _ = job_of(cluster, cut, "train", path)
        cluster.command("scontrol", "update", f"JobId={number}", "TimeLimit=1")
        stopped(cluster, number)
        cluster.command("scontrol", "update", f"JobId={number}", "TimeLimit=20")
    assert disturbed.wait(600) == 0, (cut / "told").read_text()
    assert undisturbed.wait(600) == 0, (whole / "told").read_text()
    for path in MODELS:
        assert weights(cut / path) == weights(whole / path)
    # three times requeued, and a checkpoint each time: no slice was lost
    for path in MODELS:
        log = (cut / "results/cut/logs" / f"{path.removeprefix('results/cut/').replace('/', '-')}.log").read_text()
        assert log.count("resuming after step") == 1, log  # the log is of the last slice
    records = [path.read_text() for path in (cut / ".snakemake/submitit").glob("*/*_runs.jsonl")]
    ends = [[json.loads(line)["how"] for line in text.splitlines() if '"end"' in line] for text in records]
    assert [some for some in ends if len(some) > 1] == 2 * [["requeued"] * 3 + ["done"]], ends
