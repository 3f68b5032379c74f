"""Where a result came from: what `run.json` beside every result says. Never imports torch itself."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel

#: the commands import this module before anything heavy, so this is when the run began
STARTED = datetime.now(UTC)

PACKAGES = (
    "hargo",
    "torch",
    "transformers",
    "huggingface_hub",
    "safetensors",
    "tokenizers",
    "peft",
    "sentence-transformers",
    "scikit-learn",
    "numpy",
    "snakemake",
)

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES")


def record(study: BaseModel, **extra: Any) -> dict[str, Any]:
    """The content of `run.json`: the resolved study, the software, the machine and the time taken so far.

    extra: what else decides the run or helps to find it, e.g. `stage`, `seed`, `method`, `options`; wins over
        what is found out here. Pydantic models and paths are turned into plain JSON values.
    """
    now = datetime.now(UTC)
    found = {
        "study": study.model_dump(mode="json"),
        "versions": versions(),
        "git": REVISION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "cpu": cpu_model(),
        "cores": available_cores(),
        "device": device(),
        "kernels": kernels(),
        "threads": threads(),
        "environment": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
        "command": sys.argv,
        "started": STARTED.isoformat(timespec="seconds"),
        "wall_seconds": round((now - STARTED).total_seconds(), 1),
    }
    return found | {key: _plain(value) for key, value in extra.items()}


def versions() -> dict[str, str]:
    """Installed versions of the packages that decide a result; a package that is absent is left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_revision() -> dict[str, Any] | None:
    """Revision of the checkout this package runs from and whether it has changes; None outside git."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():  # a plain installation inside somebody else's checkout is not ours
        return None
    try:
        revision = _git(root, "rev-parse", "HEAD").strip()
        return {"revision": revision, "dirty": bool(_git(root, "status", "--porcelain").strip())}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=20)
    return done.stdout


def cpu_model() -> str:
    """The processor's name, or its architecture where the system does not tell."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def available_cores() -> int:
    """Cores this process may run on, which a scheduler may have made fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def device() -> str | None:
    """The accelerator's name or `cpu`; None where torch is not loaded, so nothing was computed with it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return "cpu"


def kernels() -> str | None:
    """What computes products of matrices on the CPU, in words; None where no model was loaded."""
    found = sys.modules.get("hargo.models.kernels")
    return None if found is None else str(found.kernels())


def threads() -> int | None:
    """The number of CPU threads torch computes with; None where torch is not loaded."""
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Path):
        return str(value)
    return value


#: read when the run begins: a commit made meanwhile is not the code that runs
REVISION = git_revision()
