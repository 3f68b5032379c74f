"""From a Snakemake job's resources, under the names that other Slurm executors use, to submitit's parameters."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

#: resource -> sbatch option it becomes as it is
PLAIN = {
    "slurm_partition": "partition",
    "slurm_account": "account",
    "constraint": "constraint",
    "qos": "qos",
    "gres": "gres",
    "nodes": "nodes",
    "tasks": "ntasks",
    "tasks_per_node": "ntasks-per-node",
}
OTHERS = {"runtime", "mem_mb", "mem_mb_per_cpu", "gpu", "gpu_model", "cpus_per_task", "slurm_extra"}
#: what the plugin sets itself or cannot do with, so that slurm_extra must not
OWN = {
    "job-name", "output", "error", "signal", "array", "open-mode", "requeue", "no-requeue", "wait", "wrap", "parsable"
}  # fmt: skip
#: sbatch option -> the resource to use instead
INSTEAD = {
    **{option: resource for resource, option in PLAIN.items()},
    "time": "runtime",
    "mem": "mem_mb",
    "mem-per-cpu": "mem_mb_per_cpu",
    "cpus-per-task": "cpus_per_task",
    "gpus": "gpu",
}
EXCLUSIVE = [("mem_mb", "mem_mb_per_cpu"), ("gres", "gpu"), ("tasks", "tasks_per_node")]


def parameters(resources: Mapping[str, Any], threads: int, rule: str) -> dict[str, Any]:
    """Parameters of submitit's SlurmExecutor for one job.

    resources: of the job; runtime in minutes, mem_mb in MiB. Raises WorkflowError, before anything is submitted,
    for a `slurm_` resource that does not exist, two resources that contradict each other, or a wrong type.
    """
    known = {name: value for name, value in resources.items() if name in PLAIN or name in OTHERS}
    known = {name: value for name, value in known.items() if value not in (None, "", 0) and not _later(value)}
    _check(resources, known, rule)
    # whatever the site's JobRequeue says
    extra: dict[str, Any] = {"requeue": True}
    extra |= {option: known[name] for name, option in PLAIN.items() if name in known}
    if "mem_mb" in known:
        extra["mem"] = f"{int(known['mem_mb'])}M"
    if "mem_mb_per_cpu" in known:
        extra["mem-per-cpu"] = f"{int(known['mem_mb_per_cpu'])}M"
    if "gpu" in known:
        kind = f":{known['gpu_model']}" if "gpu_model" in known else ""
        extra["gres"] = f"gpu{kind}:{int(known['gpu'])}"
    extra |= _flags(str(known.get("slurm_extra", "")), rule)
    found: dict[str, Any] = {
        "cpus_per_task": int(known.get("cpus_per_task", threads)),
        # Slurm 22.05 and later: srun does not take the number over from sbatch by itself
        "setup": ["export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}"],
        # whatever the job asks for, its command runs once
        "srun_args": ["--ntasks=1", "--nodes=1"],
        "additional_parameters": extra,
    }
    if "runtime" in known:
        found["time"] = int(known["runtime"])
    return found


def _check(resources: Mapping[str, Any], known: Mapping[str, Any], rule: str) -> None:
    names = sorted({*PLAIN, *OTHERS})
    for name in resources:
        if name.startswith("slurm_") and name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
            raise WorkflowError(f"rule {rule}: unknown resource {name!r}; {hint}")
    for one, other in EXCLUSIVE:
        if one in known and other in known:
            raise WorkflowError(
                f"rule {rule}: resources {one!r} and {other!r} contradict each other; give one of them"
                " (and 0 for the other if a profile sets it for all)"
            )
    # gpu=0 beside a type that a profile gives to all rules is no contradiction
    if "gpu_model" in known and "gpu" not in resources:
        raise WorkflowError(f"rule {rule}: resource 'gpu_model' needs 'gpu', the number of GPUs")
    for name in ("runtime", "mem_mb", "mem_mb_per_cpu", "gpu", "nodes", "tasks", "tasks_per_node", "cpus_per_task"):
        if name in known and not str(known[name]).isdigit():
            raise WorkflowError(f"rule {rule}: resource {name}={known[name]!r} must be a whole number")


def _flags(text: str, rule: str) -> dict[str, Any]:
    """`--exclusive --mail-type=END` as options and their values."""
    found: dict[str, Any] = {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WorkflowError(f"rule {rule}: slurm_extra={text!r}: {error}") from None
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise WorkflowError(f"rule {rule}: slurm_extra: write options as --name=value, not {word!r}")
        if name in OWN:
            raise WorkflowError(f"rule {rule}: slurm_extra: --{name} is left to the executor")
        if name in INSTEAD:
            raise WorkflowError(f"rule {rule}: slurm_extra: --{name}: use the resource {INSTEAD[name]!r}")
        found[name] = value if equals else True
    return found


def _later(value: Any) -> bool:
    """Whether Snakemake knows a value only once the inputs are there."""
    return str(value) == "<TBD>"
