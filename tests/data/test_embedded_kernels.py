"""Race kernels: balanced, label-free, complete programs, and labels that follow from their index sets."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from hargo.config.options import DataOptions, EmbeddedOptions
from hargo.data.embedded import load
from hargo.data.embedded.kernels import (
    FAMILIES,
    LANGUAGES,
    PROMPT,
    held_out_families,
    make_kernel,
    masked,
    write_program,
)
from hargo.data.embedded.program import Sketch
from hargo.data.records import Row
from hargo.errors import UserError

COMPILERS = {"c": ["gcc", "-Wall", "-Wno-unused-but-set-variable"], "fortran": ["gfortran", "-Wall"]}
TOLD = re.compile(r"race|racy|\b(yes|no|safe|unsafe|bug|buggy|wrong|correct|conflict)\b", re.I)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return load(DataOptions(), list(LANGUAGES))


def code_of(row: Row) -> str:
    before, after = PROMPT.split("{code}")
    assert row.prompt.startswith(before) and row.prompt.endswith(after)
    return row.prompt[len(before) : -len(after)]


def kernel(name: str, racy: bool, language: str, seed: int) -> str:
    return make_kernel(FAMILIES[name], racy, language, random.Random(f"{name}/{seed}"), evaluation=bool(seed % 2))


def every_twin() -> list[tuple[str, str, bool]]:
    return [(f.name, language, racy) for f in FAMILIES.values() for language in f.languages for racy in (True, False)]


@pytest.mark.parametrize("language", ["c", "fortran"])
def test_twenty_families_in_each_language(language: str) -> None:
    assert sum(language in family.languages for family in FAMILIES.values()) >= 20


def test_only_named_families_are_drawn_from() -> None:
    names = ["total", "maximum", "histogram", "nowait", "ordered", "critical"]
    options = EmbeddedOptions(families=names, held_out_families=1, kernels=40, eval_kernels=16)
    rows = load(DataOptions(embedded=options), ["race_c"])
    assert {row.meta["family"] for row in rows} == set(names)
    (unseen,) = held_out_families(options)
    assert unseen not in {row.meta["family"] for row in rows if row.meta["split"] == "train"}


def test_an_unknown_family_is_an_error_that_names_the_nearest() -> None:
    options = EmbeddedOptions(families=["totals"])
    with pytest.raises(UserError, match="unknown kernel family 'totals'; did you mean 'total'"):
        load(DataOptions(embedded=options), ["race_c"])


def test_answers_are_balanced_in_every_family_and_split(rows: list[Row]) -> None:
    counts = Counter((r.task, r.meta["split"], r.meta["family"], r.answer) for r in rows)
    for (task, part, family, answer), count in counts.items():
        assert answer in ("yes", "no")
        assert count == counts[task, part, family, "no" if answer == "yes" else "yes"]


def test_held_out_families_are_in_evaluation_only(rows: list[Row]) -> None:
    options = EmbeddedOptions()
    held_out = set(held_out_families(options))
    assert len(held_out) == options.held_out_families
    for task in LANGUAGES:
        own = [row for row in rows if row.task == task]
        train = {row.meta["family"] for row in own if row.meta["split"] == "train"}
        strange = [row for row in own if row.meta.get("held_out") == "family"]
        assert not train & held_out
        assert {row.meta["family"] for row in strange} == held_out
        assert len(strange) == options.held_out_share * options.eval_kernels
        named = {row.meta["family"] for row in own if row.meta.get("held_out") == "names"}
        assert named <= train


def test_held_out_families_have_relatives_in_training() -> None:
    for seed in range(20):
        held_out = held_out_families(EmbeddedOptions(seed=seed))
        for name in held_out:
            left = [f for f in FAMILIES.values() if f.theme == FAMILIES[name].theme and f.name not in held_out]
            assert len(left) >= 2


def test_no_evaluation_kernel_is_a_training_kernel_with_other_names(rows: list[Row]) -> None:
    for task in LANGUAGES:
        train = {masked(code_of(r)) for r in rows if r.task == task and r.meta["split"] == "train"}
        test = {masked(code_of(r)) for r in rows if r.task == task and r.meta["split"] == "eval"}
        assert not train & test


def test_kernels_that_differ_in_names_only_have_one_label(rows: list[Row]) -> None:
    labels: dict[str, set[str]] = {}
    for row in rows:
        labels.setdefault(row.task + masked(code_of(row)), set()).add(row.answer)
    assert all(len(answers) == 1 for answers in labels.values())


def test_nothing_in_the_code_tells_the_label(rows: list[Row]) -> None:
    assert not [row.id for row in rows if TOLD.search(code_of(row))]


def test_prompts_fit_a_small_context(rows: list[Row]) -> None:
    lengths = [len(row.prompt) for row in rows]
    assert sum(lengths) / len(lengths) < 520
    assert max(lengths) < 1000


def test_single_words_do_not_settle_the_answer(rows: list[Row]) -> None:
    """The best rule "this word is in the code" over all words is not much better than a coin."""
    train = [(set(re.findall(r"\w+", code_of(r))), r.answer) for r in rows if r.meta["split"] == "train"]
    words = Counter(word for found, _ in train for word in found)
    best = 0.0
    for word in words:
        agree = sum((word in found) == (answer == "yes") for found, answer in train) / len(train)
        best = max(best, agree, 1 - agree)
    assert best < 0.7


# Loops whose only accesses are A[f(I)] and A[g(I)] can be run on paper: collect what each iteration touches.
SIMPLE = ["flow", "anti", "step", "doubled", "target", "pivot"]
LOOP = re.compile(
    r"#pragma omp parallel for.*\n.*for \((?:int )?(\w+) = (\d+); \w+ (<=?) ([^;]+); (.+)\)(?: \{)?\n((?:    .+\n)+)"
)


@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize("racy", [True, False])
def test_labels_follow_from_what_iterations_touch(name: str, racy: bool) -> None:
    for seed in range(30):
        text = kernel(name, racy, "c", seed)
        conflicts = [conflict(*match.groups(), text) for match in LOOP.finditer(text)]
        assert conflicts and any(conflicts) == racy, text


def conflict(var: str, first: str, sign: str, end: str, move: str, body: str, text: str) -> bool:
    """Whether two iterations of a C loop touch one element and at least one of them writes it."""
    sizes = dict(re.findall(r"(?:#define|int) (\w+) =? ?(\d+)", text))
    limit = at(re.sub(r"\w+", lambda m: sizes.get(m[0], m[0]), end), var, 0)
    stride = int(move.split()[-1]) if "=" in move else 1
    written: dict[tuple[str, int], set[int]] = {}
    touched: dict[tuple[str, int], set[int]] = {}
    for i in range(int(first), limit + (sign == "<="), stride):
        for line in body.strip().split("\n"):
            target = re.match(r"(\w+)\[([^\]]+)\]", line.strip())
            for array, index in re.findall(r"(\w+)\[([^\]]+)\]", line):
                touched.setdefault((array, at(index, var, i)), set()).add(i)
            if target:
                written.setdefault((target[1], at(target[2], var, i)), set()).add(i)
    return any(len(touched[place]) > 1 for place in written)


def at(index: str, var: str, value: int) -> int:
    """An index expression of products, quotients, remainders and sums, read without evaluating code."""
    total, sign = 0, 1
    for token in re.split(r" ([+-]) ", index):
        if token in "+-":
            sign = 1 if token == "+" else -1
            continue
        first, *rest = token.split()
        term = value if first == var else int(first)
        for operator, operand in zip(rest[::2], rest[1::2], strict=True):
            number = value if operand == var else int(operand)
            term = term * number if operator == "*" else term // number if operator == "/" else term % number
        total += sign * term
    return total


def test_simd_is_racy_where_safelen_exceeds_the_distance() -> None:
    for racy in (True, False):
        for seed in range(30):
            text = kernel("simd", racy, "c", seed).split("#pragma omp simd")
            block = next(part for part in text[1:] if " - " in part.split("\n")[2] or " - " in part.split("\n")[3])
            length = re.match(r" safelen\((\d+)\)", block)
            write, read, distance = re.search(r"(\w+)\[\w+\] = (\w+)\[\w+ - (\d+)\]", block).groups()  # type: ignore
            kept = write != read or (length is not None and int(length[1]) <= int(distance))
            assert kept is not racy, block


def test_task_depend_orders_tasks_on_one_variable() -> None:
    for racy in (True, False):
        for seed in range(30):
            text = kernel("task_depend", racy, "c", seed)
            (first, one), (second, two) = re.findall(r"#pragma omp task(.*)\n\s+(.+);", text)
            written = one.split()[0]
            shared = re.search(rf"\b{written}\b", two) is not None
            named = [re.search(rf"depend\(\w+: {written}\)", clause) is not None for clause in (first, second)]
            assert (shared and not all(named)) is racy, text


def test_fortran_shifts_loops_with_their_arrays() -> None:
    sketch = Sketch("for I in 1..N-1\n  A[I] = A[I - 1] + 1", n=20)
    for seed in range(20):
        text = write_program(sketch, "fortran", random.Random(seed), evaluation=False)
        name, size = re.search(r":: (\w+)\((\w+)\)", text).groups()  # type: ignore
        assert re.search(rf"do (\w+) = 2, (?:20|{size}|\w+)\n\s+{name}\(\1\) = {name}\(\1 - 1\) \+ 1", text), text


def test_fortran_counts_from_zero_where_indices_are_computed() -> None:
    sketch = Sketch("for I in 0..9\n  A[2 * I] = A[2 * I + 1]", n=20)
    text = write_program(sketch, "fortran", random.Random(0), evaluation=False)
    assert re.search(r"\(0:(19|\w+ - 1)\)", text) and re.search(r"do \w+ = 0, 9\n", text), text


def compile_all(language: str, programs: list[str], folder: Path) -> None:
    command = COMPILERS[language]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    files = []
    for number, text in enumerate(programs):
        files.append(folder / f"k{number}.{'c' if language == 'c' else 'f90'}")
        files[-1].write_text(text + "\n")
    for start in range(0, len(files), 40):
        some = [str(path) for path in files[start : start + 40]]
        done = subprocess.run([*command, "-fopenmp", "-c", *some], capture_output=True, text=True, cwd=folder)
        assert done.returncode == 0, done.stderr
        if language == "c":
            assert not done.stderr, done.stderr


@pytest.mark.parametrize("language", ["c", "fortran"])
def test_two_kernels_compile(language: str, tmp_path: Path) -> None:
    compile_all(language, [kernel("temporary", True, language, 1), kernel("indirect", False, language, 2)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["c", "fortran"])
def test_every_twin_compiles(language: str, tmp_path: Path) -> None:
    programs = [
        kernel(name, racy, language, seed) for name, own, racy in every_twin() if own == language for seed in range(3)
    ]
    compile_all(language, programs, tmp_path)
