"""Running programs that nobody has checked: in a child without network, with limits, that can write to one folder only.

Linux only. The child gives up what it may do before it starts the program: a network namespace of its own (so no
network), a process namespace (so that all it has started dies with it), Landlock rules that allow writing below its
folder alone, and limits on processor time, file sizes and core dumps. The parent kills it when it takes too long or too
much memory: sanitizers reserve terabytes of addresses, so that only memory in use can be limited.

Run as a script it is the child: everything that must not happen in a process with threads happens there.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_NEW_USER, _NEW_NET, _NEW_IPC, _NEW_PID = 0x10000000, 0x40000000, 0x08000000, 0x20000000
_NO_RANDOMIZE = 0x0040000
_NO_NEW_PRIVILEGES = 38
# Landlock, the same numbers on all architectures; every right to change files
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITE_FILE = 1 << 1
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
_TRUNCATE = 1 << 14  # from version 3 on
_DEVICES = ("/dev/null", "/dev/tty")


@dataclass(frozen=True)
class Outcome:
    """How a program ended. code: exit status, negative for a signal; stopped: `time` or `memory` if it was killed."""

    code: int
    output: str
    stopped: str | None = None


def why_not() -> str | None:
    """The reason why programs cannot be run here, or None."""
    if platform.system() != "Linux":
        return "the sandbox needs Linux"
    with tempfile.TemporaryDirectory(prefix="hargo-sandbox-") as folder:
        done = run(["true"], Path(folder), seconds=30)
    return None if done.code == 0 else done.output.strip() or f"the sandbox ended with status {done.code}"


def run(
    command: list[str],
    folder: Path,
    seconds: float = 10.0,
    memory_mb: int = 2000,
    environment: dict[str, str] | None = None,
    most_output: int = 200_000,
) -> Outcome:
    """Run `command` in `folder`, the only place it may write to; standard error is part of the output.

    environment: all that the program gets beside PATH, HOME and TMPDIR
    """
    plan = {"command": command, "folder": str(folder), "cpu": int(seconds * 4) + 1}
    given = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C"}
    log = folder / f".output-{os.getpid()}-{time.monotonic_ns()}"
    try:
        with log.open("wb") as sink:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, json.dumps(plan)],
                cwd=folder,
                env={**given, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            stopped = _watch(child, seconds, memory_mb)
        with log.open("rb") as written:
            output = written.read(most_output).decode("utf-8", errors="replace")
    finally:
        log.unlink(missing_ok=True)
    return Outcome(child.returncode, output, stopped)


def _watch(child: subprocess.Popen[bytes], seconds: float, memory_mb: int) -> str | None:
    """Wait for the child; kill it and its children when it exceeds a limit, and its children when it ends."""
    stopped = None
    end = time.monotonic() + seconds
    pause = 0.002
    try:
        while child.poll() is None:
            if time.monotonic() > end:
                stopped = "time"
            elif _memory_mb(child.pid) > memory_mb:
                stopped = "memory"
            if stopped:
                break
            time.sleep(pause)
            pause = min(0.05, 1.5 * pause)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return stopped


def _memory_mb(leader: int) -> float:
    """Resident memory of the child and its descendants, in MiB; orphans stay below the child's own first process."""
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry)], pages[int(entry)] = int(fields[1]), int(fields[21])

    def below(process: int) -> bool:
        while process != leader and process in parents:
            process = parents[process]
        return process == leader

    return sum(count for process, count in pages.items() if below(process)) * os.sysconf("SC_PAGE_SIZE") / 2**20


# --- in the child ---


class _Ruleset(ctypes.Structure):
    _fields_ = [("handled", ctypes.c_uint64)]


class _Below(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def _confine(folder: str, cpu: int) -> None:
    import resource

    libc = ctypes.CDLL(None, use_errno=True)

    def need(result: int, what: str) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), what)
        return result

    libc.personality(_NO_RANDOMIZE)  # ThreadSanitizer needs its addresses
    need(libc.unshare(_NEW_USER | _NEW_NET | _NEW_IPC | _NEW_PID), "no namespaces for the sandbox")
    need(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    version = need(libc.syscall(_CREATE_RULESET, None, 0, 1), "no Landlock")
    changes = _CHANGES | (_TRUNCATE if version >= 3 else 0)
    handled = _Ruleset(changes)
    rules = need(libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0), "no Landlock")
    for path, rights in [(folder, changes), *((device, _WRITE_FILE) for device in _DEVICES)]:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        below = _Below(rights, place)
        need(libc.syscall(_ADD_RULE, rules, 1, ctypes.byref(below), 0), "Landlock rule")
    need(libc.syscall(_RESTRICT_SELF, rules, 0), "Landlock")
    for limit, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 64 * 2**20),
        (resource.RLIMIT_CPU, cpu),
    ):
        resource.setrlimit(limit, (most, most))


def _start(command: list[str]) -> int:
    """Run the program as the child of a first process of the new namespace; its wait status.

    When that first process ends, the kernel ends all others of the namespace.
    """
    reading, writing = os.pipe()
    first = os.fork()
    if first == 0:
        program = os.fork()
        if program == 0:
            try:
                os.execvp(command[0], command)
            except OSError as error:
                print(f"sandbox: {error.strerror}: {command[0]}", flush=True)
                os._exit(126)
        while True:
            ended, status = os.wait()
            if ended == program:
                os.write(writing, str(status).encode())
                os._exit(0)
    os.close(writing)
    told = os.read(reading, 20)
    os.waitpid(first, 0)
    return int(told or 126 << 8)


def _child() -> None:
    plan = json.loads(sys.argv[1])
    try:
        _confine(plan["folder"], plan["cpu"])
        status = _start(plan["command"])
    except OSError as error:
        print(f"sandbox: {error.strerror}", flush=True)
        os._exit(126)
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _child()
