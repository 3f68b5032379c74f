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
from contextlib import suppress
from pathlib import Path
from typing import Any

#: most memory in use at a time, in MiB
_MEMORY = [0.0]
#: process -> its status, of those that ended after a signal
_STATUS: dict[int, int] = {}


class JobFailed(Exception):
    """The command ended with a status other than 0."""


class Task:
    """A command that submitit can call, stop and put back into the queue.

    grace: seconds that the command has to write its checkpoint after the signal
    done: the command has ended well, though only after the signal; there is nothing left to do
    """

    def __init__(self, command: str, grace: float, done: bool = False) -> None:
        self.command, self.grace, self.done = command, grace, done
        self.process: subprocess.Popen[bytes] | None = None
        self.terminated = False

    def __call__(self) -> int:
        if self.done:
            return 0
        _record(event="start", time=time.time(), node=os.environ.get("SLURMD_NODENAME", socket.gethostname()))
        on_slurm = os.environ.get("SUBMITIT_EXECUTOR") == "slurm"
        if on_slurm:
            signal.signal(signal.SIGTERM, self._note)
        # Slurm signals every process of the job: the shells around the work must not die of it
        self.process = subprocess.Popen(["bash", "-c", self.command], start_new_session=True, preexec_fn=_ignore)
        try:
            status = self._wait(self.process)
            if self.terminated and status != 0:
                _group_ends(self.process.pid, self.grace)
        except BaseException:
            if self.process is not None:  # interrupted, but not for a checkpoint
                for number in (signal.SIGTERM, signal.SIGKILL):
                    with suppress(ProcessLookupError):
                        os.killpg(self.process.pid, number)
                    if _group_ends(self.process.pid, 5):
                        break
            raise
        if status != 0 and self.terminated and on_slurm and _still_ours():
            # a preemption that Slurm announced with SIGTERM instead of submitit's signal
            signal.raise_signal(signal.SIGUSR2)
        self.process = None
        _record(event="end", how="done" if status == 0 else "failed", status=status, **_used())
        if status != 0:
            raise JobFailed(f"exit status {status}")
        return status

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """The command's status; meanwhile looks every second at the memory of all that it runs."""
        while True:
            try:
                return process.wait(1)
            except subprocess.TimeoutExpired:
                _MEMORY[0] = max(_MEMORY[0], _resident(process.pid))

    def checkpoint(self) -> Any:
        """Called by submitit on its signal: pass it on, wait for the checkpoint, go back into the queue."""
        from submitit.helpers import DelayedSubmission

        process, self.process = self.process, None
        # again and again: a program that is still starting takes no notice of the first
        if process is not None and not _group_ends(process.pid, self.grace, signal.SIGUSR2):
            os.killpg(process.pid, signal.SIGKILL)
            _group_ends(process.pid, 5)
        done = process is not None and _STATUS.get(process.pid) == 0
        _record(event="end", how="done" if done else "requeued", **_used())
        return DelayedSubmission(Task(self.command, self.grace, done))

    def _note(self, *_: object) -> None:
        self.terminated = True


def _group_ends(group: int, seconds: float, told: signal.Signals | None = None) -> bool:
    """Whether a process of ours and all that it started end within a time, told to every second by a signal.

    The shell may die of a signal before the work below it has written its checkpoint. Popen.wait() is no help: the
    signal's handler, which calls this, has interrupted it while it holds its lock.
    """
    began, sent = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        with suppress(ChildProcessError):
            ended, status = os.waitpid(group, os.WNOHANG)
            if ended:
                _STATUS[group] = status
        now = told if told is not None and passed >= sent else 0
        sent += bool(now)
        try:
            os.killpg(group, now)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


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
    """CPU seconds of all processes that this one has waited for; the most memory that was in use at a time, in MiB."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "time": time.time(),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        # the largest process where the job was too short for a look
        "max_rss_mb": round(max(_MEMORY[0], used.ru_maxrss / 1024), 1),
    }


def _resident(session: int) -> float:
    """Memory of this process and of all in a session, in MiB, counted as Slurm does: shared pages once a process."""
    pages = 0
    for path in [Path("/proc/self/stat"), *Path("/proc").glob("[0-9]*/stat")]:
        with suppress(OSError, ValueError):
            fields = path.read_text().rpartition(")")[2].split()
            if path.parent.name == "self" or int(fields[3]) == session:
                pages += int(fields[21])
    return pages * resource.getpagesize() / 2**20


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
