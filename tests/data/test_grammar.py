"""Directives, comments, strings and names in every spelling, and what is made of programs with them."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hargo.data import drb
from hargo.data.grammar import first_directive, fixed_form, fold, has_directive, lines, tokens
from hargo.data.perturb import rename, resize
from hargo.data.records import Row
from hargo.data.roles import mask
from hargo.data.scrub import scrub, scrub_code

PREAMBLE = "#define DO(x) _Pragma(#x)\n#define SAY(x) _Pragma(x)\n"

FIXED = """      program DRB001_race_yes
C     There is a data race here: answer yes
* no race
      integer i, n, yes(100)
      character*24 s
      n = 100                                                             yes: a race
c$omp parallel do private(i)
*$omp+  shared(yes, n)
      do 10 i = 1, 10   ! yes, racy
d     print *, 'a data race'
      yes(i) = n + i + n + i + n + i + n + i + n + i + n + i + n + i + n
     !  + 1
 10   continue
      s = '! kept, C too
     & as c$omp is'
!$    n = 3
      end"""

SCRUBBED = """      program prog1
      integer i, n, name1(100)
      character*24 s
      n = 100
c$omp parallel do private(i)
*$omp+  shared(name1, n)
      do 10 i = 1, 10
      name1(i) = n + i + n + i + n + i + n + i + n + i + n + i + n + i +
     & n
     !  + 1
 10   continue
      s = '! kept, C too
     & as c$omp is'
!$    n = 3
      end"""


@pytest.mark.parametrize(
    "code",
    [
        "#pragma omp parallel",
        "  # pragma   omp\tfor",
        "#pragma \\\n omp \\\n parallel",
        "# /* a */ pragma /* b */ omp parallel",
        "%:pragma omp for",
        "??=pragma omp for",
        "#pragma ompx sections",
        '_Pragma("omp parallel for") for (;;) ;',
        '_Pragma ( "omp critical(a)" ) { }',
        PREAMBLE + "DO(omp parallel for private(i) if(f(n) > (2)))\n",
        PREAMBLE + 'SAY("omp parallel for")\n',
        "__pragma(omp parallel for)",
        "[[omp::directive(parallel for)]] for (;;) ;",
        "[[omp::sequence(directive(parallel), directive(for))]] for (;;) ;",
        "[[using omp : directive(parallel)]] { }",
    ],
)
def test_directives_of_c(code: str) -> None:
    assert has_directive(code, "c")
    assert first_directive("\n\n" + code, "c") == 3 + PREAMBLE.count("\n") * code.startswith(PREAMBLE)
    assert "".join(t.text for t in tokens(code, "c")) == code


@pytest.mark.parametrize(
    "code",
    [
        'puts("#pragma omp parallel");',
        'puts("omp parallel for");',
        'const char *s = R"x(\n#pragma omp parallel\n)x";',
        "// #pragma omp parallel",
        "// goes on \\\n#pragma omp parallel",
        "/* \n#pragma omp parallel\n*/",
        "/* never closed\n#pragma omp parallel",
        "#pragma once",
        "omp_set_lock(omp_a);",
        "[[nodiscard]] int f();",
        "char a = '\"'; // \" #pragma omp for",
    ],
)
def test_what_is_no_directive_of_c(code: str) -> None:
    assert not has_directive(code, "c")


@pytest.mark.parametrize(
    "code",
    [
        "!$omp parallel",
        "x = 1\n  !$OMP do",
        "c$omp parallel do",
        "C$OMP PARALLEL",
        "*$omp barrier\n      x = 1",
        "      program a\n!$omp do\n      end",
    ],
)
def test_directives_of_fortran(code: str) -> None:
    assert has_directive(code, "fortran")


@pytest.mark.parametrize(
    "code",
    [
        "! $omp parallel",
        "print *, '!$omp parallel'",
        "print *, 'a &\n  !$omp do &\n  &b'",
        "x = 1 !$omp parallel",
        "!$ x = omp_get_num_threads()",
        "!$acc loop",
        "!$omp_like",
        "C     c$omp parallel\n      x = 1",
    ],
)
def test_what_is_no_directive_of_fortran(code: str) -> None:
    assert not has_directive(code, "fortran")


@pytest.mark.parametrize("first", ["", "      "])
def test_fixed_form_is_scrubbed_within_its_columns(first: str) -> None:
    """A prompt may have taken the first line's indentation away."""
    code = FIXED if first else FIXED.lstrip()
    assert fixed_form(code)
    assert scrub_code(code, "fortran") == SCRUBBED
    assert scrub_code(SCRUBBED, "fortran") == SCRUBBED
    row = Row(
        "race_fortran/0", "race_fortran", f"Given a Fortran code snippet: {code}\nWill it race? A data race?", "yes"
    )
    assert SCRUBBED in scrub(row).prompt


