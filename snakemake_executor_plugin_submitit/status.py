"""What Slurm knows of jobs, and cancelling them: one call for all jobs, whatever their number."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

#: states in which a job is running or will run again
ALIVE = {
    "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING",
    "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD",
}  # fmt: skip
#: states from which Slurm puts a job back into the queue by itself, where requeueing is on
PASSING = {"PREEMPTED", "NODE_FAIL", "BOOT_FAIL"}
TIMEOUT = 30
_COLUMNS = {"JobArrayID": 40, "State": 20, "exit_code": 12, "NodeList": 60, "Reason": 80}


@dataclass(frozen=True)
class State:
    """name: Slurm's, in capitals; reason: why, where Slurm says; exit: `code:signal`; node: where it ran."""

    name: str
    reason: str = ""
    exit: str = ""
    node: str = ""

    @property
    def alive(self) -> bool:
        return self.name in ALIVE

    def __str__(self) -> str:
        said = {"reason": self.reason, "exit code": self.exit, "node": self.node}
        return ", ".join([f"state {self.name}", *(f"{name} {value}" for name, value in said.items() if value)])


class Busy(Exception):
    """The program does not answer; nothing is known about any job."""


def main_ids(jobs: Iterable[str]) -> list[str]:
    """Job ids without the index in their array, each once."""
    return list(dict.fromkeys(job.partition("_")[0] for job in jobs))


def queue(jobs: Iterable[str]) -> dict[str, State]:
    """Jobs that the controller still knows: one squeue for all of them. Raises Busy."""
    columns = ",".join(f"{name}:{width}" for name, width in _COLUMNS.items())
    done = _call(["squeue", "--noheader", "--array", "--states=all", f"--Format={columns}",
                  f"--jobs={','.join(main_ids(jobs))}"])  # fmt: skip
    if done.returncode != 0 and "invalid job id" in done.stderr.lower():
        return {}
    if done.returncode != 0:
        raise Busy(done.stderr.strip())
    found: dict[str, State] = {}
    for line in done.stdout.splitlines():
        cells = []
        for width in _COLUMNS.values():
            cells.append(line[:width].strip())
            line = line[width:]
        job, name, code, node, reason = cells
        found[job] = State(name, _known(reason), _exit(code), _known(node))
    return found


def accounting(jobs: Iterable[str]) -> dict[str, State]:
    """Jobs that the accounting knows: one sacct for all of them. Raises Busy where there is no accounting."""
    done = _call(["sacct", "--noheader", "--parsable2", "--allocations",
                  "--format=JobID,State,ExitCode,NodeList,Reason", f"--jobs={','.join(main_ids(jobs))}"])  # fmt: skip
    if done.returncode != 0:
        raise Busy(done.stderr.strip())
    found: dict[str, State] = {}
    for line in done.stdout.splitlines():
        job, name, code, node, reason = line.split("|", 4)
        # `CANCELLED by 1000`
        known = State(name.split()[0] if name else "UNKNOWN", _known(reason), _exit(code), _known(node))
        found |= dict.fromkeys(_tasks(job), known)
    return found


def controller(jobs: Iterable[str]) -> dict[str, State]:
    """Jobs that scontrol shows: one call, for all jobs of the cluster when ours are not of one array. Raises Busy."""
    ids = main_ids(jobs)
    done = _call(["scontrol", "--oneliner", "show", "job", *(ids if len(ids) == 1 else [])])
    if done.returncode != 0 and "invalid job id" in done.stderr.lower():
        return {}
    if done.returncode != 0:
        raise Busy(done.stderr.strip())
    found: dict[str, State] = {}
    for line in done.stdout.splitlines():
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        job = fields.get("JobId", "")
        if "ArrayTaskId" in fields:
            job = f"{fields['ArrayJobId']}_{fields['ArrayTaskId']}"
        found[job] = State(
            fields.get("JobState", "UNKNOWN"),
            _known(fields.get("Reason", "")),
            _exit(fields.get("ExitCode", "")),
            _known(fields.get("NodeList", "")),
        )
    return found


#: in the order in which they are asked: the queue is right at once, the accounting seconds later
SOURCES: list[Callable[[Iterable[str]], dict[str, State]]] = [queue, accounting, controller]


def named(names: Iterable[str]) -> dict[str, str]:
    """Job id -> job name, of those with such names that the queue still holds. Raises Busy."""
    done = _call(["squeue", "--noheader", "--array", "--format=%i|%j", f"--name={','.join(names)}"])
    if done.returncode != 0:
        raise Busy(done.stderr.strip())
    return dict(line.split("|", 1) for line in done.stdout.splitlines())


def cancel(jobs: Iterable[str] = (), name: str = "", attempts: int = 4) -> str:
    """One scancel for all, tried again while the controller does not answer; what it said, empty when it worked."""
    ids = list(jobs)
    if not ids and not name:
        return ""
    command = ["scancel", "--quiet", *([f"--name={name}"] if name else []), *ids]
    told = ""
    for attempt in range(attempts):
        if attempt:
            time.sleep(2**attempt)
        try:
            done = _call(command)
        except Busy as error:
            told = str(error)
            continue
        if done.returncode == 0 or not unreachable(done.stderr):
            return ""
        told = done.stderr.strip()
    return told


def unreachable(message: str) -> bool:
    """Whether an error of a client is one of a busy or absent controller."""
    signs = ("timed out", "unable to contact", "temporarily", "try again", "connection refused", "socket",
             "did not answer", "communication")  # fmt: skip
    return any(sign in message.lower() for sign in signs)


def _tasks(job: str) -> list[str]:
    """`7_[0-2,5%4]`, as sacct names tasks that wait, as ids of single tasks."""
    main, bracket, rest = job.partition("_[")
    if not bracket:
        return [job]
    found = []
    for part in rest.rstrip("]").partition("%")[0].split(","):
        first, _, last = part.partition("-")
        found += [f"{main}_{i}" for i in range(int(first), int(last or first) + 1)]
    return found


def _known(text: str) -> str:
    return "" if text in ("None", "(null)", "None assigned", "n/a") else text


def _exit(text: str) -> str:
    """`code:signal`; squeue before 23.02 prints the raw status of wait() instead."""
    if text.isdigit():
        return "" if text == "0" else f"{int(text) >> 8}:{int(text) & 127}"
    return "" if text in ("0:0", "") else text


def _call(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Busy(f"{command[0]} did not answer within {TIMEOUT} s") from None
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: not found")
