"""Files appear whole, with the umask's mode, on file systems of all kinds; what cannot be read is one line."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from hargo.errors import UserError
from hargo.io import atomic_folder, copy_file, read_json, read_jsonl, write_json, write_text


def refuse(number: int):
    def call(*_, **__):
        raise OSError(number, os.strerror(number), "somewhere")

    return call


@pytest.fixture(params=[0o022, 0o077, 0o007])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_new_files_and_folders_have_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    write_text(tmp_path / "a.json", "{}")
    copy_file(tmp_path / "a.json", tmp_path / "b.json")
    with atomic_folder(tmp_path / "model") as folder:
        (folder / "weights").touch(mode=0o600)
        (folder / "part").mkdir()
        (folder / "part" / "private").touch(mode=0o600)
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~umask, path


def test_a_file_system_that_refuses_chmod_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("chmod", "fchmod", "lchmod"):
        monkeypatch.setattr(os, name, refuse(errno.EPERM), raising=False)
    write_text(tmp_path / "a.json", "{}")
    copy_file(tmp_path / "a.json", tmp_path / "b.json")
    for text in ("one", "two"):
        with atomic_folder(tmp_path / "model") as folder:
            (folder / "weights").touch(mode=0o600)
            (folder / "text").write_text(text)
    assert (tmp_path / "model" / "text").read_text() == "two" and (tmp_path / "b.json").read_text() == "{}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json", "model"]


def test_a_file_system_that_cannot_sync_folders_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        os, "fsync", lambda handle: refuse(errno.EINVAL)() if os.path.isdir(f"/proc/self/fd/{handle}") else None
    )
    with atomic_folder(tmp_path / "model") as folder:
        (folder / "weights").touch()
    assert (tmp_path / "model" / "weights").is_file()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EXDEV, errno.ESTALE])
def test_what_was_there_survives_a_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    write_text(tmp_path / "a.json", "old")
    with atomic_folder(tmp_path / "model") as folder:
        (folder / "weights").write_text("old")
    real = os.replace

    def replace(source, target):  # the last rename fails, as on a network file system
        weights = Path(source) / "weights"
        if Path(target).name in ("a.json", "model") and (not weights.is_file() or weights.read_text() == "new"):
            refuse(number)()
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError):
        write_text(tmp_path / "a.json", "new")
    with pytest.raises(OSError), atomic_folder(tmp_path / "model") as folder:
        (folder / "weights").write_text("new")
    assert (tmp_path / "a.json").read_text() == "old" and (tmp_path / "model" / "weights").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "model"]


def test_what_cannot_be_read_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_json(tmp_path / "none.json")
    with pytest.raises(UserError, match="is a directory"):
        read_jsonl(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    with pytest.raises(UserError, match="not UTF-8"):
        read_json(tmp_path / "latin.json")
    write_json(tmp_path / "a.json", {})
    monkeypatch.setattr(Path, "read_text", refuse(errno.EACCES))
    with pytest.raises(UserError, match=r"a\.json: permission denied"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ESTALE, errno.EXDEV, errno.EIO])
def test_an_error_of_the_file_system_is_one_line_and_status_2(tmp_path: Path, number: int) -> None:
    code = (
        "import os, sys, hargo.io\n"
        f"def fail(*a): raise OSError({number}, os.strerror({number}), 'results/x')\n"
        "os.replace = fail\n"
        f"out = {str(tmp_path / 'a.yaml')!r}\n"
        "sys.argv = ['hargo', 'config', 'resolve', '--config', 'config/demo.yaml', '--out', out]\n"
        "from hargo.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"error: results/x: {os.strerror(number)}; fix that and run it again"]
