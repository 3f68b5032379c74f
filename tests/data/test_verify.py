"""Labels against ThreadSanitizer with Archer, and the sandbox that untrusted programs run in."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hargo.cli import main
from hargo.config.options import DataOptions, EmbeddedOptions
from hargo.data import drb, sandbox, verify
from hargo.data.embedded import load
from hargo.data.records import Row, save_rows
from hargo.errors import UserError

RACY = "int a[99];\nint main() {\n#pragma omp parallel for\nfor (int i = 0; i < 98; i++) a[i] = a[i + 1];\nreturn 0;\n}"
FREE = RACY.replace("a[i + 1]", "i")


def row(code: str, answer: str = "no", name: str = "race_c/0") -> Row:
    return Row(name, "race_c", f"Given the code snippet: {code}\nWill it cause a data race?", answer)


@pytest.fixture(scope="module")
def archer() -> verify.Toolchain:
    try:
        return verify.toolchain()
    except UserError as error:
        absent = pytest.fail if os.environ.get("HARGO_REQUIRE_ARCHER") == "1" else pytest.skip
        absent(str(error))


@pytest.fixture(scope="module")
def sandboxed() -> None:
    if reason := sandbox.why_not():
        absent = pytest.fail if os.environ.get("HARGO_REQUIRE_ARCHER") == "1" else pytest.skip
        absent(reason)


def generated(seed: int, count: int) -> list[Row]:
    options = DataOptions(embedded=EmbeddedOptions(seed=seed, kernels=count, eval_kernels=40))
    return [row for row in load(options, ["race_c"]) if row.meta["split"] == "train"]


def test_no_label_of_generated_kernels_is_refuted_and_a_planted_one_is(archer: verify.Toolchain) -> None:
    rows = generated(0, 100)
    racy = next(row for row in rows if row.answer == "yes" and row.meta["family"] == "total")
    planted = replace(racy, id="planted", answer="no")
    chosen = verify.choose([*rows, planted], None, everything=False)
    assert len(chosen) == 51
    found = verify.summarise(verify.verify(chosen))
    assert found["refuted"] == ["planted"]
    assert found["labels"] == {"no": {"clean": 50, "race": 1}} and not found["without_outcome"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_hundreds_of_generated_kernels(archer: verify.Toolchain, seed: int) -> None:
    found = verify.summarise(verify.verify(generated(seed, 200)))
    assert not found["refuted"] and not found["without_outcome"]
    assert found["labels"]["no"] == {"clean": 100}
    assert found["labels"]["yes"]["race"] >= 70


@pytest.mark.slow
def test_sample_of_dataracebench_is_not_refuted(archer: verify.Toolchain, shared_data: Path) -> None:
    rows = drb.load(DataOptions(source="drb", path=str(shared_data / "drb-sample")), ["race_c"])
    found = verify.verify(rows, seconds=120)  # one computes Fibonacci numbers in tasks
    assert not [one.id for one in found if one.refuted]
    assert sum(one.outcome == "race" for one in found) >= 5
    assert {one.outcome for one in found} <= {"race", "clean"}


def test_outcomes(archer: verify.Toolchain) -> None:
    rows = [
        row(RACY, "no", "wrong"),
        row(RACY, "yes", "right"),
        row(FREE, "no", "free"),
        row("#pragma omp parallel\nx = 1;", "no", "snippet"),
        row(FREE.replace("int a", "inty a"), "no", "broken"),
        row("int main() { for (;;); }", "no", "endless"),
        row("int main() { return *(volatile int *)0; }", "no", "crash"),
        row("#include <iostream>\n" + FREE.replace("return", "std::cout << a[0]; return"), "no", "c++"),
    ]
    found = {one.id: one for one in verify.verify(rows, seconds=2)}
    assert [one.id for one in found.values() if one.refuted] == ["wrong"]
    assert {name: one.outcome for name, one in found.items()} == {
        "wrong": "race", "right": "race", "free": "clean", "snippet": "not complete", "broken": "not compiled",
        "endless": "failed", "crash": "failed", "c++": "clean",
    }  # fmt: skip
    assert "inty" in found["broken"].detail and found["endless"].detail == "killed: too much time"
    text = verify.render(verify.summarise(list(found.values())))
    assert "labels refuted: 1 (wrong)" in text and "a clean run proves nothing" in text


def test_only_no_labels_are_run_unless_asked_and_the_draw_is_seeded() -> None:
    rows = [row(FREE, "Yes" if i % 2 else "no, as code follows", f"race_c/{i}") for i in range(40)]
    assert [r.id for r in verify.choose(rows, None, False)] == [f"race_c/{i}" for i in range(0, 40, 2)]
    some = verify.choose(rows, 9, True)
    assert len(some) == 9 and some == verify.choose(rows, 9, True) == sorted(some, key=rows.index)


def test_command_lists_and_fails_on_refuted_labels(
    archer: verify.Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_rows(tmp_path / "train.jsonl", [row(RACY, "no", "race_c/7")])
    save_rows(tmp_path / "eval.jsonl", [row(FREE, "no", "race_c/8")])
    command = ["hargo", "data", "verify", "--data", str(tmp_path), "--out", str(tmp_path / "out")]
    for extra, status in ([], 0), (["--must-hold"], 1):
        monkeypatch.setattr("sys.argv", [*command, *extra])
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == status
        assert "labels refuted: 1 (race_c/7)" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "verify.json").read_text())["refuted"] == ["race_c/7"]


# --- the sandbox ---


def python(code: str, folder: Path, **limits: float) -> sandbox.Outcome:
    return sandbox.run([sys.executable, "-c", code], folder, **limits)


def test_a_program_writes_to_its_folder_only(sandboxed: None, tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    (other / "kept").write_text("here")
    code = f"""
