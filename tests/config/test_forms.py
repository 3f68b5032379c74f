"""What people write and mean: short forms, first mistakes, and the starts of runs."""

from __future__ import annotations

from typing import Any

import pytest

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
    with pytest.raises(UserError) as error:
        study_from({"name": "x", "pretrain": {}, **value}, "study.yaml")
    assert words in str(error.value)


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
    methods = {"grpo": {"start": start}, "hargo": {"start": "grpo"}}
    with pytest.raises(UserError) as error:
        study_from({"name": "x", "pretrain": {}, "methods": methods}, "study.yaml")
    assert words in str(error.value)


def test_the_base_model_has_token_counts_only_where_it_is_pre_trained() -> None:
    methods = {"grpo": {"start": "base@500"}}
    assert str(study_from({"name": "x", "pretrain": {}, "methods": methods}, "").runs()["grpo"].start) == "pretrain@500"
    model = {"source": "folder", "path": "somewhere"}
    with pytest.raises(UserError, match="does not pre-train its base model; write `start: base`"):
        study_from({"name": "x", "model": model, "methods": methods}, "")
