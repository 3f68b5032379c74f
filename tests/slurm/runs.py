"""Running Snakemake with the submitit executor on a test cluster, and counting its calls of Slurm's programs."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cluster import Cluster

#: processes that tests have started; those that a failed test leaves are ended, see conftest.py
STARTED: list[subprocess.Popen[bytes]] = []
PROGRAMS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "srun")


def eventually(ready: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.2)


def heed_interrupts() -> None:
    """What a shell starts in the background ignores them, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Run:
    """One call of Snakemake in a folder that is its own or that of an earlier run.

    without: programs that fail; first: commands that a program's first call runs instead of the program; executor:
    another one than this project's, from `packages`, a folder for PYTHONPATH
    """

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        snakefile: str | None,
        *options: str,
        without: tuple[str, ...] = (),
        first: dict[str, str] | None = None,
        executor: str = "submitit",
        packages: Path | None = None,
    ) -> None:
        self.folder, self.conf = folder, cluster.environment["SLURM_CONF"]
        if snakefile is not None:
            (folder / "Snakefile").write_text(snakefile)
        self.tools = folder / "tools"
        shutil.rmtree(self.tools, ignore_errors=True)
        self._tools(without, first or {})
        command = [sys.executable, "-m", "snakemake", "--executor", executor, "--jobs", "300", "--latency-wait", "5"]
        poll = "--submitit-poll" if executor == "submitit" else "--seconds-between-status-checks"
        environment = {**os.environ, **cluster.environment, "PATH": f"{self.tools}:/usr/bin:/bin"}
        if packages:
            environment["PYTHONPATH"] = str(packages)
        self.log = folder / "told"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, poll, "2", "--quiet", "host", *options],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=heed_interrupts,
            )
        STARTED.append(self.process)

    def _tools(self, without: tuple[str, ...], first: dict[str, str]) -> None:
        """A folder for PATH: each program notes a call before the real one runs."""
        self.tools.mkdir()
        for name in PROGRAMS:
            real = shutil.which(name)
            path = self.tools / name
            if real is None:
                continue
            # some executors take SLURM_CONF out of the environment
            body = f'export SLURM_CONF={self.conf}; exec {real} "$@"'
            if name in without:
                body = f"echo {name}: error: Problem talking to the database: Connection refused >&2; exit 1"
            if name in first:
                body = f"if mkdir {self.tools}/{name}.first 2>/dev/null; then {first[name]}; fi\n{body}"
            path.write_text(f"#!/bin/bash\necho {name} >> {self.tools}/calls\n{body}\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def wait(self, seconds: float = 180) -> int:
        """Exit status; what Snakemake wrote is in `told`."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)
            raise AssertionError(f"not within {seconds} s:\n{self.told}") from None

    @property
    def told(self) -> str:
        return self.log.read_text()

    def calls(self, *names: str) -> int:
        """How often these programs were called, by the executor or by jobs."""
        path = self.tools / "calls"
        return sum(path.read_text().split().count(name) for name in names) if path.exists() else 0
