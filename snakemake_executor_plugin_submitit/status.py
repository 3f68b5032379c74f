"""What became of submitted jobs: the result file, then the queue, then the accounting. One call each per poll."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: states in which a job is running or will run again
ALIVE = {
    "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING",
    "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "PREEMPTED", "RESV_DEL_HOLD",
}  # fmt: skip
TIMEOUT = 30


@dataclass(frozen=True)
class State:
    """name: Slurm's, in capitals; reason: why, where Slurm says; exit: its exit code, where known."""

    name: str
    reason: str = ""
    exit: str = ""

    @property
    def alive(self) -> bool:
        return self.name in ALIVE


class Busy(Exception):
    """The controller does not answer; nothing is known about any job."""


def result(path: Path) -> tuple[str, object] | None:
    """("success" | "error", value) that the job left, None if it left nothing or nothing whole."""
    try:
        # written by our own job into our own folder
        outcome, value = pickle.loads(path.read_bytes())
    except (FileNotFoundError, EOFError, pickle.UnpicklingError, ValueError):
        return None
    return outcome, value


def main_ids(jobs: Iterable[str]) -> list[str]:
    """Job ids without the index in their array, each once."""
    return list(dict.fromkeys(job.partition("_")[0] for job in jobs))


def queue(jobs: Iterable[str]) -> dict[str, State]:
    """Jobs that the controller still knows: one squeue for all of them. Raises Busy."""
    command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r"]
    done = _call([*command, f"--jobs={','.join(main_ids(jobs))}"])
    if done.returncode != 0 and "invalid job id" in done.stderr.lower():
        return {}
    if done.returncode != 0:
        raise Busy(done.stderr.strip())
    found = {}
    for line in done.stdout.splitlines():
        job, name, reason = line.split("|", 2)
        found[job] = State(name, "" if reason == "None" else reason)
    return found


def accounting(jobs: Iterable[str]) -> dict[str, State]:
    """Jobs that the accounting knows: one sacct for all of them; empty where there is no accounting."""
    done = _call(["sacct", "--noheader", "--parsable2", "--allocations", "--format=JobID,State,ExitCode,Reason",
                  f"--jobs={','.join(main_ids(jobs))}"])  # fmt: skip
    if done.returncode != 0:
        return {}
    found = {}
    for line in done.stdout.splitlines():
        job, name, code, reason = line.split("|", 3)
        # `CANCELLED by 1000`
        found[job] = State(name.split()[0] if name else "UNKNOWN", "" if reason == "None" else reason, code)
    return found


def cancel(jobs: Iterable[str]) -> None:
    """One scancel for all."""
    ids = main_ids(jobs)
    if ids:
        _call(["scancel", "--quiet", *ids])


def cancel_named(name: str) -> None:
    """Cancel what runs under a job name, if anything does."""
    _call(["scancel", "--quiet", f"--name={name}"])


def _call(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Busy(f"{command[0]} did not answer within {TIMEOUT} s") from None
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: not found")
