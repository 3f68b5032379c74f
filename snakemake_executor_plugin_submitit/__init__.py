"""Snakemake executor that submits jobs to Slurm through submitit: equal jobs go out as one array.

    snakemake --executor submitit --jobs 200

A job is one task that runs the usual Snakemake command for its target. On submitit's signal (time limit ahead,
preemption) the command gets SIGUSR2, has time for a checkpoint, and the job goes back into the queue.
"""

import time
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from snakemake_executor_plugin_submitit import status
from snakemake_executor_plugin_submitit.resources import parameters
from snakemake_executor_plugin_submitit.task import Task

_ATTEMPTS = 5
_LAST_LINES = 10


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    # Snakemake reads these types itself, hence no postponed annotations in this file
    folder: str = field(
        default=".snakemake/submitit", metadata={"help": "Folder for scripts, results and logs of jobs."}
    )
    array_cap: int = field(default=500, metadata={"help": "Most jobs of one array."})
    deadline: int = field(
        default=120,
        metadata={"help": "Seconds after which a job that neither queue nor accounting knows counts as failed."},
    )
    signal_delay: int = field(
        default=30, metadata={"help": "Seconds before the time limit at which a job is told to write a checkpoint."}
    )
    requeues: int = field(default=20, metadata={"help": "How often a job may run into its time limit and go on."})


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
        settings = self.workflow.executor_settings
        self.settings = settings
        self.folder = Path(settings.folder).absolute() / "%A"
        self.run = uuid.uuid4().hex[:8]
        self.submitted = 0
        #: job id -> when it was first found to be gone, or finished without a result
        self.missing: dict[str, float] = {}

    def run_jobs(self, jobs: list[JobExecutorInterface]) -> None:
        groups: dict[str, tuple[dict[str, Any], list[JobExecutorInterface]]] = {}
        for job in jobs:
            wanted = parameters(dict(job.resources.items()), job.threads, job.name)
            groups.setdefault(repr(sorted(wanted.items())), (wanted, []))[1].append(job)
        for wanted, equal in groups.values():
            for start in range(0, len(equal), self.settings.array_cap):
                self._submit(wanted, equal[start : start + self.settings.array_cap])

    def run_job(self, job: JobExecutorInterface) -> None:
        self.run_jobs([job])

    def _submit(self, wanted: dict[str, Any], jobs: list[JobExecutorInterface]) -> None:
        """One sbatch call for jobs with equal parameters."""
        for job in jobs:
            self.run_job_pre(job)
        grace = max(5.0, self.settings.signal_delay - 5.0)
        tasks = [Task(self.format_job_exec(job), grace) for job in jobs]
        try:
            ids = self._sbatch(wanted, tasks, jobs[0].name)
        except WorkflowError as error:
            for job in jobs:
                self.report_job_error(SubmittedJobInfo(job), msg=f"{error} ")
            return
        for job, (number, folder) in zip(jobs, ids, strict=True):
            aux = {"result": folder / f"{number}_0_result.pkl", "log": folder / f"{number}_0_log.err"}
            self.report_job_submission(SubmittedJobInfo(job, external_jobid=number, aux=aux))

    def _sbatch(self, wanted: dict[str, Any], tasks: list[Task], rule: str) -> list[tuple[str, Path]]:
        """Ids and folders of the jobs. A refused submission is tried again; the name says whether it went through."""
        from submitit import SlurmExecutor

        for attempt in range(_ATTEMPTS):
            self.submitted += 1
            name = f"{rule}-{self.run}-{self.submitted}"
            executor = SlurmExecutor(self.folder, max_num_timeout=self.settings.requeues)
            executor.update_parameters(
                job_name=name,
                signal_delay_s=self.settings.signal_delay,
                array_parallelism=len(tasks),
                **wanted,
            )
            try:
                with executor.batch():
                    found = [executor.submit(task) for task in tasks]
                return [(job.job_id, job.paths.folder) for job in found]
            except Exception as error:  # submitit raises several kinds
                told = " ".join(str(error).split())
                # sbatch may have died after Slurm took the job: that one must not run beside the next
                status.cancel_named(name)
                if attempt + 1 == _ATTEMPTS or not _passing(told):
                    raise WorkflowError(f"sbatch failed: {told}") from None
                time.sleep(2**attempt)
        raise AssertionError("not reached")

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        open_jobs = []
        for job in active_jobs:
            outcome = status.result(job.aux["result"])
            if outcome is not None and outcome[0] == "success":
                self.report_job_success(job)
            else:
                open_jobs.append((job, outcome))
        if not open_jobs:
            return
        try:
            async with self.status_rate_limiter:
                states = status.queue(job.external_jobid for job, _ in open_jobs)
            unclear = [j.external_jobid for j, _ in open_jobs if not _alive(states.get(j.external_jobid))]
            if unclear:
                states |= status.accounting(unclear)
        except status.Busy as error:
            self.logger.info(f"Slurm does not answer, trying again later: {error}")
            for job, _ in open_jobs:
                yield job
            return
        for job, outcome in open_jobs:
            if self._failed(job, outcome, states.get(job.external_jobid)):
                self.report_job_error(job, msg=self._why(job, outcome, states.get(job.external_jobid)))
            else:
                yield job

    def _failed(self, job: SubmittedJobInfo, outcome: Any, state: status.State | None) -> bool:
        """Whether a job without success has failed for good.

        An error that it left does not count while Slurm will run it again; a job that is gone without a word has
        until the deadline, since files and accounting arrive late.
        """
        if _alive(state):
            self.missing.pop(job.external_jobid, None)
            return False
        if outcome is not None:
            return True
        since = self.missing.setdefault(job.external_jobid, time.monotonic())
        # a final state other than completion needs no more patience than a result file takes to appear
        patience = self.settings.deadline if state is None or state.name == "COMPLETED" else 5
        return time.monotonic() - since > patience

    def _why(self, job: SubmittedJobInfo, outcome: Any, state: status.State | None) -> str:
        """What a person needs: state, exit code, reason, where the log is and how it ends."""
        told = [f"Slurm job {job.external_jobid}"]
        if state is not None:
            told.append(f"state {state.name}")
            told += [f"reason {state.reason}"] if state.reason else []
            told += [f"exit code {state.exit}"] if state.exit else []
        else:
            told.append("unknown to queue and accounting")
        if outcome is not None:
            told.append(str(outcome[1]).strip().splitlines()[-1])
        log = job.aux["log"]
        lines = log.read_text(errors="replace").splitlines()[-_LAST_LINES:] if log.is_file() else []
        return "\n".join([", ".join(told), f"log: {log}", *(f"  {line}" for line in lines), ""])

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        status.cancel(job.external_jobid for job in active_jobs)


def _alive(state: status.State | None) -> bool:
    return state is not None and state.alive


def _passing(message: str) -> bool:
    """Whether an error of sbatch is one of a busy or absent controller."""
    signs = ("timed out", "unable to contact", "temporarily", "try again", "connection refused", "socket")
    return any(sign in message.lower() for sign in signs)
