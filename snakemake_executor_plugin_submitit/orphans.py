"""Jobs that a Snakemake left behind when it was killed: taken over if they do what is wanted now, else cancelled."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

from snakemake_executor_plugin_submitit import status
from snakemake_executor_plugin_submitit.clusters import BACKOFF, paths
from snakemake_executor_plugin_submitit.journal import Entry, Journal, describe
from snakemake_executor_plugin_submitit.status import main_ids
from snakemake_executor_plugin_submitit.task import result


class Orphans:
    """The jobs without an end in a journal whose Snakemake is gone."""

    def __init__(self, journal: Journal, logger: Any) -> None:
        self.journal, self.logger = journal, logger
        self.began = time.time()
        found = [entry for entry in journal.read() if entry.end is None and not entry.owned]
        #: by key; of several the last, which is the one that Slurm may still run
        self.entries = {entry.key: entry for entry in found}
        self.queued: dict[str, str] = {}
        self.asked = False

    def take(self, job: Any) -> tuple[str, Path] | None:
        """Id and folder of an earlier job that makes the outputs of this one, in the queue or done just now.

        One that does something else, or started from inputs that have changed, is cancelled.
        """
        if not self.entries:
            return None
        wanted = describe(job)
        entry = self.entries.pop(wanted["key"], None)
        if entry is None:
            return None
        self._look(entry)
        if entry.id is None:
            self.journal.end(entry.name, "REFUSED")
            return None
        left = paths(Path(entry.folder), entry.id)
        # one that was killed between sbatch and its pickle has jobs in the queue that cannot run
        alive = self.queued.get(entry.id) == entry.name and left.submitted_pickle.exists()
        same = entry.signature == wanted["signature"] and not _changed(job, entry.submitted)
        if same and (alive or self._done_since(entry, left.result_pickle)):
            return entry.id, Path(entry.folder)
        if self.queued.get(entry.id) == entry.name:
            status.cancel([entry.id])
            self.journal.end(entry.id, "CANCELLED")
            self.logger.info(f"Cancelled Slurm job {entry.id} of an earlier Snakemake, which does something different.")
        else:
            self.journal.end(entry.id, "LOST")
        return None

    def _look(self, entry: Entry) -> None:
        """Ask the queue, once, for all names of the journal; find the id of a job whose acceptance was not noted."""
        if not self.asked:
            self.queued = _ask(sorted({other.name for other in [entry, *self.entries.values()]}))
            self.asked = True
            names = {other.name for other in [entry, *self.entries.values()]}
            left = [number for number, name in self.queued.items() if name in names]
            if left:
                self.logger.info(
                    f"An earlier Snakemake left {len(left)} jobs in the queue ({', '.join(main_ids(left))}). "
                    "Those that are needed now are taken over; the others keep running until scancel ends them."
                )
        if entry.id is None:
            mains = {number.partition("_")[0] for number, name in self.queued.items() if name == entry.name}
            for main in mains:
                number = main if entry.array is None else f"{main}_{entry.array}"
                entry.id = number if number in self.queued else None

    def _done_since(self, entry: Entry, path: Path) -> bool:
        """Whether a job has ended well after Snakemake looked at what there is to do."""
        done = result(path)
        return (
            done is not None
            and done[0] == "success"
            and path.stat().st_mtime > self.began
            and all(Path(output).exists() for output in entry.outputs)
        )


def _ask(names: list[str]) -> dict[str, str]:
    for pause in (*BACKOFF, None):
        try:
            return status.named(names)
        except status.Busy as error:
            if pause is None or not status.unreachable(str(error)):
                raise WorkflowError(f"an earlier Snakemake left jobs, and squeue does not answer: {error}") from None
            time.sleep(pause)
    raise AssertionError("not reached")


def _changed(job: Any, since: float) -> bool:
    """Whether an input has changed since a time."""
    return any(path.exists() and path.stat().st_mtime > since for path in map(Path, map(str, job.input)))
