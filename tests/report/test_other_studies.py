"""Reports of studies without SFT, GRPO or HARGO: a subject against a reference, and no word about absent runs."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
import report_tree

from hargo.cli.common import write_study
from hargo.cli.evidence import power as command
from hargo.config import Study
from hargo.errors import UserError
from hargo.io import read_jsonl
from hargo.report import marks, tables
from hargo.report.build import build, print_headline
from hargo.report.power import power
from hargo.report.results import Results, read

#: studies by what is peculiar about them
STUDIES: dict[str, dict[str, Any]] = {
    "others": {"sft": False, "methods": {"dapo": None, "gspo": None, "rloo": None}},
    "one": {"sft": False, "methods": {"rloo": None}, "seeds": [3]},
    "one twice": {"sft": False, "methods": {"rloo": None}},
    "sft": {"methods": {}},
    "sft and one": {"methods": {"gspo": None}},
    "own names": {"sft": False, "methods": {"mine": {"method": "rloo"}, "yours": {"method": "dapo"}}},
    "ablations": {"methods": {"b1": None, "shuffled": None}},
    "chosen": {
        "methods": {"grpo": None, "hargo": None, "dapo": None},
        "report": {"subject": "dapo", "references": ["hargo"]},
    },
}
WORDS = {"sft": "SFT", "grpo": "GRPO", "hargo": "HARGO", "b1": "B1", "b2": "B2", "dapo": "DAPO"}


def made(folder: Path, over: dict[str, Any]) -> tuple[Study, Path]:
    study = report_tree.study(**over)
    return study, report_tree.write(folder, study, per_task=8)


def text_of(study: Study, root: Path, out: Path) -> str:
    build(study, root, out)
    return (out / "report.md").read_text(encoding="utf-8").split("The study with every key")[0]


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "ablations"])
def test_a_report_speaks_of_its_own_runs_only(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, root = made(tmp_path, STUDIES[name])
    text = text_of(study, root, tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8").split("<main>")[1].split("<script")[0]
    figures = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "out" / "figures").glob("*.svg"))
    print_headline(study, tmp_path / "out")
    for said in (text, page.split("The study with every key")[0], figures, capsys.readouterr().out):
        for run, word in WORDS.items():
            if run not in study.reported:
                assert not re.search(rf"\b{word}\b", said), (word, re.findall(rf".{{60}}\b{word}\b.{{60}}", said))
    assert "None" not in text and "  " not in text.replace("\n", "")
    with (tmp_path / "out" / "summary.csv").open(encoding="utf-8", newline="") as file:
        assert [row["method"] for row in csv.DictReader(file)][: len(study.reported)] == list(read(study, root).models)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    return made(tmp_path_factory.mktemp("others"), STUDIES["others"])


def test_the_first_method_is_held_against_the_next(others: tuple[Study, Path], tmp_path: Path) -> None:
    study, root = others
    text = text_of(study, root, tmp_path)
    results = read(study, root)
    assert (results.subject, results.references, results.rival) == ("dapo", ["gspo"], "gspo")
    assert "## DAPO against GSPO" in text and "| Metric | DAPO − GSPO |" in text
    assert "Methods besides GSPO: DAPO, RLOO." in text and "\\* differs from GSPO:" in text and "†" not in text
    assert "WinRate is measured against the GSPO model of the same seed" in text
    assert re.search(r"^- WinRate: DAPO .* GSPO \(95 % interval", text, re.MULTILINE)
    assert "the paper" not in text  # which has none of these methods
    assert "methods are compared seed by seed" in text


def test_winrate_is_against_the_first_reference(others: tuple[Study, Path]) -> None:
    study, root = others
    results = read(study, root)
    ours, theirs = (read_jsonl(root / f"evaluate/{name}/seed1/predictions.jsonl") for name in ("rloo", "gspo"))
    gaps = [(p["reward"] or 0) - (q["reward"] or 0) for p, q in zip(ours, theirs, strict=True)]
    wins = sum(1 if gap > 1e-6 else 0.5 if gap > -1e-6 else 0 for gap in gaps)
    assert results.models["rloo"][1].figures["win_rate"] == pytest.approx(100 * wins / len(gaps))
    assert "win_rate" not in results.models["gspo"][0].figures
    assert "WinRate %, DAPO against GSPO" in power(results, "win_rate", 4.0, results.subject, results.rival)


def test_the_command_asks_the_study_what_to_compare(others: tuple[Study, Path], capsys: Any) -> None:
    study, root = others
    write_study(study, root / "study.yaml")
    command(root / "study.yaml", 4.0, results=root)
    assert "WinRate %, DAPO against GSPO" in capsys.readouterr().out
    command(root / "study.yaml", 4.0, first="rloo", results=root)
    assert "WinRate %, RLOO against GSPO" in capsys.readouterr().out


def test_a_run_alone_has_a_headline_and_no_comparison(tmp_path: Path) -> None:
    study, root = made(tmp_path, STUDIES["one twice"])
    text = text_of(study, root, tmp_path / "out")
    assert "| RLOO |" in text and " against " not in text.split("## Leakage")[0]
    assert "What is more than noise" not in text and "differs from" not in text and "WinRate" not in text
    results = read(study, root)
    assert (results.subject, results.references, results.featured) == ("rloo", [], ["rloo"])
    with pytest.raises(UserError, match="name them with --first and --second"):
        power(results, "em", 4.0, results.subject, results.rival)


def test_sft_alone_is_its_own_reference(tmp_path: Path) -> None:
    study, root = made(tmp_path, STUDIES["sft"])
    text = text_of(study, root, tmp_path / "out")
    assert "Methods besides SFT: none." in text and "| SFT |" in text
    assert "What is more than noise" not in text and "differs from" not in text


def test_what_a_study_chooses_is_what_its_report_asks(tmp_path: Path) -> None:
    study, root = made(tmp_path, STUDIES["chosen"])
    text = text_of(study, root, tmp_path / "out")
    assert "## DAPO against HARGO" in text and "WinRate is measured against the HARGO model" in text
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "HARGO of the same seed" in page and '<tr class="strong"><th scope="row">DAPO' in page
    results = read(study, root)
    assert next(iter(results.models)) == "hargo" and marks.marked(results.references) == {"hargo": "*"}
    assert "hargo_accuracy" in tables.heterogeneity(results)[0]


def test_more_references_have_marks_of_their_own(tmp_path: Path) -> None:
    over = STUDIES["others"] | {"report": {"references": ["gspo", "rloo"]}}
    study, root = made(tmp_path, over)
    results: Results = read(study, root)
    assert (results.first_reference, results.rival, results.featured) == ("gspo", "rloo", ["gspo", "rloo", "dapo"])
    text = text_of(study, root, tmp_path / "out")
    assert "\\* differs from GSPO, † differs from RLOO:" in text
    assert "## DAPO against RLOO" in text


def test_controls_speak_where_they_are(tmp_path: Path) -> None:
    study, root = made(tmp_path, STUDIES["ablations"])
    text = text_of(study, root, tmp_path / "out")
    assert "Forms of HARGO's weights: B1 by advantage alone; controls last." in text
    assert "learns from rewards permuted within each group and must not beat SFT" in text
    assert "What each form changes against SFT" in text
