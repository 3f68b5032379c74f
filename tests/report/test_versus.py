"""Two studies side by side: settings, paired and independent intervals, wins row by row."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import report_tree

from hargo.cli.common import write_study
from hargo.config import load_study
from hargo.data.records import Row, load_rows, save_rows
from hargo.errors import UserError
from hargo.evaluation import predictions as files
from hargo.evaluation.metrics import summarise
from hargo.io import read_jsonl, write_json, write_jsonl
from hargo.report.results import Results, read
from hargo.report.two_studies import difference, versus


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
        write_json(path.with_name("metrics.json"), summarise(files.read(path)))
    return folder / "one", folder / "two"


def read_one(folder: Path) -> Results:
    return read(load_study(folder / "study.yaml"), folder)


def lines(text: str, method: str, metric: str) -> list[str]:
    return [cell.strip() for cell in next(
        line for line in text.splitlines() if line.startswith(f"| {method} | {metric} |")
    ).split("|")[1:-1]]  # fmt: skip


def test_same_rows_are_paired(runs: tuple[Path, Path]) -> None:
    text = versus(*runs)
    assert "same evaluation rows, so intervals are paired" in text and "3 seeds" in text
    assert "`methods.hargo.alpha`: not set → 0.5" in text and "In one of the two only: B2: c only." in text
    em = lines(text, "HARGO", "EM %")
    assert em[3].startswith("100.00") and float(em[4]) > 20 and em[7] == "more than noise"
    assert "seeds may explain it; a difference below" in lines(text, "HARGO", "Race F1 %")[7]
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


def renumbered(root: Path, folder: Path, seeds: dict[int, int]) -> Path:
    """A copy of a study in which other numbers stand for its seeds, in the order given."""
    copy = Path(shutil.copytree(root, folder / root.name))
    study = load_study(copy / "study.yaml")
    for kind in ("train/*", "evaluate/*"):
        for where in copy.glob(kind):
            for old in seeds:
                if (where / f"seed{old}").is_dir():
                    (where / f"seed{old}").rename(where / f"old{old}")
            for old, new in seeds.items():
                if (where / f"old{old}").is_dir():
                    (where / f"old{old}").rename(where / f"seed{new}")
    write_study(study.model_copy(update={"seeds": list(seeds.values())}), copy / "study.yaml")
    return copy


def test_seeds_are_matched_by_number_not_by_place(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """The same study with its seeds listed in another order, and with other seeds."""
    turned = tmp_path / "turned"
    shutil.copytree(runs[1], turned / "two")
    study = load_study(turned / "two" / "study.yaml")
    write_study(study.model_copy(update={"seeds": [2, 0, 1]}), turned / "two" / "study.yaml")
    first, same = (lines(versus(runs[0], root), "B1: d only", "EM %") for root in (runs[1], turned / "two"))
    assert first == same and "the same seeds, which are paired too" in versus(runs[0], turned / "two")
    gaps = [difference(read_one(runs[0]), read_one(root), "hargo", "em", True) for root in (runs[1], turned / "two")]
    assert gaps[0] == gaps[1] and gaps[0] is not None and gaps[0].freedom == 2
    other = renumbered(runs[1], tmp_path / "other", {0: 7, 1: 8, 2: 9})
    assert "Their seeds differ" in versus(runs[0], other)
    apart = difference(read_one(runs[0]), read_one(other), "grpo", "win_rate", True)
    assert apart is not None and apart.freedom > 2


def test_wins_of_rows_that_are_alike_count_once(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """All rows of a task in two families: eight signs in all, so that no p is below 2 / 2^8."""
    copies = []
    for root in runs:
        copy = Path(shutil.copytree(root, tmp_path / root.name))
        rows = load_rows(copy / "data" / "eval.jsonl")
        save_rows(
            copy / "data" / "eval.jsonl",
            [Row(r.id, r.task, r.prompt, r.answer, {"family": f"{r.task} {i % 2}"}) for i, r in enumerate(rows)],
        )
        copies.append(copy)
    text = versus(*copies)
    assert "60 rows in 8 families" in text
    p = [float(v) for v in re.findall(r"^\| HARGO \| \d \|.*\| ([0-9.]+) \|$", text, re.MULTILINE)]
    assert len(p) == 3 and min(p) >= 0.007
