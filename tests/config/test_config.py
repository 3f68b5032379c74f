"""A study says what it means, or the message says which key to mend."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import own_tasks
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import ROOT
from refused import SCRATCH, message

from hargo.config import METHODS, TASKS, Study, load_study, study_from, study_schema
from hargo.config.loading import merge
from hargo.errors import UserError

STUDIES = sorted((ROOT / "config").glob("*.yaml"))


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
    study = small({"rl": rl, "methods": dict.fromkeys(METHODS.keys() - {"pretrain", "sft"})})
    betas = {name: getattr(study.method(name), "beta", None) for name in study.methods}
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
            "methods.hargo-alpha-1: the sweep creates a method of this name",
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
        ({"data": {"protocol": "given", "embedded": {"families": ["totl"]}}}, "'total'"),
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
        ({"seeds": [True, False]}, "seeds.0"),
        ({"seeds": ["1"]}, "seeds.0"),
        ({"seeds": [1.0]}, "seeds.0"),
        ({"seeds": [-1]}, "seeds.0"),
        ({"seeds": [2**32]}, "seeds.0"),
        ({"data": {"protocol": "given", "embedded": {"seed": -1}}}, "data.embedded.seed"),
        ({"rl": {"group_size": True}}, "rl.group_size"),
        ({"rl": {"beta": True}}, "rl.beta"),
        ({"rl": {"beta": "0.1"}}, "rl.beta"),
        ({"rl": {"beta": float("inf")}}, "rl.beta"),
        ({"rl": {"max_new_tokens": {"plp": True}}}, "rl.max_new_tokens.plp"),
        ({"evaluation": {"perturb": 1}}, "evaluation.perturb"),
        ({"methods": {"dpo": {"beta": True}}}, "methods.dpo.beta"),
        ({"methods": {"hargo": 3}}, "methods.hargo"),
        ({"methods": {"mine": {"method": ["hargo"]}}}, "mine: `method`"),
        ({"methods": 3, "sweep": {"hargo": {"alpha": [1]}}}, "methods: must be a section"),
        ({"sweep": {"hargo": {"alpha": [1, 1.0]}}}, "sweep.hargo.alpha: a value is listed twice"),
        ({"sweep": ["hargo"]}, "sweep: must be a section"),
        ({"rl": 3}, "rl: must be a section"),
        ({"data": {"source": "hpcgpt", "path": ""}}, "data.path"),
        ({"evaluation": {"tie": 2.0}}, "evaluation.tie"),
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
        ({"model": {"source": "hub", "path": "a/b"}}, "`pretrain` is only for model.source 'scratch'"),
        ({"pretrain": None}, "needs a section `pretrain`"),
        ({"model": {"source": "package", "path": "a==1"}}, "needs `file` and `sha256`"),
        ({"data": {"source": "hpcgpt"}}, "needs `path`"),
        ({"data": {"source": "hub", "path": "a/b", "protocol": "given"}}, "protocol 'given'"),
        ({"tasks": ["plp"], "evaluation": {"external": "drb"}}, "evaluation: `external` would be ignored"),
        ({"data": {"embedded": {"held_out_families": 99}}}, "families can be held out"),
        ({"data": {"embedded": {"families": ["total", "total"]}}}, "'total' is listed twice"),
        ({"model": {"path": "a/b"}}, "model: `path` would be ignored, since source is 'scratch', the default"),
        ({"model": {"path": "a/b"}}, "set `source` to one of hub, folder, gguf, package"),
        ({"model": {"path": "a/b", "revision": "main"}}, "write `source: hub`"),
        ({"model": {"file": "a.gguf"}}, "write `source: package`"),
        ({"model": {"source": "folder", "path": "a", "revision": "main"}}, "`revision` would be ignored"),
        ({"model": {"source": "hub", "path": "a/b", "scratch": {"hidden": 32}}}, "write `source: scratch`"),
        ({"data": {"path": "rows"}}, "set `source` to one of hpcgpt, drb, hub"),
        ({"data": {"revision": "main"}}, "write `source: hub`"),
        ({"data": {"source": "hpcgpt", "path": "a", "revision": "main"}}, "`revision` would be ignored"),
        ({"data": {"source": "hpcgpt", "path": "a", "embedded": {"plp": 3}}}, "write `source: embedded`"),
        ({"data": {"protocol": "given", "eval_fraction": 0.2}}, "`eval_fraction` would be ignored, since protocol"),
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
        ("name: x\nrl:\n\tbeta: 1\n", "line 3: not valid YAML"),
        ("name: x\npretrain: &a {}\nsft: &a {}\n", "line 3: not valid YAML (found duplicate anchor 'a'"),
        ("name: x\npretrain: *a\n", "line 2: not valid YAML (found undefined alias 'a')"),
        ("name: x\n\npretrain: \0\n", "line 3: the character #x0000"),
        ("name: x\npretrain: !!python/name:os.system\n", "line 2: not valid YAML"),
        ("name: x\n? [a]\n: 1\n", "line 2: not valid YAML"),
        ("name: x\nseeds: [!!int x]\n", "not valid YAML"),
        ("name: x\n---\nname: y\n", "line 2: not valid YAML"),
        ('{"name": "x", "model": {"system": "\\ud83d"}}', "line 1: not valid YAML (half of a surrogate pair"),
        ("name: x\nseeds: " + "[" * 5000, "nested too deeply"),
        ("name: x\npretrain: {}\nrl: {beta: 1}\nsft: {}\nrl: {}\n", "line 5: the key 'rl' is repeated here"),
        ("name: x\npretrain: {}\nrl: {beta: 1, beta: 1}\n", "line 3: the key 'beta' is repeated here"),
        (
            '{"name": "x",\n\t"rl": {"beta": 1},\n\t"rl": {}}',
            "line 3: the key 'rl' is repeated here (first on line 2)",
        ),
        ("name: x\npretrain: {}\nrl:\n  beta: 1\n  'beta': 2\n", "line 5: the key 'beta' is repeated here"),
        ("name: x\npretrain: {}\nrl:\n  bet: 1\n", "line 4: unknown key in rl 'bet'; did you mean 'beta'?"),
        ("name: x\npretrain: {}\nrl:\n  beta: no\n", "line 4: rl.beta: Input should be a valid number (given False)"),
        ("name: x\nmodel:\n  path: a\n", "line 3: model: `path` would be ignored"),
        ("name: x\npretrain: {}\nmethods:\n  hargo:\n    alfa: 1\n", "line 5: unknown key in methods.hargo 'alfa'"),
        ("name: x\npretrain: {}\nmethods:\n  hargo:\n    rho: 1\n", "line 5: methods.hargo.rho: Input should be less"),
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
    assert "does not declare its tasks" in message(data={"source": "own"})
    assert study_from({**SCRATCH, "data": {"source": "own"}, "tasks": ["lookup"]}, "").tasks == ["lookup"]


def test_an_override_of_the_command_line_is_no_key_written_twice_and_stands_in_no_line(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("name: x\npretrain: {}\nrl: {beta: 0.1}\n")
    assert load_study(file, {"rl": {"beta": 0.2}}).rl.beta == 0.2
    with pytest.raises(UserError) as caught:
        load_study(file, {"rl": {"beta": -1}})
    assert str(caught.value).startswith(f"{file}: rl.beta:")


def test_keys_that_a_mapping_takes_over_from_another_are_not_written_twice(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(
        "name: x\npretrain: &steps {steps: 3, batch_size: 2}\n"
        "methods:\n  one: &one {method: hargo, alpha: 1}\n  two: {<<: *one, alpha: 2}\n  three: {<<: *one}\n"
    )
    study = load_study(file)
    assert [study.method(name).alpha for name in study.methods] == [1, 2, 1]
    file.write_text(file.read_text().replace("two: {<<: *one,", "two: {<<: *one, <<: *steps,"))
    with pytest.raises(UserError, match="line 5: the key '<<' is repeated here"):
        load_study(file)


def test_numbers_without_a_point_and_dates_are_read_as_written(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("name: 2024-01-01\npretrain: {learning_rate: 1e-5}\nsft: {learning_rate: 2E-5}\n")
    study = load_study(file)
    assert (study.name, study.pretrain and study.pretrain.learning_rate, study.sft.learning_rate) == (
        "2024-01-01", 1e-5, 2e-5
    )  # fmt: skip


def test_a_data_source_of_ones_own_may_have_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    from hargo.config.registry import SOURCES

    monkeypatch.setitem(SOURCES, "mine", "hargo.data.hpcgpt")
    assert small({"data": {"source": "mine", "path": "rows.csv"}}).data.path == "rows.csv"
    assert "write `source: embedded`" in message(data={"source": "mine", "embedded": {"plp": 3}})


def test_the_home_folder_in_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    sections = {
        "data": {"source": "hpcgpt", "path": "~/rows"},
        "model": {"source": "folder", "path": "~/model"},
        "evaluation": {"external": "~/drb"},
        "prefetch": {"cache": "~/cache"},
    }
    study = study_from({"name": "x", **sections}, "x")
    found = (study.data.path, study.model.path, study.evaluation.external, str(study.prefetch.cache))
    assert found == tuple(f"/home/me/{name}" for name in ("rows", "model", "drb", "cache"))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("ab~/ \n", max_size=3) | st.just("hargo"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*Study.model_fields, "method", "hargo", "alpha", 1]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*Study.model_fields]), anything, max_size=4))
def test_whatever_a_study_says_is_read_or_refused_in_one_line(sections: dict[str, Any]) -> None:
    try:
        study_from({**SCRATCH, **sections}, "study.yaml")
    except UserError as error:
        assert "\n" not in str(error)


def test_a_preset_may_weigh_tasks_that_a_study_lacks() -> None:
    study = study_from({**SCRATCH, "tasks": ["plp"], "methods": {"oracle": None}}, "study.yaml")
    assert study.method("oracle").task_weights["plp"] == 0.5
