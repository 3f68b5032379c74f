"""Changes that keep a program's meaning: what they change and leave, and that programs compile and race as before."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

from hargo.config.options import DataOptions, EmbeddedOptions
from hargo.data import verify
from hargo.data.build import load_source
from hargo.data.embedded import load
from hargo.data.grammar import tokens
from hargo.data.perturb import KINDS, perturb
from hargo.data.programs import LANGUAGES, take_apart, unwrap
from hargo.data.records import Row
from hargo.data.roles import mask
from hargo.errors import UserError

C = """#include <stdio.h>
#define LEN 100
int total(int *data, int count) { return data[count - 1]; }
int main(int argc, char *argv[]) {
  int i, j;
  double x = 0, y[LEN];
  int data[100];
#pragma omp parallel for private(j) schedule(static, 4) reduction(+:x)
  for (i = 0; i < 100; i++) { data[i] = i; x += data[99]; }
  printf("i %d\\n", total(data, 100));
}"""
FORTRAN = """program sums
  use omp_lib
  implicit none
  integer, parameter :: N = 64
  integer :: i, len, last
  real(kind=8) :: a(64), s
  character(len=8) :: word
  !$omp parallel do private(last) shared(A)
  do i = 1, n - 1
    a(i) = a(i + 1) + 1.0d0
  end do
