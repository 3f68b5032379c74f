"""What people write and mean: short forms, first mistakes, the starts of runs, options without effect."""

from __future__ import annotations

from typing import Any

import pytest
from refused import message

from hargo.config import study_from
from hargo.errors import UserError


def test_short_forms_mean_what_people_mean() -> None:
    plain = study_from({"name": "x", "pretrain": {}}, "")
    empty = dict.fromkeys(("data", "model", "sft", "rl", "methods", "evaluation", "report", "compute", "prefetch"))
    assert study_from({"name": "x", "pretrain": {}, **empty}, "") == plain
    listed = study_from({"name": "x", "pretrain": {}, "methods": ["grpo", "hargo"]}, "")
    assert listed == study_from({"name": "x", "pretrain": {}, "methods": {"grpo": None, "hargo": {}}}, "")
    assert list(study_from({"name": "x", "pretrain": {}, "methods": "dpo"}, "").methods) == ["dpo"]
    without = study_from({"name": "x", "pretrain": {}, "sft": False, "methods": ["grpo"]}, "")
    assert without.sft is None and list(without.runs()) == ["pretrain", "grpo"]
    assert study_from(without.model_dump(mode="json"), "") == without, "a resolved study says so too"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"seeds": 3}, "seeds: write a list: [3] for one seed, or [0, 1, 2] for three"),
        ({"rl": {"alpha": 0.1}}, "rl.alpha: not all methods know this key; it belongs to methods.hargo"),
        ({"rl": {"lam": 0.1}}, "it belongs to methods.ppo"),
        ({"rl": {"bta": 0.1}}, "unknown key in rl 'bta'; did you mean 'beta'?"),
        ({"methods": ["grpo", "harg"]}, "unknown method 'harg'; did you mean 'hargo'?"),
        ({"sft": False}, "there is nothing to report on; add a section `sft`, or methods"),
    ],
)
def test_first_mistakes_get_the_fix_in_words(value: dict[str, Any], words: str) -> None:
    assert words in message(**value)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("hrgo", "methods.grpo.start: unknown run 'hrgo'; did you mean 'hargo'?"),
        ("hargo", "methods.grpo.start: runs start from one another: grpo from hargo from grpo"),
        ("x@", "start 'x@' is neither a run, such as sft, nor RUN@TOKENS"),
        (3, "`start` must be the name of a run"),
    ],
)
def test_a_start_that_cannot_be_is_one_line(start: Any, words: str) -> None:
    assert words in message(methods={"grpo": {"start": start}, "hargo": {"start": "grpo"}})


def test_the_base_model_has_token_counts_only_where_it_is_pre_trained() -> None:
    methods = {"grpo": {"start": "base@500"}}
    assert str(study_from({"name": "x", "pretrain": {}, "methods": methods}, "").runs()["grpo"].start) == "pretrain@500"
    model = {"source": "folder", "path": "somewhere"}
    with pytest.raises(UserError, match="does not pre-train its base model; write `start: base`"):
        study_from({"name": "x", "model": model, "methods": methods}, "")


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"dapo": {"task_weights": {"race-c": 2}}}, "unknown task in methods.dapo 'race-c'; did you mean 'race_c'?"),
        ({"oracle": {"task_weights": {"race_f": 2}}}, "unknown task in methods.oracle 'race_f'"),
        ({"ppo": {"eps": 0.1}}, "unknown key in methods.ppo 'eps'"),
        ({"dr_grpo": {"eps": 0.1}}, "unknown key in methods.dr_grpo 'eps'"),
        ({"rloo": {"eps": 0.1}}, "unknown key in methods.rloo 'eps'"),
        ({"dpo": {"temperature": 0.7}}, "unknown key in methods.dpo 'temperature'"),
        ({"kto": {"group_size": 2}}, "unknown key in methods.kto 'group_size'"),
        ({"simpo": {"max_new_tokens": {"race_c": 4}}}, "unknown key in methods.simpo 'max_new_tokens'"),
        ({"b1": {"alpha": 0.3}}, "methods.b1: `alpha` has no effect with weighting 'd'; remove it"),
        ({"b2": {"alpha": 0.3}}, "methods.b2: `alpha` has no effect with weighting 'c'; remove it"),
        ({"b1": {"frozen": 0.3}}, "methods.b1: `frozen` has no effect with weighting 'd'; remove it"),
        ({"frozen_c": {"rho": 0.3}}, "methods.frozen_c: `rho` has no effect together with `frozen`"),
    ],
)
def test_options_without_effect_are_refused(methods: dict[str, Any], words: str) -> None:
    assert words in message(methods=methods)
