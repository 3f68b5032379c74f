"""Snakemake executor that submits jobs to Slurm through submitit: equal jobs go out as one array.

    snakemake --executor submitit --jobs 200

A job is one task that runs the usual Snakemake command for its target. On submitit's signal (time limit ahead,
preemption) the command gets SIGUSR2, has time for a checkpoint, and the job goes back into the queue.
"""

import os
import re
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from snakemake_executor_plugin_submitit.clusters import CLUSTERS, SubmissionError, paths, warning
from snakemake_executor_plugin_submitit.journal import Journal, describe
from snakemake_executor_plugin_submitit.orphans import Orphans
from snakemake_executor_plugin_submitit.resources import parameters
from snakemake_executor_plugin_submitit.status import PASSING, Busy, State, main_ids
from snakemake_executor_plugin_submitit.task import JobFailed, Task

_LAST_LINES = 15
#: reasons to wait that pass by themselves
_PATIENCE = {"", "Priority", "Resources", "BeginTime", "JobArrayTaskLimit", "Dependency", "Cleaning", "Prolog"}
_SETTLED = 5.0  # seconds that the result of a job may lag behind its final state
_LONGEST_PAUSE = 20.0  # seconds between looks at the queue while results alone tell how jobs fare


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    # Snakemake reads these types itself, hence no postponed annotations in this file
    cluster: str = field(
        default="slurm",
        metadata={"help": "slurm, local (processes of this machine) or debug (inside Snakemake, one by one)."},
    )
    folder: str = field(
        default=".snakemake/submitit", metadata={"help": "Folder for scripts, results and logs of jobs."}
    )
    array_cap: int = field(default=500, metadata={"help": "Most jobs in one array."})
    poll: int = field(
        default=0,
        metadata={"help": "Seconds between checks of jobs, with at most one Slurm call each; 0: Snakemake's setting."},
    )
    deadline: int = field(
        default=120,
        metadata={
            "help": "Seconds after which a job that is in neither the queue nor the accounting counts as failed."
        },
    )
    signal_delay: int = field(
        default=30,
        metadata={"help": "Seconds before the time limit at which a job is signalled to write a checkpoint."},
    )
    requeues: int = field(default=20, metadata={"help": "How often a job may reach its time limit and be requeued."})
    script: str = field(
        default="", metadata={"help": "Print the sbatch script of this rule's jobs without submitting anything."}
    )


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=True,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=2,
)