end program sums"""


def changed(code: str, language: str, kind: str, seed: int = 0) -> str | None:
    return KINDS[kind](code, language, random.Random(seed))


def names(code: str, language: str) -> list[str]:
    return [text for kind, text in tokens(code, language) if kind == "name"]


def test_rename_by_hand() -> None:
    code = changed(C, "c", "rename")
    assert code is not None
    new = dict(zip(names(C, "c"), names(code, "c"), strict=True))
    kept = {"include", "stdio", "h", "define", "main", "printf", "pragma", "schedule", "reduction", "private", "static"}
    assert all(new[name] == name for name in kept)
    assert all(new[name] != name for name in ("LEN", "total", "data", "count", "argc", "argv", "i", "j", "x", "y"))
    assert len(set(new.values())) == len(new)  # one to one
    assert mask(code, "c") == mask(C, "c") and '"i %d\\n"' in code


def test_rename_in_fortran_folds_case_and_keeps_specifiers() -> None:
    code = changed(FORTRAN, "fortran", "rename")
    assert code is not None
    new = {k.lower(): v for k, v in zip(names(FORTRAN, "fortran"), names(code, "fortran"), strict=True)}
    assert new["n"] != "n" and new["a"] != "a" and new["sums"] != "sums" and new["last"] != "last"
    assert new["len"] == "len" and new["omp_lib"] == "omp_lib" and new["kind"] == "kind"
    assert mask(code, "fortran") == mask(FORTRAN, "fortran")


def test_a_fragment_has_its_variables_renamed() -> None:
    code = changed("#pragma omp parallel for\nfor (i = 0; i < n; i++) out2[i] = sqrt(b.x * b[i]);", "c", "rename")
    assert code is not None and "sqrt" in code and ".x" in code and "out2" not in code and "parallel for" in code


def test_reorder_by_hand() -> None:
    found = {changed(C, "c", "reorder", seed) for seed in range(30)}
    assert len(found) > 3
    for code in found:
        assert code is not None and Counter(names(code, "c")) == Counter(names(C, "c"))
        lines = code.split("\n")
        assert lines[:4] == C.split("\n")[:4] and lines[7:] == C.split("\n")[7:]


def test_reorder_leaves_what_depends_on_another() -> None:
    code = "int n = 4, m = 5;\nint a[n];\nint b = f(n), c;\n"
    found = {changed(code, "c", "reorder", seed) for seed in range(20)}
    assert found == {code, code.replace("n = 4, m = 5", "m = 5, n = 4")}
    fortran = {changed(FORTRAN, "fortran", "reorder", seed) for seed in range(40)}
    assert all("parameter :: N = 64\n" in (one or "") and "character(len=8)" in (one or "") for one in fortran)
    assert any("real(kind=8) :: s, a(64)" in (one or "") for one in fortran)


def test_resize_by_hand() -> None:
    code = changed(C, "c", "resize")
    assert code is not None
    numbers = [int(t) for k, t in tokens(code, "c") if k == "number" and t.isdigit()]
    before = [int(t) for k, t in tokens(C, "c") if k == "number" and t.isdigit()]
    steps = {b: n - b for b, n in zip(before, numbers, strict=True)}
    assert steps[100] == steps[99] >= 4 and steps[100] % 2 == 0
    assert all(step == 0 for value, step in steps.items() if value < 99)
    assert mask(code, "c") == mask(C, "c")


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("#pragma omp simd safelen(64)\nfor (i = 64; i < 66; i++) a[i] = a[i - 64];", "c"),
        ("#pragma omp parallel num_threads(32)\nx = 1;", "c"),
        ("for (i = 0; i < 8; i++) a[i] = 1;", "c"),
        ("  print 300, x(500)\n  300 format (F10.6)", "fortran"),
    ],
)
def test_what_cannot_be_resized(code: str, language: str) -> None:
    assert changed(code, language, "resize") is None


def test_the_same_row_changes_alike_and_keeps_its_frame() -> None:
    row = Row("race_c/1", "race_c", f"Given the code snippet: {C}\nWill the code cause a data race? Say.", "yes")
    for kind in KINDS:
        one = perturb(row, kind)
        assert one is not None and one == perturb(row, kind) and one.id == row.id and one.answer == "yes"
        assert one.prompt != row.prompt and one.prompt.endswith("\nWill the code cause a data race? Say.")


def generated() -> list[Row]:
    rows = load(DataOptions(embedded=EmbeddedOptions(kernels=40, eval_kernels=16)), list(LANGUAGES))
    return [row for row in rows if row.meta["split"] == "train"]


def test_most_generated_kernels_can_be_changed() -> None:
    rows = generated()
    for kind, share in {"rename": 0.95, "reorder": 0.4, "resize": 0.75}.items():
        assert sum(perturb(row, kind) is not None for row in rows) >= share * len(rows)


def compiles(row: Row, folder: Path) -> bool:
    code = unwrap(take_apart(row.prompt).code)
    path = folder / ("k.c" if row.task == "race_c" else "k.f95")
    path.write_text(code + "\n")
    command = ["gcc" if row.task == "race_c" else "gfortran", "-fsyntax-only", "-w", "-fopenmp", str(path)]
    return subprocess.run(command, capture_output=True, cwd=folder).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gfortran"), reason="no gfortran on PATH")
@pytest.mark.parametrize("source", ["embedded", "hpcgpt"])
def test_what_compiled_still_compiles(source: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if source == "hpcgpt":
        path = str(request.getfixturevalue("shared_data") / "hpcgpt")
        rows = load_source(DataOptions(source=source, path=path), list(LANGUAGES))
        rows = random.Random(1).sample(rows, 250)
    else:
        rows = generated()
    checked = 0
    for row in rows:
        if (row.task == "race_c" and "main" not in row.prompt) or not compiles(row, tmp_path):
            continue
        for kind in KINDS:
            one = perturb(row, kind)
            if one is not None:
                checked += 1
                assert compiles(one, tmp_path), (kind, row.id, take_apart(one.prompt).code)
    assert checked > 150


@pytest.mark.slow
def test_changed_kernels_race_as_before() -> None:
    try:
        verify.toolchain()
    except UserError as error:
        pytest.skip(str(error))
    rows = [row for row in generated() if row.task == "race_c"]
    made = [replace(one, id=f"{kind} {row.id}") for row in rows for kind in KINDS if (one := perturb(row, kind))]
    found = verify.verify(made)
    assert not [one.id for one in found if one.refuted]
    assert {one.outcome for one in found} == {"race", "clean"}


def test_evaluation_asks_changed_programs_too(tmp_path: Path) -> None:
    from hargo.evaluation.run import evaluate
    from hargo.io import read_jsonl
    from hargo.models.prepare import prepare

    data = tiny.write_data(tmp_path / "data", train=16, evaluation=8)
    prepare(tiny.study(), data, tmp_path / "base")
    for wanted in (True, False):
        evaluate(tiny.study(evaluation={"perturb": wanted}), tmp_path / "base", data, tmp_path / "out")
        rows = read_jsonl(tmp_path / "out" / "predictions.jsonl")
        assert all(("rename" in row.get("perturbed", {})) == wanted for row in rows)
        assert not any(
            "reorder" in row.get("perturbed", {}) for row in rows
        )  # nothing is declared on a line of its own
