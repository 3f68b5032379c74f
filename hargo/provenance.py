"""Where a result came from: what `run.json` beside every result says. Never imports torch itself."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hargo.machine import available_cores, cpu_model

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

#: how the variables begin that libraries read whatever a study says: threads, kernels, devices, caches, hashes, words
ENVIRONMENT = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|ONEDNN|DNNL|TORCH|TORCHINDUCTOR|PYTORCH|ATEN|CUDA|CUBLAS|CUDNN|NVIDIA|NCCL|TF32"
    r"|TRANSFORMERS|HF|HUGGINGFACE|SAFETENSORS|TOKENIZERS|HARGO|PYTHON|LC)_\w+|PYTHON\w+|LANG|LANGUAGE|LD_PRELOAD"
)
SECRET = re.compile(r"TOKEN$|KEY|SECRET|PASS", re.IGNORECASE)

#: of git's variables those that say where git itself and the user's settings are; the others may name a repository
GIT_KEPT = {"GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"}


def record(study: BaseModel, **extra: Any) -> dict[str, Any]:
    """The content of `run.json`: the resolved study, the software, the machine and the time taken so far.

    extra: what else decides the run or helps to find it, e.g. `stage`, `seed`, `method`, `options`; wins over
        what is found out here. Pydantic models and paths are turned into plain JSON values.
    """
    now = datetime.now(UTC)
    facts = {
        "study": study.model_dump(mode="json"),
        "versions": versions(),
        "git": checkout(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "host": platform.node(),
        "cpu": cpu_model(),
        "cores": available_cores(),
        "device": device(),
        "kernels": kernels(),
        "threads": threads(),
        "environment": environment(),
        "command": sys.argv,
        "started": STARTED.isoformat(timespec="seconds"),
        "wall_seconds": round((now - STARTED).total_seconds(), 1),
    }
    return facts | {key: _plain(value) for key, value in extra.items()}


def versions() -> dict[str, str]:
    """Installed versions of the packages that decide a result; a package that is absent is left out."""
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def environment() -> dict[str, str]:
    """The variables that may change a result; of those that hold a secret only that they are set."""
    variables = {name: value for name, value in sorted(os.environ.items()) if ENVIRONMENT.fullmatch(name)}
    return {name: "(set)" if SECRET.search(name) else value for name, value in variables.items()}


def git_revision() -> dict[str, Any] | None:
    """`revision` and `dirty` of the checkout that this package runs from; None where there is none."""
    state = checkout()
    return state if "revision" in state else None


@cache
def checkout() -> dict[str, Any]:
    """`revision` of the repository that holds this package and whether it has changes (`dirty`), else the `reason`.

    Git is run once, when a stage begins.
    """
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():  # a plain installation inside somebody else's checkout is not ours
        return {"reason": f"{root} is not a git checkout"}
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel").strip()) != root:
            return {"reason": f"{root} is not a git checkout of its own"}
        if not _git(root, "ls-files", "--", str(Path(__file__).resolve())):
            return {"reason": f"the git checkout at {root} does not hold this package"}
        revision = _git(root, "rev-parse", "HEAD").strip()
        return {"revision": revision, "dirty": bool(_git(root, "status", "--porcelain").strip())}
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        return {"reason": f"git {error.cmd[3]}: {lines[0] if lines else f'exit status {error.returncode}'}"}
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"reason": f"git: {error}"}


def _git(root: Path, *arguments: str) -> str:
    """What git prints for the repository at `root`, whatever another one that called us has set for its own git."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in GIT_KEPT}
    # no repository further up, no lock in the way of other jobs, messages in English
    clean |= {"GIT_CEILING_DIRECTORIES": str(root.parent), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20, env=clean).stdout


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
    module = sys.modules.get("hargo.engine.kernels")
    return None if module is None else str(module.kernels())


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
