"""The submitit executor on real daemons."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORKFLOW = """
N = {count}
rule all:
    input: expand("out/{{i}}", i=range(N))
rule one:
    output: "out/{{i}}"
    resources: runtime=1, mem_mb=100
    shell: "{command}"
"""
# works through 280 pieces, more than a minute, and counts its starts; on SIGUSR2 it keeps what is done and stops
RESUMES = """
import pathlib, signal, sys, time
state, starts, out = map(pathlib.Path, sys.argv[1:])
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
asked = []
signal.signal(signal.SIGUSR2, lambda *_: asked.append(1))
done = int(state.read_text()) if state.exists() else 0
while done < 280:
    time.sleep(0.25)
    done += 1
    if asked:
        state.write_text(str(done))
        sys.exit(75)
out.write_text(str(done))
"""


def counted(folder: Path, *names: str) -> Path:
    """A folder for PATH whose programs of these names note every call before they run the real ones."""
    folder.mkdir()
    for name in names:
        real = subprocess.run(["which", name], capture_output=True, text=True).stdout.strip()
        if real:
            path = folder / name
            path.write_text(f'#!/bin/sh\necho {name} >> {folder}/calls\nexec {real} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


def start(cluster, folder: Path, snakefile: str, *options: str) -> subprocess.Popen[str]:
    (folder / "Snakefile").write_text(snakefile)
    tools = counted(folder / "tools", "sbatch", "squeue", "sacct", "scancel")
    command = [sys.executable, "-m", "snakemake", "--executor", "submitit", "--jobs", "100", "--latency-wait", "5"]
    environment = {**os.environ, **cluster.environment, "PATH": f"{tools}:{os.environ['PATH']}"}
    return subprocess.Popen(
        [*command, "--seconds-between-status-checks", "2", *options],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def calls(folder: Path, name: str) -> int:
    return (folder / "tools" / "calls").read_text().split().count(name)


def test_equal_jobs_are_one_array_and_the_one_that_fails_is_reported_as_itself(cluster, tmp_path):
    command = "test {wildcards.i} != 7 && echo {wildcards.i} > {output}"
    told, _ = (run := start(cluster, tmp_path, WORKFLOW.format(count=12, command=command), "-k")).communicate(
        timeout=180
    )
    assert run.returncode == 1, told
    assert {path.name for path in (tmp_path / "out").iterdir()} == {str(i) for i in range(12) if i != 7}, told
    assert calls(tmp_path, "sbatch") == 1 and calls(tmp_path, "sacct") <= calls(tmp_path, "squeue") < 60
    assert told.count("Slurm job") == 1 and "exit status 1" in told and "log: " in told, told


@pytest.mark.slow
def test_a_job_cut_by_its_time_limit_goes_on_where_it_was(cluster, tmp_path):
    """Seventy seconds of work under a limit of one minute, told half a minute before it."""
    (tmp_path / "work.py").write_text(RESUMES)
    workflow = f"""
rule all:
    input: "done"
rule work:
    output: "done"
    resources: runtime=1, mem_mb=100
    shell: "exec {sys.executable} work.py state starts {{output}}"
"""
    options = ["--submitit-signal-delay", "30"]
    run = start(cluster, tmp_path, workflow, *options)
    told, _ = run.communicate(timeout=400)
    assert run.returncode == 0, told
    assert (tmp_path / "done").read_text() == "280"
    assert len((tmp_path / "starts").read_text()) >= 2, told


def test_an_interrupt_leaves_no_job_behind(cluster, tmp_path):
    run = start(cluster, tmp_path, WORKFLOW.format(count=3, command="sleep 100 && touch {output}"))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and cluster.command("squeue", "-h", "-t", "R").count("\n") < 1:
        time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    told, _ = run.communicate(timeout=60)
    assert run.returncode != 0
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and cluster.command("squeue", "-h").strip():
        time.sleep(0.5)
    assert not cluster.command("squeue", "-h").strip(), told
    assert calls(tmp_path, "scancel") == 1


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"slurm_partitoin": "cpu"}, "did you mean 'slurm_partition'"),
        ({"mem_mb": 100, "mem_mb_per_cpu": 50}, "contradict each other"),
        ({"gpu": 1, "gres": "gpu:1"}, "contradict each other"),
        ({"gpu_model": "a100"}, "needs 'gpu'"),
        ({"runtime": "1h"}, "must be a whole number"),
        ({"slurm_extra": "--array=1-3"}, "set by the executor"),
        ({"slurm_extra": "exclusive"}, "write options as --name=value"),
    ],
)
def test_a_resource_that_cannot_be_is_an_error_before_submission(resources, message):
    from snakemake_interface_common.exceptions import WorkflowError

    from snakemake_executor_plugin_submitit.resources import parameters

    with pytest.raises(WorkflowError, match=message):
        parameters(resources, 1, "one")


def test_resources_become_options_under_their_usual_names():
    from snakemake_executor_plugin_submitit.resources import parameters

    found = parameters(
        {"slurm_partition": "gpu", "runtime": 30, "mem_mb": 500, "gpu": 2, "gpu_model": "h100", "disk_mb": 9,
         "slurm_extra": "--exclusive --mail-type=END"}, 4, "one"
    )  # fmt: skip
    assert found["time"] == 30 and found["cpus_per_task"] == 4
    assert found["additional_parameters"] == {
        "partition": "gpu", "mem": "500M", "gres": "gpu:h100:2", "exclusive": True, "mail-type": "END"
    }  # fmt: skip
