"""Two studies side by side: settings, paired and independent intervals, wins row by row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import report_tree

from hargo.cli.common import write_study
from hargo.data.records import load_rows, save_rows
from hargo.errors import UserError
from hargo.evaluation.metrics import summarise
from hargo.io import read_jsonl, write_json, write_jsonl
from hargo.report.versus import versus


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same rows twice; in the second study HARGO answers every question rightly and has another alpha."""
    folder = tmp_path_factory.mktemp("versus")
    one = report_tree.study(name="one", seeds=[0, 1, 2])
    two = report_tree.study(name="two", seeds=[0, 1, 2], methods={"grpo": None, "hargo": {"alpha": 0.5}, "b1": None})
    for study in (one, two):
        write_study(study, report_tree.write(folder, study, per_task=15) / "study.yaml")
    for path in (folder / "two" / "evaluate" / "hargo").glob("*/predictions.jsonl"):
        rows = [p | {"reward": 1.0, "correct": True, "parsed": p["reference"]} for p in read_jsonl(path)]
        for p in rows:
            p["scores"] = dict.fromkeys(p["scores"], 1.0)
        write_jsonl(path, rows)
        write_json(path.with_name("metrics.json"), summarise(rows))
    return folder / "one", folder / "two"


def lines(text: str, method: str, metric: str) -> list[str]:
    return [cell.strip() for cell in next(
        line for line in text.splitlines() if line.startswith(f"| {method} | {metric} |")
    ).split("|")[1:-1]]  # fmt: skip


def test_same_rows_are_paired(runs: tuple[Path, Path]) -> None:
    text = versus(*runs)
    assert "same evaluation rows, so intervals are paired" in text and "3 seeds" in text
    assert "`methods.hargo.alpha`: not set → 0.5" in text and "In one of the two only: B2: c only." in text
    em = lines(text, "HARGO", "EM %")
    assert em[3].startswith("100.00") and float(em[4]) > 20 and "seeds may explain it" in em[7]
    assert lines(text, "HARGO", "WinRate %")[7] == "more than noise"
    same = lines(text, "GRPO", "EM %")
    assert same[2] == same[3] and same[4:] == ["+0.00", "+0.00 to +0.00", "1.000", "not distinguishable"]
    wins = re.findall(r"^\| HARGO \| (\d) \| (\d+) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    assert [w[0] for w in wins] == ["0", "1", "2"] and all(int(w[3]) == 0 for w in wins)
    assert all(sum(map(int, w[1:])) == 60 for w in wins)
    assert not re.search(r"^\| SFT \| WinRate", text, re.MULTILINE)


def test_turned_around_the_signs_turn(runs: tuple[Path, Path]) -> None:
    there, back = lines(versus(*runs), "HARGO", "EM %"), lines(versus(*runs[::-1]), "HARGO", "EM %")
    assert there[4].lstrip("+") == back[4].lstrip("−") and there[2:4] == back[3:1:-1] and there[6] == back[6]


def test_other_rows_are_independent_samples(runs: tuple[Path, Path], tmp_path: Path) -> None:
    other = report_tree.study(name="other", seeds=[0, 1, 2])
    root = report_tree.write(tmp_path, other, per_task=12)
    write_study(other, root / "study.yaml")
    text = versus(runs[0], root)
    assert "different evaluation rows" in text and "B won" not in text
    low, high = (float(v.replace("−", "-")) for v in lines(text, "GRPO", "EM %")[5].split(" to "))
    assert low < 0 < high and high - low > 20


def test_an_edited_row_is_another_row(runs: tuple[Path, Path], tmp_path: Path) -> None:
    study = report_tree.study(name="edited", seeds=[0, 1, 2])
    root = report_tree.write(tmp_path, study, per_task=15)
    write_study(study, root / "study.yaml")
    assert "intervals are paired" in versus(runs[0], root)
    path = root / "data" / "eval.jsonl"
    rows = load_rows(path)
    save_rows(path, [*rows[:-1], type(rows[-1])(rows[-1].id, rows[-1].task, "other", rows[-1].answer)])
    assert "different evaluation rows" in versus(runs[0], root)


def test_a_folder_that_is_no_study_is_one_line(runs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give the folder of a finished study"):
        versus(runs[0], tmp_path)