class Executor(RemoteExecutor):
    def __post_init__(self) -> None:
        self.settings = settings = self.workflow.executor_settings
        if settings.cluster not in CLUSTERS:
            raise WorkflowError(f"--submitit-cluster {settings.cluster}: must be one of {', '.join(CLUSTERS)}")
        base = _writable(Path(settings.folder).absolute())
        if settings.array_cap < 1:
            raise WorkflowError("--submitit-array-cap: must be 1 or more")
        # of the whole workflow: a mistake in its last rule is an error before anything is submitted
        for job in self.dag.needrun_jobs():
            if not job.is_local:
                self._wanted(job)
        # ids of Slurm jobs are not for ever: each run has a folder of its own
        self.run = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self.cluster = CLUSTERS[settings.cluster](base / self.run, settings.signal_delay, settings.requeues)
        if settings.script:
            self._print_scripts(settings.script)
        self.journal = Journal(base)
        self.orphans = Orphans(self.journal, self.logger) if settings.cluster == "slurm" else None
        if settings.poll:
            self.next_seconds_between_status_checks = settings.poll
        self.submitted = 0
        #: the submission in hand, whose jobs have no id yet
        self.submitting = ""
        #: ids of all jobs that have not ended; the base class forgets its own list while it looks at the queue
        self.running: set[str] = set()
        #: job id -> when it was first found to be gone, or finished without a result
        self.missing: dict[str, float] = {}
        #: job id -> its last state that was not one of a living job
        self.dead: dict[str, State] = {}
        self.told_busy = False
        #: when the queue is asked next, and how long after that: a second, then twice as long while nothing is wrong
        self.next_look, self.pause = 0.0, 1.0
        #: (id of an array, reason) that was logged
        self.told_waiting: set[tuple[str, str]] = set()

    def additional_general_args(self) -> str:
        return "--quiet host"  # who and where is in the record of the job

    def _task(self, job: JobExecutorInterface, wanted: dict[str, Any]) -> Task:
        return Task(self.format_job_exec(job), max(5.0, warning(self.settings.signal_delay, wanted) - 5.0))

    def _wanted(self, job: JobExecutorInterface) -> dict[str, Any]:
        return parameters(dict(job.resources.items()), job.threads, job.name)

    def _print_scripts(self, rule: str) -> None:
        all_jobs = [job for job in self.dag.needrun_jobs() if not job.is_local]
        jobs = [job for job in all_jobs if job.rule.name == rule]
        for wanted, equal in self._equal(jobs):
            print(self.cluster.script(wanted, [self._task(job, wanted) for job in equal], f"{rule}-{self.run}-1"))
        known = ", ".join(sorted({job.rule.name for job in all_jobs}))
        raise SystemExit(0 if jobs else f"no job of rule {rule!r} would be submitted, only jobs of: {known}")

    def _equal(self, jobs: list[JobExecutorInterface]) -> list[tuple[dict[str, Any], list[JobExecutorInterface]]]:
        """Jobs with equal parameters together, no more than an array may hold."""
        groups: dict[str, tuple[dict[str, Any], list[JobExecutorInterface]]] = {}
        for job in jobs:
            wanted = self._wanted(job)
            groups.setdefault(repr(sorted(wanted.items())), (wanted, []))[1].append(job)
        cap = self.settings.array_cap
        return [(wanted, some[i : i + cap]) for wanted, some in groups.values() for i in range(0, len(some), cap)]

    def run_jobs(self, jobs: list[JobExecutorInterface]) -> None:
        # Snakemake lets jobs run on after SIGTERM; a batch system that ends Snakemake does not wait for them
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        for wanted, equal in self._equal([job for job in jobs if not self._adopted(job)]):
            self._submit(wanted, equal)

    def run_job(self, job: JobExecutorInterface) -> None:
        self.run_jobs([job])

    def _adopted(self, job: JobExecutorInterface) -> bool:
        """Take over the job of a Snakemake that was killed, if one does the same and is not lost."""
        found = self.orphans.take(job) if self.orphans else None
        if found is None:
            return False
        number, folder = found
        self.run_job_pre(job)
        self.logger.info(f"Slurm job {number} of an earlier Snakemake already does this; taking it over.")
        self._submitted(job, number, folder)
        return True

    def _submit(self, wanted: dict[str, Any], jobs: list[JobExecutorInterface]) -> None:
        """One sbatch call for jobs with equal parameters."""
        for job in jobs:
            self.run_job_pre(job)
        tasks = [self._task(job, wanted) for job in jobs]
        self.submitted += 1
        name = f"{jobs[0].rule.name if not jobs[0].is_group() else 'group'}-{self.run}-{self.submitted}"
        folder = self.cluster.folder
        self.journal.submit(name, str(folder), [describe(job) for job in jobs], asked(wanted))
        self.submitting = name
        try:
            ids = self.cluster.submit(wanted, tasks, name)
        except SubmissionError as error:
            self.submitting = ""
            self.journal.end(name, "REFUSED")
            for job in jobs:
                self.report_job_error(SubmittedJobInfo(job), msg=f"{error} ")
            return
        self.running.update(ids)
        self.submitting = ""
        self.journal.accepted(name, ids)
        for job, number in zip(jobs, ids, strict=True):
            self._submitted(job, number, folder)
        text = f"array of {len(ids)} jobs" if len(ids) > 1 else "job"
        self.logger.info(f"Submitted as {text} {ids[0].partition('_')[0]} ({name}), logs in {folder}.")

    def _submitted(self, job: JobExecutorInterface, number: str, folder: Path) -> None:
        self._look_soon()
        self.running.add(number)
        left = paths(folder, number)
        aux = {"result": left.result_pickle, "log": left.stderr}
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=number, aux=aux))

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        open_jobs = []
        if self.missing:
            self._look_soon()
        for job in active_jobs:
            outcome = self._outcome(job)
            if outcome is not None and outcome[0] == "success":
                self._ended(job, "success")
                self.report_job_success(job)
            else:
                open_jobs.append(job)
                if outcome is not None:  # an error; whether the job runs again the queue knows
                    self._look_soon()
        if not open_jobs:
            return
        if time.monotonic() < self.next_look:
            for job in open_jobs:
                yield job
            return
        self.next_look = time.monotonic() + self.pause
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)
        try:
            async with self.status_rate_limiter:
                states = self.cluster.states([job.external_jobid for job in open_jobs])
        except Busy as error:
            if not self.told_busy:
                self.logger.info(f"Slurm does not answer; asking again until it does: {error}")
            self.told_busy = True
            self._look_soon()
            for job in open_jobs:
                yield job
            return
        self.told_busy = False
        sure = self.cluster.sure
        if all(job.external_jobid in states for job in open_jobs):
            self.cluster.ask_the_queue()
        else:
            self.cluster.ask_another()
        self._tell_what_waits(states)
        for job in open_jobs:
            state = states.get(job.external_jobid)
            # read only now: a job may have run again, and well, since the first look
            outcome = None if state and state.alive else self._outcome(job)
            if outcome is not None and outcome[0] == "success":
                self._ended(job, "success")
                self.report_job_success(job)
            elif self._failed(job.external_jobid, outcome, state, sure):
                state = state or self.dead.get(job.external_jobid)
                self._ended(job, state.name if state else "LOST")
                self.report_job_error(job, msg=_why(job, outcome, state))
            else:
                yield job

    def _look_soon(self) -> None:
        """Ask the queue at the next poll and often again."""
        self.next_look, self.pause = 0.0, 1.0

    def _tell_what_waits(self, states: dict[str, State]) -> None:
        """Once per reason, jobs that wait for something that time alone may not bring."""
        for number, state in states.items():
            about = (number.partition("_")[0], state.reason)
            if state.name == "PENDING" and state.reason not in _PATIENCE and about not in self.told_waiting:
                self.told_waiting.add(about)
                self.logger.info(f"Job {about[0]} waits: Slurm says {state.reason}.")

    def _outcome(self, job: SubmittedJobInfo) -> tuple[str, object] | None:
        return self.cluster.result(job.external_jobid, job.aux["result"])

    def _failed(self, job: str, outcome: tuple[str, object] | None, state: State | None, sure: bool) -> bool:
        """Whether a job without success has failed for good.

        An error that it left does not count while Slurm will run it again; a job that is gone without a word has
        until the deadline, since files and accounting arrive late.
        """
        if state is not None and state.alive:
            self.missing.pop(job, None)
            self.dead.pop(job, None)
            return False
        waited = time.monotonic() - self.missing.setdefault(job, time.monotonic())
        if state is not None:
            self.dead[job] = state
        state = self.dead.get(job)
        if state is None:
            return (outcome is not None and sure) or waited > self.settings.deadline
        if state.name in PASSING or state.name == "COMPLETED":
            return waited > self.settings.deadline
        return outcome is not None or waited > _SETTLED

    def _ended(self, job: SubmittedJobInfo, state: str) -> None:
        self.running.discard(job.external_jobid)
        self.missing.pop(job.external_jobid, None)
        self.dead.pop(job.external_jobid, None)
        self.journal.end(job.external_jobid, state)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        # a second Ctrl-C must not leave jobs behind; the attempts are bounded
        with suppress(ValueError):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ids = main_ids(sorted(self.running | {job.external_jobid for job in active_jobs}))
        problem = self.cluster.cancel(ids, self.submitting)
        if problem:
            self.logger.error(f"Could not cancel: {problem}. Once Slurm answers: scancel {' '.join(ids)}")
            return
        for number in [*self.running, *filter(None, [self.submitting])]:
            self.journal.end(number, "CANCELLED")
        self.logger.info(f"Cancelled {len(self.running)} jobs.")


