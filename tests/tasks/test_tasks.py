"""Rewards and judges of the four tasks: golden values, adversarial answers, agreement of the two."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hargo.errors import UserError
from hargo.tasks import load, mlperf, plp, race
from hargo.tasks.values import values


def reward(task: str, output: str, reference: str) -> float:
    [value] = load(task).reward([output], [reference])
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("output", "reference", "expected", "parsed", "correct"),
    [
        ("yes", "yes", 1, "yes", True),
        (" Yes.\n", "yes", 1, "yes", True),
        ("NO", "no", 1, "no", True),
        ("no", "yes", 0, "no", False),
        ("yes!", "yes", 0, "yes", True),
        ("yes..", "yes", 0, "yes", True),
        ("Yes, there is a data race.", "yes", 0, "yes", True),
        ("There is no data race", "no", 0, "no", True),
        ("yes no", "yes", 0, None, False),
        ("yes yes", "yes", 0, "yes", True),
        ("yes or no", "no", 0, None, False),
        ("nowait", "no", 0, None, False),
        ("eyes", "yes", 0, None, False),
        ("", "no", 0, None, False),
        ("nein", "no", 0, None, False),
        ("ｙｅｓ", "yes", 0, None, False),
        # letters that Unicode folds to those of yes, and letters that only look like them
        ("yeſ", "yes", 0, None, False),
        ("ye\N{LATIN SMALL LETTER LONG S}!", "yes", 0, None, False),
        ("yes\N{COMBINING ACUTE ACCENT}", "yes", 0, None, False),
        ("no\N{COMBINING CYRILLIC MILLIONS SIGN}", "no", 0, None, False),
        ("yes\N{FULLWIDTH LATIN SMALL LETTER Y}", "yes", 0, None, False),
        ("y\N{COMBINING DIAERESIS}es no", "no", 0, "no", True),
        ("nº", "no", 0, None, False),
        ("no\N{EM DASH}none", "no", 0, "no", True),
        ("yes" * 10_000, "yes", 0, None, False),
        ("yes", "yes\nint x;", 1, "yes", True),
        ("yes", "int x;", 0, "yes", False),
        ("", "", 0, None, False),
    ],
)
def test_race_reward_is_strict_and_judge_reads_words(
    output: str, reference: str, expected: float, parsed: str | None, correct: bool
) -> None:
    for name in ("race_c", "race_fortran"):
        assert reward(name, output, reference) == expected
        [verdict] = load(name).judge([output], [reference])
        assert (verdict.parsed, verdict.correct) == (parsed, correct)


TWO = "The Submitter is xFusion and the number of accelerators is 8 for ID 3.0-2083."
LIST = "NGC MXNet 23.04, NGC Pytorch 23.04, NGC HugeCTR 23.04"
SYSTEM = "The System for ID 3.0-2085 is ND_H100_v5."


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        # 1: exact or numeric
        ("8", "8", 1),
        ("8.0", "8", 1),
        (" 8. ", "8", 1),
        ("1024", "1,024", 1),
        ("1,024 accelerators", "1024", 1),
        ("80GB", "80 GB", 1),
        ("80 GB", "80", 1),
        ("12.5 %", "12.50", 1),
        ("dell", "Dell", 1),
        ("Dell.", "Dell", 1),
        ("The submitter is Dell.", "Dell", 1),
        ("ND_H100_v5", SYSTEM, 1),
        ("NGC HugeCTR 23.04, NGC MXNet 23.04 and NGC Pytorch 23.04", LIST, 1),
        ("xFusion, 8", TWO, 1),
        ("x" * 5000, "x" * 5000, 1),
        # not numerically equal, or not alone
        ("80 GB", "80 TB", 0.1),
        ("18", "8", 0),
        ("8.5", "8", 0),
        ("1,008", "8", 0),
        ("1 2 3 4 5 6 7 8", "8", 0.2),
        ("1, 2, 3, 4, 5, 6, 7, 8", "8", 0.2),
        ("A800", "8", 0),
        # signs, points, exponents, separators
        ("-8", "8", 0),
        ("8", "-8", 0),
        ("\N{MINUS SIGN}8", "-8", 1),
        ("+8", "8", 1),
        (".5", "0.5", 1),
        (".5", "5", 0),
        ("-.5", "-0.50", 1),
        ("1e3", "1,000", 1),
        ("1.5e-3", "0.0015", 1),
        ("8-16", "8", 0),
        ("8\N{EN DASH}16", "8", 0),
        ("1'008", "8", 0),
        ("8 %", "8", 1),
        ("-80 GB", "80 GB", 0.1),
        (".5gb", "5 GB", 0),
        ("1e400", "1", 0),
        ("9" * 40 + ".0", "9" * 40, 1),
        ("9" * 40 + "1", "9" * 40 + "2", 0),
        ("-8, xFusion Ltd", "8, Dell", 0),
        (".8 and more", "8, Dell", 0),
        ("3.0-20835", "3.0-2083", 0),
        ("nan", "8", 0),
        ("inf", "8", 0),
        ("8", "nan", 0),
        ("nan", "nan", 1),
        ("²", "2", 0),
        ("9" * 5000, "9" * 4999, 0),
        # .5: some of several
        ("xFusion", TWO, 0.5),
        ("The Submitter is Dell and the number of accelerators is 8.", TWO, 0.5),
        ("NGC MXNet 23.04", LIST, 0.5),
        ("NGC MXNet 23.04, NGC Pytorch 22.09", LIST, 0.5),
        ("xFusion with 8 of them", TWO, 0.5),
        ("xFusion 8 " + "and much more text " * 20, TWO, 0),
        # .2, .1, 0: keywords (system, id, 3.0-2085, nd_h100_v5)
        ("What is the System for ID 3.0-2085?", SYSTEM, 0.2),
        ("the system id", SYSTEM, 0.1),
        ("the system", SYSTEM, 0),
        ("", SYSTEM, 0),
        ("   ", "8", 0),
        ("8", "", 0),
        ("", "", 0),
        ("ünïcödé ☃", SYSTEM, 0),
        ("·", "·", 1),
    ],
)
def test_mlperf_tiers(output: str, reference: str, expected: float) -> None:
    assert reward("mlperf", output, reference) == expected
    [verdict] = load("mlperf").judge([output], [reference])
    assert verdict.correct == (expected >= 0.5)


@pytest.mark.parametrize(
    ("output", "reference", "em", "whole"),
    [
        ("8", "8", 1, 1),
        ("8 accelerators", "8", 1, 0),
        ("18", "8", 0, 0),
        ("8.5", "8", 0, 0),
        ("It has 8.", "8", 1, 0),
        ("1,008", "8", 0, 0),
        ("NVIDIA H100-SXM5", "NVIDIA H100", 0, 0),
        ("the NVIDIA  H100, twice", "NVIDIA H100", 1, 0),
        ("", "8", 0, 0),
        ("anything", "", 0, 0),
        ("C++ (fast)", "C++", 1, 0),
        ("-8", "8", 0, 0),
        ("It is -8.", "8", 0, 0),
        ("\N{MINUS SIGN}8", "8", 0, 0),
        ("\N{MINUS SIGN}8", "-8", 1, 1),
        ("8", "-8", 0, 0),
        ("+8", "8", 1, 0),
        ("- 8", "8", 1, 0),
        (".8", "8", 0, 0),
        ("8\N{EN DASH}16", "8", 0, 0),
        ("16\N{EN DASH}8", "8", 0, 0),
        ("8'000", "8", 0, 0),
        ("8 %", "8", 1, 0),
    ],
)
def test_mlperf_exact_match_has_boundaries(output: str, reference: str, em: float, whole: float) -> None:
    [verdict] = load("mlperf").judge([output], [reference])
    assert verdict.scores == {"em": em, "em_whole": whole}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", ["8"]),
        ("1,024, 512", ["1,024", "512"]),
        ("If the Submitter is NVIDIA, there are 64 accelerators.", ["64 accelerators"]),
        ("If the ID is 3.0-2066, the Processor is Xeon and the System is X1.", ["xeon", "x1"]),
        ("The Accelerator used for A and B 23.04 is NVIDIA H100.", ["nvidia h100"]),
        ("The Processor is Xeon when the Accelerator is A30 and the ID is 4.", ["xeon"]),
        ("Dell, Dell", ["dell"]),
        (", ; ,", []),
        ("", []),
    ],
)
def test_values_of_an_answer(text: str, expected: list[str]) -> None:
    assert values(text) == expected


names = st.sampled_from(["Dell", "NVIDIA A40", "8", "1,024", "16 GB", "3.0-2083", "Xeon(R) 8480C", "ND_H100_v5"])
lists = st.lists(names, min_size=1, max_size=4)
forms = st.sampled_from(
    [", ".join, " and ".join, lambda v: "The System is " + " and the ID is ".join(v) + " if the ID is 7."]
)
answers = st.builds(lambda form, items: form(items), forms, lists)


@settings(max_examples=300, deadline=None)
@given(answers, answers, st.sampled_from(["", ".", " too", " and more" * 30]))
def test_mlperf_judge_agrees_with_reward_of_half_or_more(output: str, reference: str, tail: str) -> None:
    [verdict] = load("mlperf").judge([output + tail], [reference])
    assert verdict.correct == (reward("mlperf", output + tail, reference) >= 0.5)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.text(max_size=80))
def test_any_text_gets_a_tier(output: str, reference: str) -> None:
    assert reward("mlperf", output, reference) in (0, 0.1, 0.2, 0.5, 1)
    assert reward("race_c", output, reference) in (0, 1)
    load("mlperf").judge([output], [reference])
    load("race_c").judge([output], [reference])


@settings(deadline=None)
@given(st.text(max_size=60))
def test_an_answer_gains_nothing_from_case_and_space(text: str) -> None:
    for reference in ("8", LIST, TWO):
        assert reward("mlperf", text, reference) == reward("mlperf", f"  {text.casefold()}\n", reference)


def test_real_references_get_full_marks_and_the_two_gradings_agree(shared_data: Path) -> None:
    rows = json.loads((shared_data / "hpcgpt" / "task1_ml_perf.json").read_text(encoding="utf-8"))
    right = [row["output"] for row in rows]
    assert set(mlperf.reward(right, right)) == {1.0}
    for shift in (1, 7, 40, 333):  # neighbours answer the same instruction, or one much like it
        other = right[shift:] + right[:shift]
        rewards = mlperf.reward(other, right)
        assert [r >= 0.5 for r in rewards if r is not None] == [v.correct for v in mlperf.judge(other, right)]


@pytest.mark.parametrize("module", [race, mlperf, plp])
def test_judge_and_reward_never_reach_each_other(module: object) -> None:
    """Names reachable from `judge` inside the module exclude `reward`, and the other way round."""
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    calls = {
        node.name: {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }

    def reach(start: str) -> set[str]:
        seen, todo = set(), [start]
        while todo:
            name = todo.pop()
            if name in calls and name not in seen:
                seen.add(name)
                todo += calls[name]
        return seen

    shared = reach("judge") & reach("reward")
    assert shared <= {"label"}  # what the reference says is data, not a grade
    assert "reward" not in reach("judge") and "judge" not in reach("reward")


REFERENCE = "The Devign dataset is designed for defect detection tasks."


def test_plp_reward_and_similarity() -> None:
    outputs = [REFERENCE, "", "Devign is for finding defects.", "Bananas are yellow.", f"{REFERENCE} " * 8]
    rewards = plp.reward(outputs, [REFERENCE] * 5)
    verdicts = plp.judge(outputs, [REFERENCE] * 5)
    cosines = [v.scores["similarity"] for v in verdicts]
    assert cosines[0] == pytest.approx(1, abs=1e-6) and rewards[0] == 1
    assert (rewards[1], cosines[1], verdicts[1].correct, verdicts[1].parsed) == (0, 0, False, None)
    assert 0.5 < cosines[2] < 0.95 and rewards[2] == pytest.approx(cosines[2] + 0.05)
    assert verdicts[2].correct and not verdicts[3].correct
    # repeated eight times: no bonus, and 354 characters beyond the bound cost the largest penalty, .2
    assert rewards[4] == pytest.approx(cosines[4] - 0.2)


def test_plp_penalty_grows_by_the_character() -> None:
    long = REFERENCE + " " + " ".join(f"word{i}" for i in range(20))
    beyond = len(long) - 2 * len(REFERENCE)
    assert 0 < beyond < 200
    [value], [verdict] = plp.reward([long], [REFERENCE]), plp.judge([long], [REFERENCE])
    assert value == pytest.approx(verdict.scores["similarity"] + 0.05 - 0.001 * beyond)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", False), ("a b c d", False), ("a b c d a b c d", True), ("a b c d e b c d", False), ("no no no no", True)],
)
def test_repetition(text: str, expected: bool) -> None:
    assert plp.repeats(text) is expected


def test_plp_embedding_does_not_depend_on_neighbours() -> None:
    texts = [REFERENCE, "x", "a much longer text " * 20, "Ünïcödé </script>", "\x00"]
    together = plp.reward(texts, [REFERENCE] * len(texts))
    code = (
        "import json, sys; from hargo.tasks import plp; t, r = json.loads(sys.stdin.read());"
        "print(json.dumps([plp.reward([x], [r])[0] for x in reversed(t)][::-1]))"
    )
    fresh = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps([texts, REFERENCE]), text=True, capture_output=True, check=True
    )
    assert json.loads(fresh.stdout) == together


def test_loading_the_embedding_model_leaves_random_numbers_alone() -> None:
    import torch

    from hargo.tasks import embedding

    embedding._model.cache_clear()
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    embedding._model()
    assert torch.equal(torch.rand(4), expected)


def test_loading_a_task_imports_no_torch() -> None:
    code = (
        "import sys; from hargo.tasks import load\n"
        "for name in ('race_c', 'race_fortran', 'mlperf', 'plp'): load(name)\n"
        "sys.exit('torch' in sys.modules or 'sentence_transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_unknown_task_names_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown task 'mlpref'; did you mean 'mlperf'"):
        load("mlpref")
