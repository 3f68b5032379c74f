"""README.md and docs/results/README.md show what the committed reports show."""

from __future__ import annotations

import csv
import runpy
from pathlib import Path

import pytest
from places import ROOT

TABLES = runpy.run_path(str(ROOT / "docs" / "tables.py"))


@pytest.mark.parametrize("page", TABLES["PAGES"], ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_those_of_the_committed_reports(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "<!-- table docs/results/demo -->" in text
    assert TABLES["renewed"](text) == text, "run `make schema`"


def test_a_table_has_the_figures_of_its_summary() -> None:
    folder = ROOT / "docs" / "results" / "demo"
    with (folder / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["title"]: row for row in csv.DictReader(file)}
    lines = [line.strip("| \n").split(" | ") for line in TABLES["table"](folder).splitlines()[2:]]
    assert [line[0] for line in lines] == list(rows)
    [hargo] = [line for line in lines if line[0] == "HARGO"]
    mean, deviation = (float(rows["HARGO"][f"race_f1_{key}"]) for key in ("mean", "std"))
    assert hargo[2] == f"{mean:.1f} ± {deviation:.1f}"


def test_the_readme_reads_the_demo_as_its_report_does() -> None:
    short = TABLES["short"](ROOT / "docs" / "results" / "demo")
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "nothing is distinguishable from SFT, and nearest neighbour beats every language model on MLPerf" in readme
    assert "Nothing is distinguishable from SFT on any headline metric" in short
    for metric in ("mlperf accuracy", "PLP similarity"):
        [line] = [line for line in short.splitlines() if line.startswith(f"- {metric}: ")]
        assert "above it 1-NN" in line


def test_every_folder_of_results_is_described() -> None:
    text = (ROOT / "docs" / "results" / "README.md").read_text(encoding="utf-8")
    assert "<!-- short docs/results/demo -->" in text
    for folder in (ROOT / "docs" / "results").iterdir():
        assert not folder.is_dir() or f"<!-- table docs/results/{folder.name} -->" in text
