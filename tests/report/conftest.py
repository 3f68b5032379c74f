"""A study's results and its report, for the tests of reports."""

from __future__ import annotations

from pathlib import Path

import pytest
import report_tree

from hargo.config import Study
from hargo.report.build import build
from hargo.report.results import Results, read


@pytest.fixture(scope="module")
def study() -> Study:
    return report_tree.study()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, study: Study) -> Path:
    return report_tree.write(tmp_path_factory.mktemp("results"), study, per_task=20)


@pytest.fixture(scope="module")
def results(study: Study, tree: Path) -> Results:
    return read(study, tree)


@pytest.fixture(scope="module")
def out(study: Study, tree: Path) -> Path:
    build(study, tree, tree / "report")
    return tree / "report"
