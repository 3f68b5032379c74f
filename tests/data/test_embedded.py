"""The embedded source as a whole: same options give the same rows, and no row is seen twice."""

from __future__ import annotations

from collections import Counter

import pytest

from hargo.config.options import DataOptions
from hargo.data.embedded import load, mlperf, plp
from hargo.data.records import Row
from hargo.errors import UserError

TASKS = ["race_c", "race_fortran", "mlperf", "plp"]


def options(**embedded: object) -> DataOptions:
    return DataOptions.model_validate({"embedded": embedded})


def split(rows: list[Row], part: str) -> list[Row]:
    return [row for row in rows if row.meta["split"] == part]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return load(DataOptions(), TASKS)


def test_sizes_are_the_ones_asked_for(rows: list[Row]) -> None:
    o = DataOptions().embedded
    counts = Counter((row.task, row.meta["split"]) for row in rows)
    for task in ("race_c", "race_fortran"):
        assert counts[task, "train"] == o.kernels
        assert counts[task, "eval"] == o.eval_kernels
    assert counts["mlperf", "train"], counts["mlperf", "eval"] == (o.mlperf, o.eval_mlperf)
    assert counts["plp", "train"], counts["plp", "eval"] == (o.plp, o.eval_plp)


def test_same_options_same_rows(rows: list[Row]) -> None:
    assert load(DataOptions(), TASKS) == rows


def test_a_seed_changes_every_task(rows: list[Row]) -> None:
    other = load(options(seed=1), TASKS)
    for task in TASKS:
        before = {row.prompt for row in rows if row.task == task and row.meta["split"] == "train"}
        after = {row.prompt for row in other if row.task == task and row.meta["split"] == "train"}
        assert len(before & after) < len(before)


def test_tasks_do_not_disturb_each_other(rows: list[Row]) -> None:
    for task in TASKS:
        assert load(DataOptions(), [task]) == [row for row in rows if row.task == task]
    smaller = load(options(kernels=100, eval_kernels=20, plp=50, eval_plp=10), TASKS)
    assert [r for r in smaller if r.task == "mlperf"] == [r for r in rows if r.task == "mlperf"]


def test_ids_and_prompts_are_unique(rows: list[Row]) -> None:
    assert len({row.id for row in rows}) == len(rows)
    assert len({row.prompt for row in rows}) == len(rows)
    assert all(row.id.startswith(row.task + "/") for row in rows)


def test_only_evaluation_rows_say_what_is_new(rows: list[Row]) -> None:
    assert all("held_out" not in row.meta for row in split(rows, "train"))
    kinds = {task: {r.meta["held_out"] for r in split(rows, "eval") if r.task == task} for task in TASKS}
    assert kinds == {
        "race_c": {"names", "family"},
        "race_fortran": {"names", "family"},
        "mlperf": {"phrasing"},
        "plp": {"phrasing"},
    }


def test_questions_of_evaluation_are_new_but_their_answers_are_not(rows: list[Row]) -> None:
    for task, module in (("mlperf", mlperf), ("plp", plp)):
        own = [row for row in rows if row.task == task]
        asked = {row.prompt for row in split(own, "train")}
        assert not asked & {row.prompt for row in split(own, "eval")}
        fact_of = {q: number for number, f in enumerate(module.facts()) for q, _ in f.known + f.unseen}
        trained = {fact_of[question] for question in asked}
        assert all(fact_of[row.prompt] in trained for row in split(own, "eval"))


def test_no_question_allows_two_answers(rows: list[Row]) -> None:
    for module in (mlperf, plp):
        answers: dict[str, set[str]] = {}
        for fact in module.facts():
            for question, answer in fact.known + fact.unseen:
                answers.setdefault(question, set()).add(answer)
        used = {row.prompt for row in rows}
        assert not [q for q, values in answers.items() if len(values) > 1 and q in used]


def test_mlperf_answers_have_every_form_that_its_reward_tells_apart(rows: list[Row]) -> None:
    answers = [row.answer for row in rows if row.task == "mlperf"]
    share = {
        "number": sum(a.isdigit() for a in answers) / len(answers),
        "list": sum(", " in a and not a.startswith("If ") for a in answers) / len(answers),
        "sentence": sum(a.startswith("If ") for a in answers) / len(answers),
    }
    assert all(value > 0.05 for value in share.values()), share


def test_plp_answers_are_sentences_or_lists(rows: list[Row]) -> None:
    answers = [row.answer for row in rows if row.task == "plp"]
    sentences = [a for a in answers if a.endswith(".")]
    assert len(sentences) > 0.8 * len(answers)
    assert all(30 <= len(a) <= 160 for a in sentences)
    assert all(", " in a for a in answers if not a.endswith("."))


@pytest.mark.parametrize(
    "embedded",
    [{"mlperf": 10**6}, {"plp": 10**6}, {"mlperf": 5, "eval_mlperf": 500}, {"held_out_families": 100}],
)
def test_too_much_is_an_error_that_names_the_key(embedded: dict[str, int]) -> None:
    key = f"data.embedded.{list(embedded)[-1]}"
    with pytest.raises(UserError, match=key):
        load(options(**embedded), ["race_c", "mlperf", "plp"])


def test_small_sizes_work() -> None:
    small = dict(kernels=2, eval_kernels=2, mlperf=3, eval_mlperf=1, plp=3, eval_plp=1, held_out_families=0)
    assert len(load(options(**small), TASKS)) == 2 * 4 + 4 + 4


def test_questions_are_about_as_many_systems_as_asked_for() -> None:
    rows = load(options(systems=6, mlperf=80, eval_mlperf=20), ["mlperf"])
    known = {question for fact in mlperf.facts(systems=6) for question, _ in fact.known + fact.unseen}
    assert {row.prompt for row in rows} <= known
    with pytest.raises(UserError, match=r"data.embedded.mlperf"):
        load(options(systems=6), ["mlperf"])
