"""Digests of the code that a stage uses: what changes them and what does not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
from places import ROOT

from hargo import fingerprint
from hargo.config.code import stage_code, stage_digest


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package that a test may edit, taken for the real one."""
    copy = tmp_path / "hargo"
    shutil.copytree(ROOT / "hargo", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "PACKAGE", copy)
    yield copy
    forget()


def forget() -> None:
    fingerprint._files.cache_clear()
    fingerprint._read.cache_clear()


def digests(stage: str, method: str | None = None) -> dict[str, str]:
    forget()
    return stage_code(tiny.study(), stage, method)


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


@pytest.mark.parametrize(
    ("file", "stages", "others"),
    [
        ("tasks/race_c.py", {"train hargo", "train sft", "evaluate"}, {"model"}),
        ("methods/hargo.py", {"train hargo"}, {"train sft", "train pretrain", "evaluate", "data"}),
        ("training/loop.py", {"train hargo", "train sft", "train pretrain"}, {"data", "model"}),
        ("training/trainers/rollouts.py", {"train hargo"}, {"train sft", "train pretrain", "preferences"}),
        ("rollout/draw.py", {"train hargo", "evaluate", "preferences"}, {"data", "model"}),
        ("data/embedded/kernels.py", {"data"}, {"train hargo"}),
        ("data/embedded/mlperf.csv", {"data"}, {"train hargo", "evaluate"}),
        ("report/tables.py", {"report"}, {"train hargo", "evaluate", "data"}),
        ("report/render/assets/page.html.j2", {"report"}, {"train hargo", "evaluate"}),
        ("cli/__init__.py", set(), {"train hargo", "data"}),
    ],
)
def test_code_counts_for_the_stages_that_use_it(package: Path, file: str, stages: set[str], others: set[str]) -> None:
    before = {stage: digests(*stage.split()) for stage in stages | others}
    append(package / file, "\nADDED = 1\n")
    for stage in stages | others:
        assert changed(before[stage], digests(*stage.split())) == ({f"hargo/{file}"} if stage in stages else set())


def test_what_only_people_read_does_not_count(package: Path) -> None:
    before = digests("train", "hargo")
    path = package / "training" / "loop.py"
    append(path, "\n\n# a comment\n")
    path.write_text(path.read_text().replace('"""The one training loop.', '"""A training loop.'))
    assert digests("train", "hargo") == before


def test_an_own_task_outside_the_package_counts_with_its_helpers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "ourlab"
    own.mkdir()
    (own / "__init__.py").write_text("")
    (own / "task.py").write_text("from ourlab import words\nfrom hargo.tasks.values import numbers\nTASK = 1\n")
    (own / "words.py").write_text("WORDS = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = fingerprint.code_of("ourlab.task")
    assert {"ourlab/__init__.py", "ourlab/task.py", "ourlab/words.py", "hargo/tasks/values.py"} <= set(before)
    append(own / "words.py", "WORDS = 2\n")
    forget()
    assert changed(before, fingerprint.code_of("ourlab.task")) == {"ourlab/words.py"}


def test_one_method_does_not_count_for_another() -> None:
    study = tiny.study(methods={"grpo": {}, "hargo": {}, "dpo": {}, "own": {"method": "hargo"}})
    found = {name: stage_digest(study, "train", name) for name in study.methods}
    assert found["own"] == found["hargo"] and len({*found.values()}) == 3
