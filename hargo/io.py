"""Files: atomic writes, JSON and JSON lines. A reader never sees a half-written file."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hargo.errors import UserError

#: errors of a disk, of a file system (ESTALE and EIO come from network ones) or of permissions, none of the program's
FILE_SYSTEM = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
    *(errno.EIO, errno.ESTALE, errno.EXDEV, errno.EBUSY, errno.ENOTEMPTY, errno.ETIMEDOUT),
    *(errno.EMFILE, errno.ENFILE),
}


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path` through a temporary file in the same folder, synced, then renamed.

    Half a surrogate pair, which UTF-8 cannot hold, is written `\\ud800`: JSON reads that back as it was.
    """
    path = Path(path)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        # created like any file, so that its mode is the umask's
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def copy_file(source: Path, path: Path) -> None:
    """Copy the content of a file, whole or not at all; mode and times are those of a new file."""
    temporary = _beside(path)
    try:
        shutil.copyfile(source, temporary)
        _sync(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary sibling folder that becomes `path` (replacing it) when the block succeeds."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for stale in path.parent.glob(f".{path.name}.*"):  # left by a process that was killed here
        shutil.rmtree(stale, ignore_errors=True)
    temporary, old = _beside(path), _beside(path)
    temporary.mkdir()
    try:
        yield temporary
        _common_mode(temporary)
        sync_tree(temporary)
        if path.exists():
            os.replace(path, old)
            try:
                os.replace(temporary, path)
            except BaseException:
                os.replace(old, path)
                raise
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(temporary, path)
        _sync(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _beside(path: Path) -> Path:
    """A name in the folder of `path` that no other process uses."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")


def _common_mode(folder: Path) -> None:
    """Give files below `folder` the mode of a new file, which that of the new `folder` shows: safetensors makes its
    files for their owner alone. File systems that keep modes of their own may refuse."""
    mode = folder.stat().st_mode & 0o666
    for item in folder.rglob("*"):
        if item.is_file() and item.stat().st_mode & 0o777 != mode:
            with suppress(OSError):
                item.chmod(mode)


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Raise safetensors' own error for a failed write as the OSError that it is, which names `path`."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise OSError(errno.ENOSPC, f"cannot be written ({error})", str(path)) from None


def sync_tree(folder: Path) -> None:
    """Flush every file below `folder` to disk, so that a rename never outruns the data."""
    for item in sorted(folder.rglob("*")):
        _sync(item)
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # some network file systems cannot sync a folder; a full disk is an error
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.ENOSYS):
            raise
    finally:
        os.close(handle)


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_text(path: str | Path) -> str:
    """The content of a UTF-8 file; UserError of one line where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None


def read_json(path: str | Path) -> Any:
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None


def write_jsonl(path: str | Path, rows: Iterable[Any]) -> None:
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_jsonl(path: str | Path) -> list[Any]:
    rows = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise UserError(f"{path}, line {number}: not valid JSON ({error}); fix or delete the line") from None
    return rows