@pytest.mark.parametrize(
    ("code", "fixed"),
    [
        ("program a\ncall b\nc = 1\nc (1) = 2\nend", False),
        ("program a\n  x = 1 + &\n     & 2\nend", False),
        ("x = 1\n     y = 2", False),
        ("      x = 1\n     & + 2", True),
        ("      x = 1\n     1 + 2", True),
        ("c$omp barrier", True),
        ("C remark\n      call b & this", True),
        ("C this & that &\n      call b", True),
        ("!$omp parallel &\n!$omp& private(x)", False),
        ("      x = 1\n!$omp parallel\n!$omp+private(x)", True),
        ("      x = 1\n      y = 2", False),  # either way the same
        ("", False),
    ],
)
def test_form_by_the_looks(code: str, fixed: bool) -> None:
    assert fixed_form(code) == fixed


def test_remarks_in_the_manner_of_fixed_form_go_from_free_form() -> None:
    assert scrub_code("program a\nC the answer is yes\n!$omp barrier\nend program a", "fortran").split("\n")[1:] == [
        "!$omp barrier",
        "end program prog1",
    ]


def test_comments_and_directives_in_strings_stay() -> None:
    fortran = "print *, 'it''s ! here &\n   ! a comment\n  & and //', \"!$omp do\" ! gone"
    assert scrub_code(fortran, "fortran") == fortran.removesuffix(" ! gone")
    c = 'puts("// /* #pragma omp */"); // gone\nputs(R"(/* a " b */)"); int n = 1\'000; char q = \'"\'; /* gone */'
    assert scrub_code(c, "c") == c.replace(" // gone", "").replace(" /* gone */", "")


def test_names_in_pragma_strings_and_macros_are_renamed_with_the_program() -> None:
    code = PREAMBLE + 'int race;\n_Pragma("omp parallel private(race)")\nDO(omp critical(race))\nrace++;'
    assert scrub_code(code, "c") == code.replace("race", "name1")


def test_zero_bytes_and_long_lines_are_only_characters() -> None:
    code = "#pragma omp parallel\nx\0y;" + "a" * 200_000 + " // yes"
    assert scrub_code(code, "c") == code.removesuffix(" // yes")


def test_a_name_is_one_by_its_role() -> None:
    pairs = [
        ("c", "#pragma omp parallel\n{ h.degree++; h.angle++; }", "#pragma omp parallel\n{ e.sum++; e.total++; }"),
        ("c", "#pragma omp task depend(in: task)\ntask = read(map);", "#pragma omp task depend(in: a)\na = f(b);"),
        ("fortran", "real :: result\n!$omp flush(result)\nresult = 1", "real :: x\n!$omp flush(x)\nx = 1"),
        ("fortran", "real read(9), write\nread(1) = write", "real a(9), b\na(1) = b"),
        ("fortran", "value = x%kind", "v1 = x%k"),
    ]
    for language, one, two in pairs:
        assert mask(one, language) == mask(two, language)
    assert mask("#pragma omp parallel shared(a)", "c") != mask("#pragma omp parallel private(a)", "c")
    assert mask("#pragma omp for schedule(static)", "c") != mask("#pragma omp for schedule(dynamic)", "c")
    assert mask("read(5) x", "fortran") != mask("write(5) x", "fortran")


