"""A study that is not the one that was run is pointed out, run by run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import report_tree

from hargo import provenance
from hargo.config import Study
from hargo.io import read_json, write_json
from hargo.report.build import build
from hargo.report.drift import drift
from hargo.report.render import markdown
from hargo.report.results import read
from hargo.report.sections import sections


@pytest.fixture
def root(study: Study, tree: Path, tmp_path: Path) -> Path:
    """Results whose run.json hold what the stages record of the study."""
    root = Path(shutil.copytree(tree, tmp_path / "tree"))
    for path in root.rglob("run.json"):
        name = path.parent.parent.name
        extra: dict[str, Any] = {}
        if path.parent.parent.parent.name == "train":
            extra["options"] = study.method(name).model_dump(exclude={"checkpoint_every"})
        write_json(path, read_json(path) | {"study": study.model_dump(mode="json")} | extra)
    return root


def test_the_study_that_was_run_has_no_warning(study: Study, root: Path) -> None:
    assert drift(study, root) == []
    assert "The study differs from the one that was run" not in markdown.render("x", sections(read(study, root), set()))
    free = {"evaluation": {"tie": 0.01}, "sft": {"checkpoint_every": 7}, "rl": {"checkpoint_every": 7}}
    assert drift(report_tree.study(**free), root) == []


@pytest.mark.parametrize(
    ("over", "said"),
    [
        (
            {"rl": {"beta": 0.5}},
            "methods.grpo.beta: the study says 0.5, but 0.02 in train/grpo/seed0, train/grpo/seed1",
        ),
        (
            {"methods": {"grpo": {"lora": {"rank": 4}}, "hargo": None, "b1": None, "b2": None}},
            "methods.grpo.lora: the study says {'rank': 4,",
        ),
        ({"sft": {"epochs": 7}}, "sft.epochs: the study says 7, but 2 in train/sft/seed0, train/sft/seed1"),
        (
            {"evaluation": {"max_new_tokens": {"plp": 9}}},
            "evaluation.max_new_tokens: the study says {'plp': 9}, but {} in evaluate/sft/seed0",
        ),
        (
            {"data": {"protocol": "given", "split_seed": 3}},
            "data.split_seed: the study says 3, but 0 in train/sft/seed0",
        ),
        ({"tasks": ["race_c", "race_fortran", "mlperf"]}, "tasks: the study says ['race_c', 'race_fortran', 'mlperf']"),
    ],
)
def test_option_values_and_runs_are_named(root: Path, over: dict[str, Any], said: str) -> None:
    assert any(line.startswith(said) for line in drift(report_tree.study(**over), root))


def test_page_and_terminal_say_it(root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    edited = report_tree.study(methods={"grpo": None, "hargo": {"alpha": 1.5}, "b1": None, "b2": None})
    build(edited, root, tmp_path / "out")
    line = "methods.hargo.alpha: the study says 1.5, but 0.3 in train/hargo/seed0, train/hargo/seed1"
    assert line in caplog.text
    short = (tmp_path / "out" / "report.md").read_text(encoding="utf-8").split("## Results")[0]
    assert "The study differs from the one that was run" in short and line in short.replace("\\_", "_")


def test_another_method_under_the_same_name_is_noticed(root: Path) -> None:
    other = report_tree.study(methods={"grpo": None, "hargo": {"method": "grpo"}, "b1": None, "b2": None})
    assert any(line.startswith("methods.hargo.method: the study says grpo, but hargo") for line in drift(other, root))


def test_what_a_run_really_records_is_read(study: Study, tmp_path: Path) -> None:
    options = study.method("hargo").model_dump(exclude={"checkpoint_every"})
    record = provenance.record(study, stage="hargo seed 0", method="hargo", options=options)
    write_json(tmp_path / "train" / "hargo" / "seed0" / "run.json", record)
    write_json(tmp_path / "train" / "grpo" / "seed0" / "run.json", {"versions": {}})  # too old to say
    assert drift(study, tmp_path) == []
