"""What clusters do to a run: daemons that die, submissions that fail half-way, a Snakemake that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import Cluster
from runs import Run, eventually

SLEEPERS = """
rule all:
    input: expand("out/{i}", i=range(3))
rule sleeper:
    output: "out/{i}"
    params: {params}
    resources: runtime=3, mem_mb=300
    shell: "echo x >> starts{wildcards.i}; sleep {seconds}; echo {wildcards.i} > {output}"
"""
# works through pieces and counts its starts; when asked to stop it keeps what is done
RESUMES = """
import pathlib, signal, sys, time
state, starts, out = map(pathlib.Path, sys.argv[1:4])
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
asked = []
for number in (signal.SIGUSR2, signal.SIGTERM):
    signal.signal(number, lambda *_: asked.append(1))
done = int(state.read_text()) if state.exists() else 0
while done < int(sys.argv[4]):
    time.sleep(0.25)
    done += 1
    if asked:
        state.write_text(str(done))
        sys.exit(75)
out.write_text(str(done))
"""


def sleepers(seconds: int, params: int = 1) -> str:
    return SLEEPERS.replace("{seconds}", str(seconds)).replace("{params}", str(params))


def running(cluster: Cluster) -> int:
    return (
        len(cluster.command("squeue", "-h", "-t", "R").split("\n")) if cluster.command("squeue", "-h", "-t", "R") else 0
    )


def starts(folder: Path) -> list[int]:
    return [len((folder / f"starts{i}").read_text().split()) for i in range(3)]


def resumes(folder: Path, pieces: int, minutes: int) -> str:
    """A workflow of one job that goes on where it was stopped."""
    (folder / "work.py").write_text(RESUMES)
    return f"""
rule work:
    output: "done"
    resources: runtime={minutes}, mem_mb=300
    shell: "exec {sys.executable} work.py state starts {{output}} {pieces}"
