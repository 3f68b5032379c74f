"""What runs on the compute node: one shell command, told when the job is about to be taken away."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any


class JobFailed(Exception):
    """The command ended with a status other than 0."""


class Task:
    """A command that submitit can call, stop and put back into the queue.

    grace: seconds that the command has to write its checkpoint after the signal
    """

    def __init__(self, command: str, grace: float) -> None:
        self.command, self.grace = command, grace
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        # Slurm signals every process of the job: the shells around the work must not die of it
        self.process = subprocess.Popen(["bash", "-c", self.command], start_new_session=True, preexec_fn=_ignore)
        status = self.process.wait()
        if status != 0:
            raise JobFailed(f"exit status {status}")
        return status

    def checkpoint(self) -> Any:
        """Called by submitit on its signal: pass it on, wait for the checkpoint, go back into the queue."""
        from submitit.helpers import DelayedSubmission

        process, self.process = self.process, None
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGUSR2)
            try:
                process.wait(self.grace)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        return DelayedSubmission(Task(self.command, self.grace))


def _ignore() -> None:
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