import os
open("mine", "w").write("x")
os.mkdir("sub"); open("sub/file", "w").write("y")
for attempt in (lambda: open({str(other / "new")!r}, "w"), lambda: open({str(other / "kept")!r}, "a"),
                lambda: os.truncate({str(other / "kept")!r}, 0), lambda: os.remove({str(other / "kept")!r}),
                lambda: os.rename("mine", {str(other / "moved")!r}), lambda: os.mkdir({str(other / "d")!r})):
    try:
        attempt()
        print("allowed")
    except OSError:
        print("denied")
"""
    done = python(code, own)
    assert done.code == 0 and done.output.split() == ["denied"] * 6, done.output
    assert (own / "mine").read_text() == "x" and [p.name for p in other.iterdir()] == ["kept"]
    assert (other / "kept").read_text() == "here"


def test_a_program_has_no_network_and_no_secrets(sandboxed: None, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    code = """
import os, socket
print([name for _, name in socket.if_nameindex()], "SOME_TOKEN" in os.environ)
try:
    socket.create_connection(("127.0.0.1", 22), timeout=1)
except OSError as error:
    print(error.strerror)
"""
    done = python(code, tmp_path)
    assert done.output.splitlines()[0] == "['lo'] False" and "unreachable" in done.output


def running(command: str) -> bool:
    """Whether a process with this command line is left, after a moment."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
        if command not in lines:
            return False
        time.sleep(0.05)
    return True


def test_time_and_memory_are_limited_and_children_go_too(sandboxed: None, tmp_path: Path) -> None:
    start = time.monotonic()
    mark = f"sleep {time.time_ns() % 10**6 + 10**6}"
    detached = f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', {mark.split()!r})\n"
    late = python(detached + "time.sleep(60)", tmp_path, seconds=1.5)
    assert late.stopped == "time" and time.monotonic() - start < 10 and not running(mark)
    done = python(detached, tmp_path)
    assert (done.code, done.stopped) == (0, None) and not running(mark)
    big = python("x = bytearray(300 << 20)\nimport time; time.sleep(20)", tmp_path, seconds=15, memory_mb=150)
    assert big.stopped == "memory"
    assert not list(tmp_path.iterdir())


def test_status_and_output_come_back(sandboxed: None, tmp_path: Path) -> None:
    assert python("print('a'); raise SystemExit(3)", tmp_path) == sandbox.Outcome(3, "a\n")
    assert python("import os; os.abort()", tmp_path).code == -6
    assert "sandbox: No such file" in sandbox.run(["/no/such/program"], tmp_path).output


def test_memory_that_the_runtime_uses_again_is_no_race(archer: verify.Toolchain) -> None:
    """libomp gives the memory of a finished task to a new one, of which Archer does not know."""
    row = next(row for row in generated(0, 100) if row.meta["family"] == "task_loop" and row.answer == "no")
    assert all(one.outcome == "clean" for one in verify.verify([row] * 6))