"""


def test_a_killed_snakemake_is_followed_by_one_that_takes_its_jobs_over(cluster: Cluster, tmp_path: Path):
    """Job 0 is done and job 1 and 2 run when the second one starts; none runs twice."""
    workflow = sleepers(12).replace("sleep 12", "test {wildcards.i} = 0 || sleep 15")
    run = Run(cluster, tmp_path, workflow, "--submitit-poll", "60")  # it never sees that job 0 is done
    eventually(lambda: (tmp_path / "out/0").exists() and (tmp_path / "starts2").exists())
    run.process.kill()
    run.wait()
    subprocess.run([sys.executable, "-m", "snakemake", "--unlock", "--quiet", "all"], cwd=tmp_path, check=True)
    time.sleep(1)
    run = Run(cluster, tmp_path, None, "--rerun-incomplete")
    assert run.wait() == 0, run.told
    # what is done was noted by its own job
    assert run.told.count("of an earlier Snakemake already does this") == 2 and run.calls("sbatch") == 0, run.told
    assert starts(tmp_path) == [1, 1, 1]


def test_jobs_left_behind_that_do_something_else_are_cancelled(cluster: Cluster, tmp_path: Path):
    run = Run(cluster, tmp_path, sleepers(120, params=1))
    eventually(lambda: running(cluster) == 3)
    run.process.kill()
    run.wait()
    subprocess.run([sys.executable, "-m", "snakemake", "--unlock", "--quiet", "all"], cwd=tmp_path, check=True)
    run = Run(cluster, tmp_path, sleepers(1, params=2), "--rerun-incomplete")
    assert run.wait() == 0, run.told
    assert run.calls("sbatch") == 1 and run.told.count("which does something different") == 3, run.told
    eventually(lambda: not cluster.command("squeue", "-h"), 30)


def test_the_controller_dies_and_comes_back_during_a_run(cluster: Cluster, tmp_path: Path):
    run = Run(cluster, tmp_path, sleepers(20))
    eventually(lambda: running(cluster) == 3)
    time.sleep(6)  # the controller saves its state every five seconds
    cluster.kill_controller()
    eventually(lambda: "Slurm does not answer" in run.told, 90)
    cluster.start_controller()
    assert run.wait() == 0, run.told
    assert starts(tmp_path) == [1, 1, 1]


def test_a_controller_that_is_away_when_jobs_are_submitted_is_waited_for(cluster: Cluster, tmp_path: Path):
    cluster.kill_controller()
    run = Run(cluster, tmp_path, sleepers(1))
    eventually(lambda: run.calls("scancel") > 0, 90)  # after the first refusal, for what may have gone through
    cluster.start_controller()
    assert run.wait() == 0, run.told
    assert starts(tmp_path) == [1, 1, 1]


def test_a_submission_that_went_through_but_was_not_confirmed_runs_once(cluster: Cluster, tmp_path: Path):
    """The first sbatch hands the jobs to Slurm and then says that the controller cannot be reached."""
    lost = '/usr/bin/sbatch "$@" >/dev/null; echo "sbatch: error: Unable to contact slurm controller" >&2; exit 1'
    run = Run(cluster, tmp_path, sleepers(1), first={"sbatch": lost})
    assert run.wait() == 0, run.told
    assert run.calls("sbatch") == 2 and starts(tmp_path) == [1, 1, 1]


def test_a_node_that_dies_is_no_failure_of_its_jobs(cluster: Cluster, tmp_path: Path):
    run = Run(cluster, tmp_path, sleepers(10))
    eventually(lambda: all((tmp_path / f"starts{i}").exists() for i in range(3)))
    (node,) = set(cluster.command("squeue", "-h", "-t", "R", "-o", "%N").split())
    cluster.kill_node(int(node[-1]))
    # what the controller does by itself after SlurmdTimeout
    cluster.command("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    try:
        assert run.wait() == 0, run.told
    finally:
        cluster.start_node(int(node[-1]))
        cluster.command("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert starts(tmp_path) == [2, 2, 2] and run.calls("sbatch") == 1


def test_a_cancelled_job_is_reported_although_there_is_no_accounting(cluster: Cluster, tmp_path: Path):
    run = Run(cluster, tmp_path, sleepers(100), "-k", without=("sacct",))
    eventually(lambda: running(cluster) == 3)
    cluster.command("scancel", "--state=RUNNING")
    assert run.wait(60) == 1
    assert run.told.count("state CANCELLED") == 3, run.told


def test_a_job_that_nobody_knows_any_more_is_reported_after_the_deadline(cluster: Cluster, tmp_path: Path):
    """squeue, sacct and scontrol are asked in turn, one a poll; none of them knows the job."""
    workflow = sleepers(300)
    run = Run(cluster, tmp_path, workflow, "-k", "--submitit-deadline", "12", without=("sacct",))
    eventually(lambda: running(cluster) == 3)
    for name in ("squeue", "scontrol"):
        forgets = f"#!/bin/bash\necho {name} >> {run.tools}/calls\necho 'error: Invalid job id specified' >&2\nexit 1\n"
        (run.tools / name).write_text(forgets)
    began = time.monotonic()
    assert run.wait(90) == 1
    assert time.monotonic() - began > 11
    assert run.told.count("unknown to queue and accounting") == 3, run.told
    assert run.calls("sacct") >= 1 and run.calls("scontrol") >= 1
    cluster.command("scancel", "--state=RUNNING")
    eventually(lambda: not cluster.command("squeue", "-h"), 30)


def test_a_preemption_told_by_sigterm_is_a_checkpoint_too(cluster: Cluster, tmp_path: Path):
    """Sites without preempt_send_user_signal announce a preemption with SIGTERM to every process."""
    run = Run(cluster, tmp_path, resumes(tmp_path, pieces=60, minutes=10))
    eventually(lambda: (tmp_path / "starts").exists())
    time.sleep(3)
    cluster.command("scancel", "--signal=TERM", cluster.command("squeue", "-h", "-t", "R", "-o", "%i"))
    assert run.wait() == 0, run.told
    assert (tmp_path / "done").read_text() == "60" and (tmp_path / "starts").read_text() == "xx", run.told
    assert 0 < int((tmp_path / "state").read_text()) < 60


@pytest.mark.slow
def test_a_job_cut_by_its_time_limit_goes_on_where_it_was(cluster: Cluster, tmp_path: Path):
    """Seventy seconds of work under a limit of one minute, told half a minute before it."""
    run = Run(cluster, tmp_path, resumes(tmp_path, pieces=280, minutes=1), "--submitit-signal-delay", "30")
    assert run.wait(400) == 0, run.told
    assert (tmp_path / "done").read_text() == "280"
    assert len((tmp_path / "starts").read_text()) >= 2, run.told


def test_an_interrupt_in_the_middle_of_a_submission_leaves_no_job_behind(cluster: Cluster, tmp_path: Path):
    slow = '/usr/bin/sbatch "$@" > /dev/null; exec sleep 60'  # the jobs are there, their ids are not told
    run = Run(cluster, tmp_path, sleepers(100), first={"sbatch": slow})
    eventually(lambda: running(cluster) == 3)
    run.process.send_signal(signal.SIGINT)
    assert run.wait(60) != 0
    eventually(lambda: not cluster.command("squeue", "-h"), 30)


def test_jobs_are_cancelled_once_the_controller_answers(cluster: Cluster, tmp_path: Path):
    lost = 'echo "scancel: error: Unable to contact slurm controller (connect failure)" >&2; exit 1'
    run = Run(cluster, tmp_path, sleepers(100), first={"scancel": lost})
    eventually(lambda: running(cluster) == 3)
    run.process.send_signal(signal.SIGINT)
    assert run.wait(60) != 0
    eventually(lambda: not cluster.command("squeue", "-h"), 30)
    assert run.calls("scancel") == 2
