"""One process at a time in a folder of checkpoints, on any file system.

A file names the process that has the folder, and that process writes to it every few seconds. On its own host a dead
process is known by its id and start; elsewhere by its silence, so that a job that was requeued to another node can take
over.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from hargo.errors import UserError

logger = logging.getLogger(__name__)

NAME = "LOCK"
#: seconds between two signs of life, and without one until a process elsewhere counts as dead
BEAT = 10.0
SILENCE = 90.0

Holder = dict[str, Any]
_held: dict[Path, Holder] = {}


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Have `folder` for this process alone; UserError of one line while another one has it."""
    folder.mkdir(parents=True, exist_ok=True)
    path, me = folder / NAME, _this_process()
    _take(path, me)
    _held[folder.resolve()] = me
    done = threading.Event()
    signs = threading.Thread(target=_live, args=(path, done), daemon=True)
    signs.start()
    try:
        yield
    finally:
        done.set()
        signs.join()
        del _held[folder.resolve()]
        if _read(path) == me:
            path.unlink(missing_ok=True)


def confirm(folder: Path) -> None:
    """UserError where this process had `folder` and was taken for dead, for example because it was suspended."""
    me = _held.get(folder.resolve())
    if me is not None and (holder := _read(folder / NAME)) != me:
        raise UserError(f"{folder}: {_name(holder)} has taken over; this process ends without writing")


def _this_process() -> Holder:
    return {
        "host": platform.node(),
        "boot": _line("/proc/sys/kernel/random/boot_id"),
        "space": _space(),
        "pid": os.getpid(),
        "started": _started(os.getpid()),
        "job": os.environ.get("SLURM_JOB_ID", ""),
        "restarts": int(os.environ.get("SLURM_RESTART_COUNT") or 0),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "token": secrets.token_hex(8),
    }


def _take(path: Path, me: Holder) -> None:
    """Create the file, after one that a dead process left has been moved away."""
    while True:
        try:
            with open(path, "x", encoding="utf-8") as file:
                json.dump(me, file)
            return
        except FileExistsError:
            holder = _read(path)
        if holder is None:
            continue  # it ended just now
        if not (_ended(holder, me) or _silent(path, holder)):
            raise UserError(
                f"{path.parent}: in use by {_name(holder)}; wait for it or end it; if it is gone, delete {path}"
            )
        _remove(path, holder)


def _remove(path: Path, holder: Holder) -> None:
    """Delete the file of a dead holder, unless another process has done so: one at a time looks and deletes."""
    guard = path.with_name(f".{NAME}.removal")
    try:
        guard.touch(exist_ok=False)
    except FileExistsError:
        time.sleep(0.05)
        with suppress(FileNotFoundError):
            if time.time() - guard.stat().st_mtime > SILENCE:  # its process died between two lines
                guard.unlink()
        return
    try:
        if _read(path) == holder:
            logger.warning("%s: taking over from %s, which has ended", path.parent, _name(holder))
            path.unlink()
    finally:
        guard.unlink(missing_ok=True)


def _ended(holder: Holder, me: Holder) -> bool:
    """Whether the holder is known to be dead. False where it cannot be known from here."""
    if me["job"] and holder.get("job") == me["job"] and holder.get("restarts", 0) < me["restarts"]:
        return True  # Slurm starts a job again when it has ended
    if holder.get("host") != me["host"]:
        return False
    if holder.get("boot") != me["boot"]:
        return True
    return holder.get("space") == me["space"] and not _alive(holder)


def _alive(holder: Holder) -> bool:
    """Whether a process that this one can see is alive."""
    try:
        os.kill(holder["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _started(holder["pid"]) == holder["started"]


def _silent(path: Path, holder: Holder) -> bool:
    """Whether a process that cannot be checked gives no sign of life for as long as `SILENCE`, or lets go."""
    me = _this_process()
    if holder.get("host") == me["host"] and holder.get("space") == me["space"]:
        return False  # it is known to live
    logger.info("%s: waiting up to %.0f s to see whether %s is still alive", path.parent, SILENCE, _name(holder))
    last, since = _changed(path), time.monotonic()
    while time.monotonic() - since < SILENCE:
        time.sleep(min(1.0, SILENCE / 10))
        now = _changed(path)
        if now is None:
            return True
        if now != last:
            return False
    return True


def _live(path: Path, done: threading.Event) -> None:
    """Change the file every few seconds; nothing is written where it has gone."""
    while not done.wait(BEAT):
        with suppress(OSError), open(path, "r+b") as file:
            file.write(b"{")


def _changed(path: Path) -> int | None:
    """When the file changed last, by the file system's clock; None where it has gone."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _read(path: Path) -> Holder | None:
    """The holder; None without a file, {} while one is being written."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _name(holder: Holder | None) -> str:
    if not holder:
        return "another process"
    return f"process {holder.get('pid')} on {holder.get('host')} (since {holder.get('since')})"


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty where it has ended or the system does not tell."""
    fields = _line(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return "" if len(fields) < 20 or fields[0] in "ZX" else fields[19]


def _space() -> str:
    """Which processes this one can see: those of a container are others."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
