"""The machine that a process runs on: its cores, what its processor can do, and threads. Imports no torch itself."""

from __future__ import annotations

import os
import platform
from functools import lru_cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")

#: what decides how many threads compute and where they run
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES")


def available_cores() -> int:
    """Cores this process may run on, which a scheduler may have made fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def bind_threads(threads: int) -> None:
    """Fix the number of CPU threads, before torch is imported; what the user has set stays.

    Threads are bound to cores only where this process has all cores to itself: unbound threads may share a
    core and run at a fraction of the speed, but two bound processes would all sit on the first cores.
    """
    variables = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    if threads > 1 and threads >= available_cores():
        variables |= {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def cpu_model() -> str:
    """The processor's name, or its architecture where the system does not give it."""
    for line in _cpuinfo().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def maker() -> str:
    """AMD, Intel or other. A virtual machine may hide the processor's name, hardly its maker."""
    text = _cpuinfo() or platform.processor()
    return next((name for key, name in (("AuthenticAMD", "AMD"), ("GenuineIntel", "Intel")) if key in text), "other")


@lru_cache
def processor() -> str:
    """Maker and instruction set, `AMD AVX512`, within what the environment lets torch and oneDNN use.

    Both libraries read it once, when they begin, and so does this. It imports torch, which knows.
    """
    import torch

    instructions = torch.backends.cpu.get_cpu_capability()
    # the settings that keep oneDNN from AVX-512 all begin so
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    if limit.startswith(("SSE", "AVX2")) and instructions == "AVX512":
        instructions = "AVX2"
    return f"{maker()} {instructions}"


def _cpuinfo() -> str:
    """What Linux says of its processors; nothing elsewhere."""
    try:
        return CPUINFO.read_text(encoding="utf-8")
    except OSError:
        return ""
