"""Two processes never share a folder of checkpoints, and a dead one's is taken over, from another node too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from places import ROOT

from hargo.errors import UserError
from hargo.training import lock
from hargo.training.lock import confirm, locked

HOLD = (
    "import sys, time; from pathlib import Path; from hargo.training import lock\n"
    "lock.BEAT = 0.05\n"
    "with lock.locked(Path(sys.argv[1])):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(60)\n"
)


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that has the folder."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def elsewhere(folder: Path, **change: object) -> None:
    """As if the file were written on another node."""
    path = folder / lock.NAME
    known = json.loads(path.read_text()) if path.is_file() else lock._this_process()
    path.write_text(json.dumps({**known, "host": "node17", **change}))


def test_a_second_process_is_told_who_has_the_folder(tmp_path: Path, holder: subprocess.Popen) -> None:
    with pytest.raises(UserError, match=f"in use by process {holder.pid} on .*LOCK") as error, locked(tmp_path):
        pass
    assert "\n" not in str(error.value)


def test_the_folder_of_a_killed_process_is_taken_over_at_once(tmp_path: Path, holder: subprocess.Popen) -> None:
    holder.kill()
    holder.wait()
    began = time.monotonic()
    with locked(tmp_path):
        assert json.loads((tmp_path / lock.NAME).read_text())["pid"] == os.getpid()
    assert time.monotonic() - began < 1 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", [{"started": "1"}, {"boot": "before the last start"}, {"pid": 2**22 + 1}])
def test_a_process_id_used_again_does_not_keep_the_folder(tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / lock.NAME).write_text(json.dumps({**lock._this_process(), **change}))
    with locked(tmp_path):
        pass


def test_a_process_on_another_node_keeps_the_folder_while_it_shows_life(
    tmp_path: Path, holder: subprocess.Popen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "SILENCE", 2.0)
    elsewhere(tmp_path)
    with pytest.raises(UserError, match="on node17"), locked(tmp_path):
        pass


def test_a_silent_process_on_another_node_loses_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "SILENCE", 0.3)
    elsewhere(tmp_path)
    with locked(tmp_path):
        pass
    (tmp_path / lock.NAME).write_text("")  # died while it wrote
    with locked(tmp_path):
        pass


def test_a_job_that_was_requeued_takes_over_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(tmp_path, job="4711", restarts=0)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    with locked(tmp_path):
        assert json.loads((tmp_path / lock.NAME).read_text())["restarts"] == 1


def test_who_was_taken_for_dead_writes_nothing_more(tmp_path: Path) -> None:
    with locked(tmp_path):
        confirm(tmp_path)
        elsewhere(tmp_path, token="another")
        with pytest.raises(UserError, match=r"on node17.*has taken over"):
            confirm(tmp_path)
    assert (tmp_path / lock.NAME).is_file()  # the other's


def test_of_many_that_start_at_once_one_has_the_folder(tmp_path: Path) -> None:
    elsewhere(tmp_path, host=lock._this_process()["host"], pid=2**22 + 1)  # left by a dead process
    code = (
        "import sys; from pathlib import Path; from hargo.training.lock import locked\n"
        "from hargo.errors import UserError\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "try:\n"
        "    with locked(Path(sys.argv[1])):\n"
        "        print('held', flush=True); sys.stdin.readline()\n"
        "except UserError as error: print(error, flush=True)"
    )
    command, pipes = [sys.executable, "-c", code, str(tmp_path)], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen(command, cwd=ROOT, text=True, **pipes) for _ in range(6)]
    assert {process.stdout.readline() for process in processes} == {"ready\n"}
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.stdout.readline() for process in processes]
    for process in processes:
        process.communicate("\n")
    assert told.count("held\n") == 1 and sum("in use by" in text for text in told) == 5, told
    assert list(tmp_path.iterdir()) == []
