"""What this workflow has handed to a cluster, in a file that outlives the Snakemake process.

`jobs.jsonl` holds one line per event: `submit` (under which name, before sbatch is called), `accepted` (its id) and
`end`. A Snakemake that was killed leaves jobs without an end; the next one finds them here.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Entry:
    """One job: key of its outputs, signature of what it would do, and what became of it.

    array: its index, None for a job without an array; id: Slurm's, None before sbatch answered; submitted: seconds
    since the epoch; asked: its parameters; end, ended: how and when it ended, None as long as no Snakemake has seen it
    """

    key: str
    signature: str
    rule: str
    outputs: list[str]
    name: str
    folder: str
    array: int | None
    submitted: float
    owner: tuple[str, int]
    asked: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    end: str | None = None
    ended: float | None = None

    @property
    def owned(self) -> bool:
        """Whether the Snakemake that submitted this job may still be running; one on another host counts as gone."""
        host, process = self.owner
        return host == socket.gethostname() and process != os.getpid() and Path(f"/proc/{process}").exists()


class Journal:
    """The file `jobs.jsonl` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "jobs.jsonl"

    def submit(self, name: str, folder: str, jobs: Iterable[dict[str, Any]], asked: dict[str, Any]) -> None:
        """Before sbatch: jobs as dicts of key, signature, rule, outputs, in the order of their array."""
        owner = [socket.gethostname(), os.getpid()]
        about = {"name": name, "folder": folder, "submitted": time.time(), "owner": owner, "asked": asked}
        self._add(event="submit", **about, jobs=list(jobs))

    def accepted(self, name: str, ids: list[str]) -> None:
        self._add(event="accepted", name=name, ids=ids)

    def end(self, job: str, state: str) -> None:
        """job: Slurm's id, or the name of a submission that was refused."""
        self._add(event="end", id=job, state=state, time=time.time())

    def read(self) -> list[Entry]:
        """All jobs, in the order of their submission."""
        found: dict[str, list[Entry]] = {}
        ids: dict[str, Entry] = {}
        for line in self.path.read_text().splitlines() if self.path.is_file() else []:
            try:
                event = json.loads(line)
            except ValueError:  # the last line of a process that was killed
                continue
            if event["event"] == "submit":
                jobs = event.pop("jobs")
                del event["event"]
                found[event["name"]] = [
                    Entry(**job, **event, array=i if len(jobs) > 1 else None) for i, job in enumerate(jobs)
                ]
            elif event["event"] == "accepted":
                for entry, number in zip(found.get(event["name"], []), event["ids"], strict=True):
                    entry.id, ids[number] = number, entry
            elif event["id"] in ids:
                ids[event["id"]].end, ids[event["id"]].ended = event["state"], event["time"]
            else:
                for entry in found.get(event["id"], []):
                    entry.end, entry.ended = event["state"], event["time"]
        return [entry for entries in found.values() for entry in entries]

    def _add(self, **event: Any) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            # one write, so that lines of two Snakemakes in one folder do not mix
            file.write(json.dumps(event) + "\n")


def describe(job: Any) -> dict[str, Any]:
    """Key, signature, rule and outputs of a Snakemake job or group.

    The key says which files it makes, the signature also how: from which inputs, with which parameters and command.
    """
    jobs = sorted(job.jobs if job.is_group() else [job], key=str)
    outputs = sorted(str(path) for one in jobs for path in one.output)
    rules = sorted({one.rule.name for one in jobs})
    wildcards = [sorted(map(str, one.wildcards_dict.items())) for one in jobs]
    made_how = [[sorted(map(str, one.input)), repr(list(one.params)), str(one.shellcmd)] for one in jobs]
    return {
        "key": _digest([rules, outputs, wildcards]),
        "signature": _digest(made_how),
        "rule": "+".join(rules),
        "outputs": outputs,
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
