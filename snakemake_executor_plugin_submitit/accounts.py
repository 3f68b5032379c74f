"""What the jobs of a workflow cost: from sacct where the cluster keeps accounts, else from the jobs' own records."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from snakemake_executor_plugin_submitit import status
from snakemake_executor_plugin_submitit.clusters import paths
from snakemake_executor_plugin_submitit.journal import Entry, Journal

_UNITS = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


@dataclass
class Job:
    """Cost of one job, all its runs together; None where nothing is known.

    wait: seconds from submission to the first start; elapsed and cpu: seconds; memory in MiB, asked for and the largest
    used; source: `sacct` or `job`
    """

    id: str
    rule: str
    target: str
    state: str
    wait: float | None = None
    elapsed: float | None = None
    cpus: int = 1
    cpu: float | None = None
    asked_memory: float | None = None
    memory: float | None = None
    gpus: int = 0
    requeues: int = 0
    source: str = "job"

    @property
    def cpu_efficiency(self) -> float | None:
        """Share of the processor time that the job was given and used."""
        if self.cpu is None or not self.elapsed:
            return None
        return self.cpu / (self.elapsed * self.cpus)

    @property
    def memory_efficiency(self) -> float | None:
        return self.memory / self.asked_memory if self.memory and self.asked_memory else None

    @property
    def gpu_hours(self) -> float:
        return self.gpus * (self.elapsed or 0.0) / 3600


def jobs(base: Path, under: str = "") -> list[Job]:
    """All jobs in the journal of a folder, in order; `under`: only those with an output below this path."""
    entries = [
        entry
        for entry in Journal(base).read()
        if entry.id is not None and (not under or any(path.startswith(under) for path in entry.outputs))
    ]
    open_ids = [entry.id for entry in entries if entry.end is None and entry.id is not None]
    states: dict[str, status.State] = {}
    if open_ids:
        try:
            states = status.queue(open_ids)
        except status.Busy:
            states = {}
    found = [_from_record(entry, states) for entry in entries]
    accounts = _accounts([job.id for job in found])
    for job, entry in zip(found, entries, strict=True):
        known = accounts.get((job.id, entry.name))
        if known is not None:
            job.elapsed, job.cpu, job.source = known.elapsed, known.cpu, "sacct"
            job.wait = known.wait if known.wait is not None else job.wait
            job.memory = known.memory or job.memory
            job.requeues = max(job.requeues, known.requeues)
            if entry.end is None or entry.end in ("LOST", "success"):
                job.state = known.state
    return found


def _from_record(entry: Entry, states: dict[str, status.State]) -> Job:
    assert entry.id is not None
    asked = entry.asked
    ended = {"success": "COMPLETED", None: ""}.get(entry.end, entry.end or "")
    state = ended or (states[entry.id].name if entry.id in states else "UNKNOWN")
    job = Job(entry.id, entry.rule, " ".join(entry.outputs[:1]), state, cpus=int(asked.get("cpus") or 1))
    job.asked_memory = _mib(str(asked.get("mem", ""))) or _scaled(_mib(str(asked.get("mem-per-cpu", ""))), job.cpus)
    gres = re.search(r"gpu(?::[^:,]+)?:(\d+)", str(asked.get("gres", "")))
    job.gpus = int(gres[1]) if gres else 0
    path = paths(Path(entry.folder), entry.id)
    record = path.folder / f"{entry.id}_runs.jsonl"
    events = [json.loads(line) for line in record.read_text().splitlines()] if record.is_file() else []
    starts = [event for event in events if event["event"] == "start"]
    if not starts:
        return job
    job.wait, job.requeues = max(0.0, starts[0]["time"] - entry.submitted), len(starts) - 1
    elapsed, cpu, since = 0.0, 0.0, None
    for event in [*events, {"event": "last", "time": entry.ended}]:
        # a run that was killed says nothing; it counts up to what is known next
        if since is not None and event["time"] is not None:
            elapsed, since = elapsed + event["time"] - since, None
        if event["event"] == "start":
            since = event["time"]
        elif event["event"] == "end":
            cpu += event["cpu_seconds"]
            job.memory = max(job.memory or 0.0, event["max_rss_mb"])
    job.elapsed = elapsed
    job.cpu = cpu if any(event["event"] == "end" for event in events) else None
    return job


@dataclass
class _Account:
    state: str
    wait: float | None
    elapsed: float
    cpu: float
    memory: float | None
    requeues: int


def _accounts(ids: Iterable[str]) -> dict[tuple[str, str], _Account]:
    """(job id, job name) -> what sacct adds up over the runs of a job; empty where there is no accounting."""
    asked = ",".join(status.main_ids(ids))
    if not asked:
        return {}
    columns = "JobID,JobName,State,Submit,Start,ElapsedRaw,TotalCPU,MaxRSS"
    command = [
        "sacct",
        "--noheader",
        "--parsable2",
        "--duplicates",
        f"--format={columns}",
        f"--jobs={asked}",
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=status.TIMEOUT,
            env={**os.environ, "SLURM_TIME_FORMAT": "%s"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: dict[tuple[str, str], _Account] = {}
    last: dict[str, tuple[str, str]] = {}
    for line in done.stdout.splitlines() if done.returncode == 0 else []:
        number, name, state, submit, start, elapsed, cpu, memory = line.split("|")
        job, _, step = number.partition(".")
        if step:
            if job in last and (rss := _mib(memory)) is not None:
                account = found[last[job]]
                account.memory = max(account.memory or 0.0, rss)
            continue
        key = last[job] = (job, name)
        wait = float(start) - float(submit) if start.isdigit() and submit.isdigit() else None
        before = found.get(key)
        found[key] = _Account(
            state.split()[0],
            wait if before is None else before.wait,
            float(elapsed or 0) + (before.elapsed if before else 0.0),
            _seconds(cpu) + (before.cpu if before else 0.0),
            before.memory if before else None,
            before.requeues + 1 if before else 0,
        )
    return found


def _mib(text: str) -> float | None:
    """Slurm's `100M`, `1.5G`, `2048K` in MiB."""
    match = re.fullmatch(r"([\d.]+)([KMGT])[nc]?", text)
    return float(match[1]) * _UNITS[match[2]] if match else None


def _scaled(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor


def _seconds(text: str) -> float:
    """Slurm's `[DD-[HH:]]MM:SS[.mmm]` in seconds."""
    days, dash, clock = text.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part or 0)
    return total + (int(days) * 86400 if dash else 0)
