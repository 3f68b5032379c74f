"""What a study cost on a cluster: the jobs that the submitit executor recorded, per rule and one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake_executor_plugin_submitit.accounts import Job

JOURNAL = Path(".snakemake/submitit")
RULE_HEADER = ["Rule", "Jobs", "Not completed", "Wait", "Elapsed", "CPU used", "Memory used", "GPU hours", "Requeues"]
JOB_HEADER = ["Job", "Rule", "Target", "State", "Wait", "Elapsed", "CPU used", "Memory used", "GPU hours", "Requeues"]


def jobs(results: Path, folder: Path = JOURNAL) -> list[Job]:
    """Jobs whose outputs are in a results folder, in the order of submission; empty where there are none."""
    if not (folder / "jobs.jsonl").is_file():
        return []
    from snakemake_executor_plugin_submitit.accounts import jobs as recorded

    return recorded(folder, f"{results}/")


def per_rule(recorded: list[Job]) -> list[list[str]]:
    """One row a rule, under RULE_HEADER: times are sums, memory is the most that any job used."""
    rows = []
    for rule in dict.fromkeys(job.rule for job in recorded):
        some = [job for job in recorded if job.rule == rule]
        offered = sum(job.elapsed * job.cpus for job in some if job.elapsed and job.cpu is not None)
        used = sum(job.cpu for job in some if job.elapsed and job.cpu is not None)
        memory = [job.memory_efficiency for job in some if job.memory_efficiency is not None]
        rows.append(
            [
                rule,
                str(len(some)),
                str(sum(job.state != "COMPLETED" for job in some)),
                _sum(some, lambda job: job.wait),
                _sum(some, lambda job: job.elapsed),
                _percent(used / offered if offered else None),
                _percent(max(memory) if memory else None),
                f"{sum(job.gpu_hours for job in some):.2f}",
                str(sum(job.requeues for job in some)),
            ]
        )
    return rows


def one_by_one(recorded: list[Job]) -> list[list[str]]:
    """One row a job, under JOB_HEADER."""
    return [
        [
            job.id,
            job.rule,
            job.target,
            job.state,
            _time(job.wait),
            _time(job.elapsed),
            _percent(job.cpu_efficiency),
            _percent(job.memory_efficiency),
            f"{job.gpu_hours:.2f}",
            str(job.requeues),
        ]
        for job in recorded
    ]


def source(recorded: list[Job]) -> str:
    """Where the figures come from, in a sentence."""
    accounted = sum(job.source == "sacct" for job in recorded)
    if accounted == len(recorded):
        return "From the cluster's accounting (sacct)."
    own = "from what the jobs recorded themselves; a killed job counts until it was restarted or found missing"
    return f"{accounted} jobs from sacct, {len(recorded) - accounted} {own}." if accounted else f"{own.capitalize()}."


def _sum(recorded: list[Job], value: Callable[[Job], float | None]) -> str:
    known = [seconds for job in recorded if (seconds := value(job)) is not None]
    return _time(sum(known) if known else None)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