def _writable(folder: Path) -> Path:
    if "%" in str(folder):
        raise WorkflowError(f"{folder}: Slurm expands % in names; give another folder with --submitit-folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "jobs.jsonl").open("a").close()
    except OSError as error:
        raise WorkflowError(f"--submitit-folder {folder}: {error.strerror or error}") from None
    return folder


def asked(wanted: dict[str, Any]) -> dict[str, Any]:
    """What a job asked for, for the table of jobs: cpus, minutes and sbatch's own options."""
    return {"cpus": wanted["cpus_per_task"], "minutes": wanted.get("time"), **wanted["additional_parameters"]}


def _why(job: SubmittedJobInfo, outcome: tuple[str, object] | None, state: State | None) -> str:
    """What a person needs: state, exit code, reason, where the log is and how it ends."""
    parts = [f"job {job.external_jobid}", str(state) if state else "unknown to queue and accounting"]
    if outcome is not None:
        parts.append(str(outcome[1]).strip().splitlines()[-1].removeprefix(f"{JobFailed.__module__}."))
    log = job.aux["log"]
    text = log.read_text(errors="replace") if log.is_file() else ""
    # submitit's traceback of a failed command says nothing that the command has not said before
    text = re.sub(r"submitit ERROR.*?JobFailed: [^\n]*\n", "", text, flags=re.DOTALL)
    if (state and state.name == "OUT_OF_MEMORY") or re.search(
        r"memory limit|oom[-_]kill|out of memory", text, re.IGNORECASE
    ):
        parts.append("out of memory: ask for more mem_mb")
    if state and state.name in ("TIMEOUT", "DEADLINE"):
        parts.append("out of time: ask for more runtime")
    lines = [line for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    return "\n".join([", ".join(parts), f"log: {log}", *(f"  {line}" for line in lines), ""])
