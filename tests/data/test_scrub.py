"""Scrubbing keeps programs whole and takes out what tells the label."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hargo.config.options import DataOptions
from hargo.data import hpcgpt
from hargo.data.grammar import tokens
from hargo.data.programs import LANGUAGES, take_apart, unwrap, wrapped
from hargo.data.roles import mask
from hargo.data.scrub import label_in_name, scrub, scrub_code, telling_name, telling_text

FORTRAN = """module DRB100
    integer :: dataRace
end module DRB100
program DRB100_task_orig_no ! has no race
    use drb100
    !$omp parallel do safelen(4) ! racy
    do i = 1, 100
        datarace = datarace + 1
    end do
    ! Data race occurs here
    print *, 'it''s Data Race Present', "a(50)=", prog1
    write (*, '(a)', advance='no') 'x'
end program DRB100_task_orig_no"""

SCRUBBED = """module mod1
    integer :: name1
end module mod1
program prog2
    use mod1
    !$omp parallel do safelen(4)
    do i = 1, 100
        name1 = name1 + 1
    end do
    print *, 'text', "a(50)=", prog1
    write (*, '(a)', advance='no') 'x'
end program prog2"""


def test_fortran_names_comments_and_strings() -> None:
    assert scrub_code(FORTRAN, "fortran") == SCRUBBED
    assert scrub_code(SCRUBBED.replace("prog1", "x").replace("prog2", "prog1"), "fortran").startswith("module mod1")


def test_c_names_comments_and_strings() -> None:
    code = """int race_x; /* yes:
 race */
#pragma omp parallel // Data race occurs here
{ printf("no race %d %s\\n", race_x, "//"); }"""
    clean = """int name1;
#pragma omp parallel
{ printf("text %d %s\\n", name1, "//"); }"""
    assert scrub_code(code, "c") == clean


@pytest.mark.parametrize(
    "name", ["data_race", "DataRaceYes", "nodatarace", "DRB001", "no_omp1", "NO_DATA_RACE", "RaceX"]
)
def test_telling_names(name: str) -> None:
    assert telling_name(name)


@pytest.mark.parametrize("name", ["safelen", "trace", "nowait", "number", "norm", "i", "brace_count", "omp_get_wtime"])
def test_plain_names(name: str) -> None:
    assert not telling_name(name)


def test_first_label_in_a_name_counts() -> None:
    assert label_in_name("DRB001_antidep1_orig_yes") == "yes"
    assert label_in_name("DRB142_reduction_no_barrier_orig_yes") == "no"
    assert label_in_name("lastprivate_No2") == "no"
    assert label_in_name("DRB012_nowait") is None


def test_wrappings_come_off() -> None:
    for text in (
        "```c\nx;\n```",
        "'\nx;\n'",
        "12'\nx;\n'",
        '"""\nx;\n"""',
        "** \n```cpp\nx;\n```\n**",
        "3\nx;",
        "x;",
        "```x;```",
    ):
        assert unwrap(text) == "x;"
    for whole in ("print *, 'x'", 'puts("x");', "c = 'a'"):
        assert unwrap(whole) == whole and unwrap(f"```c\n{whole}\n```") == whole
    assert [wrapped(text) for text in ("```x```", "1'x'", " **x**", "x", "2\nx")] == [True, True, True, False, False]


def test_masking_ignores_names_numbers_layout_and_comments() -> None:
    one = "#pragma omp parallel for\nfor (int i = 0; i < 100; i++) a[i] = b[i] + 1; // no race"
    two = "```c\n#pragma omp parallel for\nfor (int k=0; k<7; k++)\n  xs[k] = ys[k] + 23;\n```"
    assert mask(one, "c") == mask(two, "c")
    assert mask(one, "c") != mask(two.replace("ys[k] +", "ys[k] *"), "c")


def test_real_rows_are_scrubbed_clean(shared_data: Path) -> None:
    rows = hpcgpt.load(DataOptions(source="hpcgpt", path=str(shared_data / "hpcgpt")), list(LANGUAGES))
    for row in rows[::3]:  # a third keeps this quick
        language = LANGUAGES[row.task]
        code = take_apart(scrub(row).prompt).code
        assert scrub_code(code, language) == code, row.id
        before = tokens(unwrap(take_apart(row.prompt).code), language)
        after = tokens(code, language)
        assert "".join(text for _, text in after) == code
        for kind, text in after:
            assert kind != "comment", row.id
            assert not (kind == "name" and telling_name(text)), (row.id, text)
            assert not (kind == "string" and telling_text(text)), (row.id, text)
        kept = [[text for kind, text in side if kind in ("number", "other")] for side in (before, after)]
        assert kept[0] == kept[1], row.id


def compiles(job: tuple[str, str]) -> bool:
    code, language = job
    compiler, name = ("gfortran", "a.f90") if language == "fortran" else ("gcc", "a.c")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_text(code, encoding="utf-8")
        command = [compiler, "-fsyntax-only", "-fopenmp", "-w", name]
        return subprocess.run(command, cwd=folder, capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(("task", "compiler", "fewest"), [("race_fortran", "gfortran", 1400), ("race_c", "gcc", 150)])
def test_what_compiled_still_compiles(shared_data: Path, task: str, compiler: str, fewest: int) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    rows = hpcgpt.load(DataOptions(source="hpcgpt", path=str(shared_data / "hpcgpt")), [task])
    language = LANGUAGES[task]
    before = [unwrap(take_apart(row.prompt).code) for row in rows]
    after = [take_apart(scrub(row).prompt).code for row in rows]
    whole = [i for i, code in enumerate(before) if language == "fortran" or "main" in code]
    with ThreadPoolExecutor(2) as pool:
        good = [
            i for i, ok in zip(whole, pool.map(compiles, [(before[i], language) for i in whole]), strict=True) if ok
        ]
        still = list(pool.map(compiles, [(after[i], language) for i in good if after[i] != before[i]]))
    assert len(good) >= fewest
    assert all(still)
