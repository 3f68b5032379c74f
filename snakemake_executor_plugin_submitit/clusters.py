"""Where jobs run: on Slurm, or for trying things out as processes of this machine or inside Snakemake itself."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_submitit import status
from snakemake_executor_plugin_submitit.status import Busy, State
from snakemake_executor_plugin_submitit.task import Task, result

#: seconds between attempts to submit while the controller is busy or restarts
BACKOFF = (2, 4, 8, 16, 32, 60)


class SubmissionError(Exception):
    """The cluster did not take the jobs; the message is its own."""


class Slurm:
    """Submits through submitit, asks squeue, and sacct and scontrol for what squeue does not know."""

    def __init__(self, folder: Path, signal_delay: int, requeues: int) -> None:
        self.folder = folder
        self.signal_delay, self.requeues = signal_delay, requeues
        self.source = 0

    def _executor(self, wanted: dict[str, Any], name: str, count: int, submits: bool = True) -> Any:
        from submitit import SlurmExecutor

        class Writer(SlurmExecutor):
            """Writes scripts where there is no Slurm, too."""

            @classmethod
            def affinity(cls) -> int:
                return 1

        # a warning that comes before submitit has its handler must not kill the job
        patient = shlex.join(["bash", "-c", 'trap "" USR2; exec "$0" "$@"', sys.executable])
        kind = SlurmExecutor if submits else Writer
        executor = kind(self.folder, max_num_timeout=self.requeues, python=patient)
        # wckey: sites that enforce keys refuse submitit's own; who has one gives it in slurm_extra
        own = {"wckey": None, "signal_delay_s": self.signal_delay, "array_parallelism": count}
        executor.update_parameters(job_name=name, **own, **wanted)
        return executor

    def script(self, wanted: dict[str, Any], tasks: list[Task], name: str) -> str:
        """The sbatch script of jobs as they would be submitted, and their commands as comments."""
        executor = self._executor(wanted, name, len(tasks), submits=False)
        if len(tasks) > 1:
            executor.parameters["map_count"] = len(tasks)
        text: str = executor._make_submission_file_text(executor._submitit_command_str, "")
        commands = "\n".join(f"#   {task.command}" for task in tasks)
        return f"{text}\n# which runs, from pickles in that folder:\n{commands}\n"

    def submit(self, wanted: dict[str, Any], tasks: list[Task], name: str) -> list[str]:
        """Ids of the jobs, one sbatch for all. Raises SubmissionError.

        A controller that does not answer is asked again for two minutes. Only under a name that the queue does not
        hold: sbatch may have died after Slurm took the jobs.
        """
        for pause in (*BACKOFF, None):
            try:
                executor = self._executor(wanted, name, len(tasks))
                with executor.batch():
                    found = [executor.submit(task) for task in tasks]
                return [job.job_id for job in found]
            except OSError as error:
                raise SubmissionError(f"{self.folder}: {error.strerror or error}") from None
            except Exception as error:  # submitit raises several kinds
                told = " ".join(str(error).split())
                # without its pickle, which submitit writes after sbatch, such a job waits a minute and fails
                left = status.cancel(name=name) if status.unreachable(told) else ""
                if pause is None or not status.unreachable(told):
                    raise SubmissionError(f"sbatch failed: {told}{'; ' + left if left else ''}") from None
                time.sleep(pause)
        raise AssertionError("not reached")

    def result(self, job: str, path: Path) -> tuple[str, object] | None:
        """What the job left at its path, see `task.result`."""
        return result(path)

    def states(self, jobs: Iterable[str]) -> dict[str, State]:
        """What one program says of the jobs. Raises Busy, after which the next program is asked."""
        try:
            return status.SOURCES[self.source](jobs)
        except Busy:
            self.ask_another()
            raise

    @property
    def sure(self) -> bool:
        """Whether the program asked knows every job that is alive; the accounting may lag."""
        return status.SOURCES[self.source] is not status.accounting

    def ask_another(self) -> None:
        self.source = (self.source + 1) % len(status.SOURCES)

    def ask_the_queue(self) -> None:
        self.source = 0

    def cancel(self, jobs: list[str], name: str = "") -> str:
        """Cancel jobs and what was submitted under a name; what went wrong, empty if nothing did."""
        told = status.cancel(jobs)
        return told or (status.cancel(name=name) if name else "")


class Local:
    """The same jobs as processes of this machine, for trying a workflow out."""

    sure = True

    def __init__(self, folder: Path, signal_delay: int, requeues: int) -> None:
        self.folder, self.signal_delay, self.requeues = folder, signal_delay, requeues
        self.jobs: dict[str, Any] = {}

    def script(self, wanted: dict[str, Any], tasks: list[Task], name: str) -> str:
        return "".join(f"{task.command}\n" for task in tasks)

    def submit(self, wanted: dict[str, Any], tasks: list[Task], name: str) -> list[str]:
        from submitit import LocalExecutor

        executor = LocalExecutor(self.folder, max_num_timeout=self.requeues)
        # without a limit of its own a job may take a year
        minutes = wanted.get("time", 60 * 24 * 365)
        executor.update_parameters(timeout_min=minutes, signal_delay_s=self.signal_delay)
        started = [executor.submit(task) for task in tasks]
        self.jobs |= {job.job_id: job for job in started}
        return [job.job_id for job in started]

    def result(self, job: str, path: Path) -> tuple[str, object] | None:
        return result(path)

    def states(self, jobs: Iterable[str]) -> dict[str, State]:
        """Whether the processes run; one that is over without a result has failed."""
        return {job: State("FAILED" if self.jobs[job].done() else "RUNNING") for job in jobs if job in self.jobs}

    def ask_another(self) -> None:
        """There is no other source."""

    ask_the_queue = ask_another

    def cancel(self, jobs: list[str], name: str = "") -> str:
        for job in jobs:
            if job in self.jobs:
                self.jobs[job].cancel()
        return ""


class Debug(Local):
    """One job after the other inside this process, its output on this terminal."""

    def __init__(self, folder: Path, signal_delay: int, requeues: int) -> None:
        super().__init__(folder, signal_delay, requeues)
        self.outcomes: dict[str, BaseException | None] = {}

    def submit(self, wanted: dict[str, Any], tasks: list[Task], name: str) -> list[str]:
        from submitit import DebugExecutor

        executor = DebugExecutor(self.folder)
        for task in tasks:
            job = executor.submit(task)
            self.outcomes[f"{name}-{len(self.outcomes)}"] = job.exception()  # runs it
        return list(self.outcomes)[-len(tasks) :]

    def result(self, job: str, path: Path) -> tuple[str, object] | None:
        error = self.outcomes[job]
        return ("success", 0) if error is None else ("error", f"{error}")

    def states(self, jobs: Iterable[str]) -> dict[str, State]:
        return {job: State("FAILED") for job in jobs}


CLUSTERS: dict[str, type[Slurm | Local]] = {"slurm": Slurm, "local": Local, "debug": Debug}


def warning(seconds: int, wanted: dict[str, Any]) -> int:
    """Seconds before its limit at which a job is told: no more than half of the limit, or it would do nothing else."""
    return min(seconds, 30 * wanted["time"]) if "time" in wanted else seconds


def paths(folder: Path, job: str) -> Any:
    """Submitit's paths of a job: result_pickle, stderr, submitted_pickle."""
    from submitit.core.utils import JobPaths

    return JobPaths(folder, job_id=job)
