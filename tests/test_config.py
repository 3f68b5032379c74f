"""A study says what it means, or the message says which key to mend."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import own_tasks
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from hargo.config import METHODS, TASKS, Study, load_study, study_from, study_schema
from hargo.config.loading import merge
from hargo.errors import UserError

STUDIES = sorted((ROOT / "config").glob("*.yaml"))
SCRATCH: dict[str, Any] = {"name": "x", "data": {"protocol": "given"}, "pretrain": {}}


def message(**sections: Any) -> str:
    """The error of a scratch study with these sections."""
    with pytest.raises(UserError) as caught:
        study_from({**SCRATCH, **sections}, "study.yaml")
    text = str(caught.value)
    assert "\n" not in text and text.startswith("study.yaml: ")
    return text


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_studies_in_the_repository_load_and_survive_resolving(path: Path) -> None:
    study = load_study(path)
    resolved = yaml.safe_load(yaml.safe_dump(study.model_dump(mode="json")))
    assert study_from(resolved, "resolved") == study


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_resolving_keeps_the_options_of_every_method(path: Path) -> None:
    """The resolved file states every key of `rl`; that must not turn defaults of a method into something else."""
    study = load_study(path)
    again = study_from(study.model_dump(mode="json"), "resolved")
    assert {name: again.method(name) for name in study.methods} == {name: study.method(name) for name in study.methods}


def test_paper_study_runs_every_method_at_the_papers_settings() -> None:
    study = load_study(ROOT / "config" / "paper.yaml")
    nine = {"hpc_gpt", "ppo", "dpo", "grpo", "dr_grpo", "simpo", "kto", "hargo"}  # and SFT
    assert set(study.methods) == nine | {name for name, spec in METHODS.items() if spec.kind == "ablation"}
    assert len(study.seeds) == 5 and study.tasks == list(TASKS)
    hargo = study.method("hargo").model_dump()
    assert (hargo["alpha"], hargo["rho"], hargo["beta"], hargo["temperature"]) == (0.3, 0.9, 0.02, 0.6)
    assert (hargo["group_size"], hargo["learning_rate"], study.sft.learning_rate) == (4, 1e-6, 2e-5)


def small(sections: dict[str, Any]) -> Study:
    return study_from({"name": "small", "pretrain": {}, **sections}, "small")


def test_options_shared_by_all_methods_do_not_reach_those_that_mean_something_else_by_them() -> None:
    rl = {"beta": 0.02, "group_size": 8, "learning_rate": 1e-5}
    study = small({"rl": rl, "methods": dict.fromkeys(METHODS)})
    betas = {name: getattr(study.method(name), "beta", None) for name in METHODS}
    assert (betas["grpo"], betas["dpo"], betas["kto"], betas["simpo"], betas["dapo"]) == (0.02, 0.1, 0.1, 2.0, 0.0)
    assert not hasattr(study.method("dpo"), "group_size") and study.method("rloo").group_size == 8
    assert study.method("dpo").learning_rate == 1e-5 != study.method("hpc_gpt").learning_rate


def test_a_name_of_ones_own_stands_for_another_method() -> None:
    study = small({"methods": {"bold": {"method": "hargo", "alpha": 1.0}}})
    assert study.method("bold").alpha == 1.0 and study.spec("bold").kind == "ablation"
    assert study.spec("bold").module == METHODS["hargo"].module
    with pytest.raises(UserError, match="unknown method 'hragi'; did you mean 'hargo'"):
        small({"methods": {"bold": {"method": "hragi"}}})


def test_a_sweep_makes_one_method_per_value() -> None:
    sweep = {"hargo": {"alpha": [0, 0.3], "group_size": [8]}}
    study = small({"methods": {"hargo": {"rho": 0.5}}, "sweep": sweep})
    assert list(study.methods) == ["hargo", "hargo-alpha-0", "hargo-alpha-0.3", "hargo-group_size-8"]
    assert study.method("hargo-alpha-0").alpha == 0 and study.method("hargo-alpha-0").rho == 0.5
    assert study.method("hargo-group_size-8").group_size == 8 and study.method("hargo").group_size == 4
    again = study_from(study.model_dump(mode="json"), "")
    assert again.methods == study.methods


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"sweep": {"hargo": {"alfa": [1]}}}, "sweep.hargo: unknown key 'alfa'; did you mean 'alpha'"),
        ({"sweep": {"hagro": {"alpha": [1]}}}, "sweep.hagro: unknown method 'hagro'; did you mean 'hargo'"),
        ({"sweep": {"hargo": {"alpha": []}}}, "sweep.hargo.alpha: give a list of values"),
        ({"sweep": {"hargo": {"method": ["grpo"]}}}, "sweep.hargo: unknown key 'method'"),
        (
            {"sweep": {"hargo": {"alpha": [1]}}, "methods": {"hargo-alpha-1": {"method": "hargo", "alpha": 2}}},
            "methods.hargo-alpha-1: the sweep makes a method of that name",
        ),
        ({"methods": {"mine": {"method": "harggo"}}}, "methods.mine: unknown method 'harggo'"),
        *(
            ({"methods": {name: {"method": "hargo"}}}, "cannot name a method")
            for name in ("../evil", "-x", "a;b", "a b", "", "x{y}", "sft", "baselines")
        ),
        ({"pretrain": None}, "needs a section `pretrain`"),
    ],
)
def test_what_a_study_cannot_say_about_its_methods_is_named(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        small(sections)
    assert message in str(error.value)


def test_schema_file_is_up_to_date() -> None:
    file = ROOT / "workflow" / "schemas" / "study.schema.json"
    assert file.read_text(encoding="utf-8") == study_schema(), "run `make schema`"


@pytest.mark.parametrize(
    ("sections", "near"),
    [
        ({"sed": [0]}, "'seeds'"),
        ({"rl": {"temprature": 0.5}}, "'temperature'"),
        ({"data": {"protocol": "given", "embedded": {"kernel": 3}}}, "'kernels'"),
        ({"pretrain": {"step": 3}}, "'steps'"),
        ({"tasks": ["race-c"]}, "'race_c'"),
        ({"methods": {"harg": None}}, "'hargo'"),
        ({"methods": {"hargo": {"alfa": 1}}}, "'alpha'"),
        ({"data": {"source": "embeded"}}, "'embedded'"),
        ({"tasks": ["plp"], "rl": {"max_new_tokens": {"plpp": 4}}}, "'plp'"),
    ],
)
def test_unknown_names_get_the_nearest_known_one(sections: dict[str, Any], near: str) -> None:
    text = message(**sections)
    assert "unknown" in text and f"did you mean {near}?" in text


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"seeds": []}, "seeds"),
        ({"seeds": [0, 0]}, "seeds"),
        ({"seeds": "many"}, "seeds"),
        ({"rl": {"group_size": 1}}, "rl.group_size"),
        ({"rl": {"temperature": 0}}, "rl.temperature"),
        ({"rl": {"learning_rate": float("nan")}}, "rl.learning_rate"),
        ({"sft": {"epochs": 1.5}}, "sft.epochs"),
        ({"methods": {"hargo": {"rho": 1.0}}}, "methods.hargo.rho"),
        ({"name": "../up"}, "name"),
        ({"model": {"scratch": {"hidden": 7}}}, "hidden"),
    ],
)
def test_wrong_values_name_their_key(sections: dict[str, Any], key: str) -> None:
    assert key in message(**sections)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"model": {"source": "hub"}}, "needs `path`"),
        ({"model": {"source": "hub", "path": "a/b"}}, "`pretrain` belongs to model.source 'scratch'"),
        ({"pretrain": None}, "needs a section `pretrain`"),
        ({"model": {"source": "package", "path": "a==1"}}, "needs `file` and `sha256`"),
        ({"data": {"source": "hpcgpt"}}, "needs `path`"),
        ({"data": {"source": "hub", "path": "a/b", "protocol": "given"}}, "protocol 'given'"),
    ],
)
def test_impossible_combinations_are_refused(sections: dict[str, Any], words: str) -> None:
    assert words in message(**sections)


def test_a_method_takes_rl_then_its_preset_then_its_own_keys() -> None:
    study = study_from(
        {**SCRATCH, "rl": {"beta": 0.5, "group_size": 8}, "methods": {"b1": {"beta": 0.1}, "grpo": None}}, "x"
    )
    b1, grpo = study.method("b1").model_dump(), study.method("grpo").model_dump()
    assert (b1["beta"], b1["group_size"], b1["weighting"]) == (0.1, 8, "d")
    assert (grpo["beta"], grpo["group_size"]) == (0.5, 8)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", "line 1: not valid YAML"),
        ("- a\n- b\n", "a study is a mapping"),
        ("", "a study is a mapping"),
        ("seeds: [0]\npretrain: {}\n", "name: is required"),
    ],
)
def test_broken_files_are_one_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_study(file)
    assert words in str(caught.value) and str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        load_study(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        load_study(tmp_path / "binary.yaml")


values = st.recursive(st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8)
mappings = st.dictionaries(st.sampled_from("abc"), values)


@given(mappings, mappings)
def test_merge_lets_the_second_win_and_loses_nothing_else(base: dict[str, Any], over: dict[str, Any]) -> None:
    merged = merge(base, over)
    assert merge(merged, over) == merged
    assert set(merged) == set(base) | set(over)
    for key in set(base) - set(over):
        assert merged[key] == base[key]


def test_a_study_cannot_be_changed_after_reading() -> None:
    study = Study(**SCRATCH)
    with pytest.raises(Exception, match="frozen"):
        study.name = "other"


@pytest.mark.parametrize(
    ("data", "tasks"),
    [
        ({"source": "embedded"}, ["race_c", "race_fortran", "mlperf", "plp"]),
        ({"source": "hpcgpt", "path": "x"}, ["race_c", "race_fortran", "mlperf", "plp"]),
        ({"source": "hub", "path": "a/b"}, ["race_c", "race_fortran", "mlperf", "plp"]),
        ({"source": "drb", "path": "x"}, ["race_c", "race_fortran"]),
        ({"source": "own"}, ["lookup", "race_c"]),
    ],
)
def test_tasks_are_by_default_what_the_source_has(
    monkeypatch: pytest.MonkeyPatch, data: dict[str, Any], tasks: list[str]
) -> None:
    """A task or source that is added changes no other study, in the resolved file either."""
    before = study_from({"name": "x", "pretrain": {}}, "")
    own_tasks.register(monkeypatch, own_tasks.LOOKUP)
    assert study_from({"name": "x", "pretrain": {}, "data": data}, "").tasks == tasks
    assert study_from({"name": "x", "pretrain": {}}, "") == before


def test_a_task_that_the_source_has_no_rows_for_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    own_tasks.register(monkeypatch, own_tasks.LOOKUP)
    assert "data.source 'embedded' has no rows for 'lookup'" in message(tasks=["race_c", "lookup"])
    monkeypatch.delattr(sys.modules["own_source"], "TASKS")
    assert "does not say which tasks it has" in message(data={"source": "own"})
    assert study_from({**SCRATCH, "data": {"source": "own"}, "tasks": ["lookup"]}, "").tasks == ["lookup"]