def test_spellings_of_one_directive_are_one_when_masked() -> None:
    (one, *others) = [
        mask(code, "c")
        for code in (
            "#pragma omp parallel for\nfor (;;) x++;",
            "#  pragma omp \\\n  parallel for\nfor (;;) y++;",
            '_Pragma("omp parallel for") for (;;) z++;',
            "%:pragma omp parallel for // race\nfor (;;) z++;",
        )
    ]
    assert [other[1:] for other in others] == [one[1:]] * 3
    free = "program a\n!$omp parallel do &\n!$omp private(x)\nx = 1\nend"
    fixed = "      program b\nc$omp parallel do\nc$omp& private(y)\n      y = 2\n      end"
    dropped = [[word for word in mask(code, "fortran") if word not in ("!$", "omp")] for code in (free, fixed)]
    assert dropped[0] == dropped[1]


alphabet = st.sampled_from(
    ["'", '"', "!", "$", "omp", "c", "C", "*", "&", "\n", " ", "     ", "      ", "#pragma omp ", "/*", "*/", "//",
     "\\", "_Pragma(\"omp for\")", "x", "1", "(", ")", "=", "R\"(", "[[omp::", "]]", "\0", "\f", "é"]
)  # fmt: skip


@given(st.lists(alphabet, max_size=30).map("".join), st.sampled_from(["c", "fortran", "fixed", "free"]))
def test_nothing_is_lost_of_any_text(code: str, language: str) -> None:
    assert "".join(t.text for t in tokens(code, language)) == code
    found = lines(code, language)
    assert "".join(t.text for line in found for t in line.tokens) == code
    assert all(code.split("\n")[line.number :] for line in found)
    scrub_code(code, language)
    mask(code, language)


def test_changed_programs_stay_in_their_columns() -> None:
    code = SCRUBBED.replace("100", "40")
    changed = rename(code, "fortran", random.Random(1))
    assert changed is not None and max(map(len, changed.split("\n"))) <= 72 and changed.count("c$omp p") == 1
    assert fold("      x = " + "abc + " * 20).replace("\n     &", "") == "      x = " + "abc + " * 20
    split = "int a[100];\n#pragma omp for \\\n  safelen(100)\nfor (;;) a[99]++;"
    assert resize(split, "c", random.Random(0)) is None  # it counts lanes, if on the next line


@pytest.mark.skipif(not shutil.which("gfortran"), reason="gfortran is not installed")
def test_fixed_form_that_compiled_still_compiles(tmp_path: Path) -> None:
    programs = [FIXED.replace("d     print", "c     print")]
    for made in (
        scrub_code(FIXED, "fixed"),
        rename(SCRUBBED, "fixed", random.Random(0)),
        rename(SCRUBBED, "fortran", random.Random(3)),
    ):
        programs.append(made or "")
    for program in programs:
        (tmp_path / "a.f").write_text(program + "\n")
        done = subprocess.run(["gfortran", "-fsyntax-only", "-fopenmp", "-w", "a.f"], cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, (program, done.stderr.decode())


def test_files_have_the_form_of_their_name(tmp_path: Path) -> None:
    (tmp_path / "DRB001-a-yes.f").write_text("      program p\nC answer yes\nCall no race\n!$omp barrier\n      end\n")
    (tmp_path / "DRB002-a-no.F90").write_text("call f()\n!$omp barrier\nend\n")
    from hargo.config.options import DataOptions

    one, two = drb.load(DataOptions(source="drb", path=str(tmp_path)), ["race_fortran"])
    assert "\n      program prog1\n!$omp barrier\n      end\n" in one.prompt
    assert "\ncall f()\n!$omp barrier\nend\n" in two.prompt
    assert one.meta["family"] == two.meta["family"] == "a"
