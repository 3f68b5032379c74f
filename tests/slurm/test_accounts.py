"""What jobs cost, scripts for an administrator, and a profile for this cluster."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cluster import Cluster
from places import ROOT
from runs import Run

from snakemake_executor_plugin_submitit import accounts

WORKFLOW = """
rule all:
    input: "results/demo/busy", "results/demo/idle", "elsewhere"
rule busy:
    output: "results/demo/busy"
    resources: runtime=2, mem_mb=500, gpu=1, slurm_partition="gpu"
    shell: "timeout 6 yes > /dev/null || touch {output}"
rule idle:
    output: "results/demo/idle"
    threads: 2
    resources: runtime=2, mem_mb=300
    shell: "sleep 6; touch {output}"
rule elsewhere:
    output: "elsewhere"
    resources: runtime=2, mem_mb=300
    shell: "touch {output}"
"""


def hargo(
    cluster: Cluster, folder: Path, *arguments: str, home: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **cluster.environment, "XDG_CONFIG_HOME": str(home or folder / "home")}
    command = [sys.executable, "-m", "hargo", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("kind", ["cluster", "accounting_cluster"])
def test_jobs_and_their_cost_with_and_without_accounting(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
):
    cluster = request.getfixturevalue(kind)
    run = Run(cluster, tmp_path, WORKFLOW)
    assert run.wait() == 0, run.told
    done = hargo(cluster, tmp_path, "slurm", "report", "--config", str(ROOT / "config/demo.yaml"), "--csv")
    assert done.returncode == 0, done.stderr
    rows = {row["Rule"]: row for row in csv.DictReader(done.stdout.splitlines())}
    assert set(rows) == {"busy", "idle"}  # the other job is not the study's
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    found = {job.rule: job for job in accounts.jobs(tmp_path / ".snakemake/submitit")}
    assert {job.source for job in found.values()} == {"sacct" if kind == "accounting_cluster" else "job"}
    busy, idle = found["busy"], found["idle"]
    assert busy.state == idle.state == "COMPLETED" and busy.requeues == 0 and busy.gpus == 1 and idle.gpus == 0
    assert busy.elapsed and 6 <= busy.elapsed < 60 and busy.wait is not None and busy.wait < 30
    assert busy.cpu_efficiency and idle.cpu_efficiency and busy.cpu_efficiency > 2 * idle.cpu_efficiency
    assert busy.memory_efficiency and 0.02 < busy.memory_efficiency <= 1
    assert busy.gpu_hours == pytest.approx(busy.elapsed / 3600)
    table = hargo(cluster, tmp_path, "slurm", "report", "--config", str(ROOT / "config/demo.yaml"), "--jobs")
    assert "results/demo/busy" in table.stdout and "COMPLETED" in table.stdout


def test_without_jobs_the_report_says_where_to_look(cluster: Cluster, tmp_path: Path):
    done = hargo(cluster, tmp_path, "slurm", "report", "--config", str(ROOT / "config/demo.yaml"))
    assert done.returncode == 2 and "run this where the study was submitted from" in done.stderr


def test_the_script_of_a_rule_is_shown_as_it_would_be_submitted(cluster: Cluster):
    done = hargo(cluster, ROOT, "slurm", "script", "train", "--config", "nowhere.yaml")
    assert done.returncode == 2 and "nowhere.yaml" in done.stderr
    done = hargo(cluster, ROOT, "slurm", "script", "train")
    assert done.returncode == 0, done.stderr
    for line in ("--array=0-10%11", "--signal=USR2@60", "--mem=3000M", "--time=30"):
        assert f"#SBATCH {line}\n" in done.stdout
    assert done.stdout.count("--target-jobs 'train:run=") == 11 and "--gres" not in done.stdout  # its device is `cpu`


def test_a_profile_is_written_for_this_cluster(cluster: Cluster, tmp_path: Path):
    path = tmp_path / "home/snakemake/slurm/config.yaml"
    done = hargo(cluster, tmp_path, "profile", "install", "slurm")
    assert done.returncode == 0 and "partition cpu (of cpu, gpu, preempt, urgent)" in done.stdout, done.stderr
    assert yaml.safe_load(path.read_text())["default-resources"]["slurm_partition"] == "cpu"
    done = hargo(cluster, tmp_path, "profile", "install", "slurm", "--gpu", "h100")
    assert done.returncode == 2 and "has GPUs without types" in done.stderr
    given = ("--partition", "gpu", "--account", "physics")
    done = hargo(cluster, tmp_path, "profile", "install", "slurm", *given)
    assert done.returncode == 2 and "--force replaces it" in done.stderr
    assert hargo(cluster, tmp_path, "profile", "install", "slurm", *given, "--force").returncode == 0
    found = yaml.safe_load(path.read_text())
    template = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())
    site = {"slurm_partition": "gpu", "slurm_account": "physics"}
    assert found == template | {"default-resources": template["default-resources"] | site}
    assert path.read_text().count("\n# ") == (ROOT / "profiles/slurm/config.yaml").read_text().count("\n# ")
    done = hargo(cluster, tmp_path, "profile", "install", "slurm", "--partition", "nope")
    assert done.returncode == 2 and "this cluster has cpu, gpu, preempt, urgent" in done.stderr
    assert hargo(cluster, tmp_path, "profile", "install", "slurm", "--gpu", "none", "--force").returncode == 0
    assert yaml.safe_load(path.read_text())["default-resources"]["gpu"] == 0
    script = hargo(cluster, ROOT, "slurm", "script", "train", home=tmp_path / "home")
    assert "#SBATCH --partition=cpu\n" in script.stdout, script.stderr
    # Snakemake finds it by name
    run = subprocess.run(
        [sys.executable, "-m", "snakemake", "--profile", "slurm", "--snakefile", str(ROOT / "Snakefile"), "-n", "-q"],
        cwd=tmp_path,
        env={**os.environ, **cluster.environment, "XDG_CONFIG_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
