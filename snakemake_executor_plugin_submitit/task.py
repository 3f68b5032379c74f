"""What runs on the compute node: one shell command, told when the job is about to be taken away."""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any


class JobFailed(Exception):
    """The command ended with a status other than 0."""


class Task:
    """A command that submitit can call, stop and put back into the queue.

    grace: seconds that the command has to write its checkpoint after the signal
    """

    def __init__(self, command: str, grace: float) -> None:
        self.command, self.grace = command, grace
        self.process: subprocess.Popen[bytes] | None = None
        self.terminated = False

    def __call__(self) -> int:
        started = time.time()
        _record(event="start", time=started, node=os.environ.get("SLURMD_NODENAME", socket.gethostname()))
        on_slurm = os.environ.get("SUBMITIT_EXECUTOR") == "slurm"
        if on_slurm:
            signal.signal(signal.SIGTERM, self._note)
        # Slurm signals every process of the job: the shells around the work must not die of it
        self.process = subprocess.Popen(["bash", "-c", self.command], start_new_session=True, preexec_fn=_ignore)
        try:
            status = self.process.wait()
            if self.terminated and status != 0:
                self._wait_for_group(self.process.pid)
        except BaseException:
            if self.process is not None:  # interrupted, but not for a checkpoint
                self._kill(self.process)
            raise
        if status != 0 and self.terminated and on_slurm and _still_ours():
            # a preemption that Slurm announced with SIGTERM instead of submitit's signal
            signal.raise_signal(signal.SIGUSR2)
        self.process = None
        _record(event="end", how="done" if status == 0 else "failed", status=status, **_used())
        if status != 0:
            raise JobFailed(f"exit status {status}")
        return status

    def checkpoint(self) -> Any:
        """Called by submitit on its signal: pass it on, wait for the checkpoint, go back into the queue."""
        from submitit.helpers import DelayedSubmission

        process, self.process = self.process, None
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGUSR2)
            try:
                process.wait(self.grace)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        _record(event="end", how="requeued", **_used())
        return DelayedSubmission(Task(self.command, self.grace))

    def _note(self, *_: object) -> None:
        self.terminated = True

    def _wait_for_group(self, group: int) -> None:
        """The shell may die of a signal before the work below it has written its checkpoint."""
        deadline = time.monotonic() + self.grace
        while time.monotonic() < deadline:
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, number)
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    continue


def result(path: Path) -> tuple[str, object] | None:
    """("success" | "error", value) that the job left, None if it left nothing or nothing whole."""
    try:
        # written by our own job into our own folder
        outcome, value = pickle.loads(path.read_bytes())
    except (FileNotFoundError, EOFError, pickle.UnpicklingError, ValueError):
        return None
    return outcome, value


def _ignore() -> None:
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def _still_ours() -> bool:
    """Whether this job runs on as far as Slurm is concerned: false once it is being cancelled."""
    command = ["squeue", "--noheader", "--format=%T", f"--jobs={os.environ.get('SLURM_JOB_ID', '')}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == "RUNNING"


def _used() -> dict[str, float]:
    """Of all processes that this one has waited for: CPU seconds, and the memory of the largest in MiB."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "time": time.time(),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "max_rss_mb": round(used.ru_maxrss / 1024, 1),
    }


def _record(**event: Any) -> None:
    """Add a line to the job's own record, which serves where the cluster keeps no accounts."""
    from submitit import JobEnvironment

    if "SUBMITIT_FOLDER" not in os.environ:  # not inside a job
        return
    environment = JobEnvironment()
    folder, job = Path(environment.paths.folder), environment.job_id
    if event["event"] == "start":
        # submitit refuses to write over what a job left that was killed while it wrote
        for left in folder.glob(f"{job}_*.save_tmp"):
            left.unlink(missing_ok=True)
    with (folder / f"{job}_runs.jsonl").open("a") as file:
        file.write(json.dumps(event) + "\n")
