"""The report of a small synthetic study: tables, words, errors that help."""

from __future__ import annotations

import csv
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_tree
from hypothesis import given, settings
from hypothesis import strategies as st
from test_metrics import prediction

from hargo.config import Study
from hargo.errors import UserError
from hargo.evaluation import calibration
from hargo.evaluation.predictions import Prediction
from hargo.evaluation.statistics import need
from hargo.io import read_jsonl, write_json, write_jsonl
from hargo.report import comparisons, marks, similarity, tables, verdicts
from hargo.report.blocks import Table
from hargo.report.build import build, print_headline
from hargo.report.figures import FIGURES
from hargo.report.power import power
from hargo.report.render import markdown
from hargo.report.results import Results, read
from hargo.report.sections import leakage, sections


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_everything_that_the_workflow_declares_is_written(out: Path) -> None:
    names = ("summary", "per_task", "ablation", "heterogeneity", "evidence", "similarity")
    for name in (*(f"{name}.csv" for name in names), "report.md", "report.html"):
        assert (out / name).stat().st_size > 0
    names = {path.name for path in (out / "figures").iterdir()}
    assert names == {f"{figure}.{kind}" for figure in FIGURES for kind in ("svg", "png")}


def test_summary_by_hand(out: Path, tree: Path) -> None:
    rows = {row["method"]: row for row in table(out / "summary.csv")}
    assert list(rows) == ["sft", "grpo", "hargo", "b1", "b2", "majority", "1-NN", "TF-IDF + LR"]
    em, wins = [], []
    for seed in (0, 1):
        ours = read_jsonl(tree / f"evaluate/hargo/seed{seed}/predictions.jsonl")
        base = read_jsonl(tree / f"evaluate/sft/seed{seed}/predictions.jsonl")
        mlperf = [p["scores"]["em"] for p in ours if p["task"] == "mlperf"]
        em.append(100 * sum(mlperf) / len(mlperf))
        gaps = [p["reward"] - q["reward"] for p, q in zip(ours, base, strict=True)]
        wins.append(100 * sum(1 if g > 1e-6 else 0.5 if g > -1e-6 else 0 for g in gaps) / len(gaps))
    row = rows["hargo"]
    assert float(row["em_mean"]) == pytest.approx(sum(em) / 2, abs=1e-5)
    assert float(row["em_std"]) == pytest.approx(abs(em[0] - em[1]) / 2**0.5, abs=1e-5)
    assert (float(row["em_min"]), float(row["em_max"])) == pytest.approx((min(em), max(em)), abs=1e-5)
    assert float(row["win_rate_mean"]) == pytest.approx(sum(wins) / 2, abs=1e-5)
    assert (row["seeds"], row["kind"]) == ("2", "method")
    assert "win_rate_paper" not in row  # generated data is not the paper's
    assert rows["sft"]["win_rate_mean"] == "" and rows["b1"]["kind"] == "ablation"
    lr = rows["TF-IDF + LR"]
    assert (lr["seeds"], lr["kind"], lr["em_mean"], lr["win_rate_mean"]) == ("0", "baseline", "", "")
    assert float(lr["race_f1_mean"]) > 0


def test_ablation_and_heterogeneity_tables(out: Path, tree: Path) -> None:
    assert [row["method"] for row in table(out / "ablation.csv")] == ["sft", "grpo", "hargo", "b1", "b2"]
    rows = {row["task"]: row for row in table(out / "heterogeneity.csv")}
    answers = [len(row["answer"]) for row in read_jsonl(tree / "data/train.jsonl") if row["task"] == "plp"]
    assert float(rows["plp"]["answer_chars_mean"]) == pytest.approx(sum(answers) / len(answers), abs=1e-5)
    for row in rows.values():
        assert sum(float(v) for k, v in row.items() if re.fullmatch(r"sft_reward_[0-9.-]+", k)) == pytest.approx(
            100, abs=1e-4
        )


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1))
def test_every_reward_falls_into_one_bin(rewards: list[float]) -> None:
    assert sum(tables.histogram(rewards).values()) == pytest.approx(100)


# --- words ---


def test_baselines_that_keep_up_are_named_first(out: Path) -> None:
    text = (out / "report.md").read_text(encoding="utf-8")
    short = text.split("## Results")[0]
    assert "A baseline without a language model keeps up" in short
    assert re.search(r"race F1: the best language model, .*; (level with|above) it .*TF-IDF \+ LR \d", short)
    assert "one seed, without intervals" in short and "not comparable" in short
    assert "2 seeds (0, 1)" in short


def outcomes(results: Results, method: str, won: dict[int, int]) -> Results:
    """The results with the first `won[seed]` rows of `method` won and the others lost."""
    models = []
    for m in results.models[method]:
        kinds = {p.id: "won" if i < won[m.seed or 0] else "lost" for i, p in enumerate(m.predictions)}
        models.append(replace(m, outcomes=kinds))
    return replace(results, models=results.models | {method: models})


def test_a_gap_that_seeds_explain_is_not_distinguishable(results: Results) -> None:
    near = outcomes(outcomes(results, "grpo", {0: 40, 1: 40}), "hargo", {0: 44, 1: 72})
    found = comparisons.gap(near, "hargo", "grpo", "win_rate")
    assert found is not None and found.gap == pytest.approx(22.5)
    assert found.interval[0] > 0 and not found.distinguishable
    steady = outcomes(near, "hargo", {0: 58, 1: 58})
    found = comparisons.gap(steady, "hargo", "grpo", "win_rate")
    assert found is not None and found.gap == pytest.approx(22.5) and found.distinguishable
    told = {row["method"]: row["win_rate_marks"] for row in marks.annotate(steady, tables.summary(steady)[:3])}
    assert told["hargo"] == "*†" and "†" not in told["sft"]
    assert any("from GRPO" in line and "WinRate: HARGO (+22.50" in line for line in verdicts.verdicts(steady))


def test_one_seed_calls_no_method_different(results: Results) -> None:
    far = outcomes(outcomes(results, "grpo", {0: 0, 1: 0}), "hargo", {0: 80, 1: 80})
    found = comparisons.gap(far, "hargo", "grpo", "win_rate")
    assert found is not None and found.interval == (100, 100) and found.distinguishable
    one = replace(far, models={k: v[:1] for k, v in far.models.items()}, study=report_tree.study(seeds=[0]))
    single = comparisons.gap(one, "hargo", "grpo", "win_rate")
    assert single is not None and not single.distinguishable and "seeds unknown" in single.reading
    assert "With one seed, no method can be called different from SFT." in verdicts.verdicts(one)
    assert any("One seed" in str(block) for block in sections(one, set())[0].blocks)


def test_equal_methods_are_said_to_be_equal(results: Results) -> None:
    same = replace(results, models=dict.fromkeys(("sft", "grpo", "hargo"), results.models["sft"]))
    assert [line for line in verdicts.verdicts(same) if line.startswith("Nothing is distinguishable")] == [
        f"Nothing is distinguishable from {name} on any headline metric." for name in ("SFT", "GRPO")
    ]


@pytest.mark.parametrize("metric", list(tables.METRICS))
def test_bootstrap_surrounds_the_gap_and_turns_with_it(results: Results, metric: str) -> None:
    ahead, behind = comparisons.gap(results, "hargo", "sft" if metric != "win_rate" else "grpo", metric), None
    assert ahead is not None
    behind = comparisons.gap(results, ahead.second, "hargo", metric)
    assert behind is not None
    assert ahead.interval[0] <= ahead.gap <= ahead.interval[1]
    assert ahead.interval == pytest.approx((-behind.interval[1], -behind.interval[0]))
    value = tables.over_seeds(results.models["hargo"], metric)
    own = comparisons.evidence(results).curves("hargo", metric)
    assert value is not None and own is not None and own[0].mean() == pytest.approx(value.mean)


def test_mcnemar_counts_rows(results: Results) -> None:
    name, seed, ours, theirs, p, corrected = comparisons.mcnemar(results, "sft")[0]
    a, b = (results.models[m][0].predictions for m in (name, "sft"))
    right = [(x.first.correct, y.first.correct) for x, y in zip(a, b, strict=True)]
    assert (name, seed, ours, theirs) == ("grpo", 0, right.count((True, False)), right.count((False, True)))
    assert corrected >= p


def test_calibration_is_shown_where_it_was_recorded(out: Path, results: Results) -> None:
    text = (out / "report.md").read_text(encoding="utf-8")
    section = text.split("## Calibration")[1].split("\n## ")[0]
    assert "figures/reliability.svg" in section and "figures/precision_recall.svg" in section
    (row,) = re.findall(r"^\| HARGO \| ([0-9.]+) ± [0-9.]+ \|", section, re.MULTILINE)
    found = [calibration.calibration(model.predictions) for model in results.models["hargo"]]
    assert float(row) == pytest.approx(sum(c["ece"] for c in found if c) / 2, abs=0.05)
    bare = [replace(m, predictions=[replace(p, choice=None) for p in m.predictions]) for m in results.models["sft"]]
    none = replace(results, models={"sft": bare})
    assert not any(section.anchor == "calibration" for section in sections(none, set()))


def test_leakage_is_on_the_page(out: Path) -> None:
    section = (out / "report.md").read_text(encoding="utf-8").split("## Leakage and memorisation")[1].split("\n## ")[0]
    assert "| Data race, Fortran | 20 | 100.0 % | 100.0 % | 100.0 % | 9, right 95.0 % | 88.2 % |" in section
    (line,) = re.findall(r"^\| Race F1 % \|.*$", section, re.MULTILINE)
    assert line.count("(keeps up)") >= 1 and re.search(r"\[\d+\.\d\d, \d+\.\d\d\] \|$", line.replace("\\", ""))


def test_race_metrics_by_the_nearest_training_program(results: Results) -> None:
    """All rows stand in training; taking the shortest ones out of it leaves them with less similar neighbours."""
    assert set(similarity.bands(results).values()) == {"1: a twin"}
    race = {row.id for row in results.eval if row.task.startswith("race")}
    assert set(similarity.bands(results)) == race
    shortest = min(len(row.prompt.split()) for row in results.eval if row.id in race)
    fewer = replace(results, train=[row for row in results.train if len(row.prompt.split()) > shortest])
    place = similarity.bands(fewer)
    near, twin = (sum(value.startswith(band) for value in place.values()) for band in ("0.", "1"))
    assert near + twin + sum(value == "below 0.8" for value in place.values()) == 40 and twin < 40
    (table,) = leakage.similar(fewer)
    assert isinstance(table, Table)
    sft = next(row for row in table.rows if row[0] == "SFT")
    shown = [band for band, _, _ in similarity.BANDS if band in place.values()]
    accuracy = [float(cell) for cell in sft[1::2]]
    counts = [sum(value == band for value in place.values()) for band in shown]
    whole = sum(a * n for a, n in zip(accuracy, counts, strict=True)) / 40
    both = [m.metrics["race"]["accuracy"] for m in results.models["sft"]]
    assert whole == pytest.approx(sum(both) / 2, abs=0.1)


def test_tables_of_gaps_and_of_similarity(out: Path, results: Results) -> None:
    gaps = {(r["metric"], r["reference"], r["method"]): r for r in table(out / "evidence.csv")}
    found = comparisons.gap(results, "hargo", "grpo", "em")
    assert found is not None
    row = gaps["em", "grpo", "hargo"]
    assert float(row["gap"]) == pytest.approx(found.gap, abs=1e-5)
    assert float(row["p_holm"]) == pytest.approx(found.corrected, abs=1e-5)
    assert ("accuracy_plp", "sft", "b1") in gaps and ("win_rate", "grpo", "sft") not in gaps
    twins = {r["method"]: r for r in table(out / "similarity.csv")}
    assert twins["hargo"]["similarity"] == "1: a twin" and twins["hargo"]["n"] == "40"
    f1 = [m.metrics["race"]["f1"] for m in results.models["hargo"]]
    assert float(twins["hargo"]["f1"]) == pytest.approx(sum(f1) / 2, abs=1e-5)
    assert float(twins["hargo"]["ece"]) > 0 and twins["majority"]["ece"] == ""


def test_flips_by_hand() -> None:
    def row(before: float, after: float | None) -> Prediction:
        def choice(p: float) -> dict[str, float]:
            return {"yes": math.log(p), "no": math.log(1 - p)}

        return prediction(choice=choice(before), perturbed={"rename": choice(after)} if after else {})

    rows = [row(0.9, 0.4), row(0.9, 0.6), row(0.2, 0.3), row(0.2, 0.7), row(0.5, None), prediction()]
    assert leakage.flip_rate(rows, "rename") == (2, 4)
    assert leakage.flip_rate(rows, "resize") == (0, 0)


def test_flips_are_shown_for_what_was_asked(results: Results) -> None:
    (table,) = leakage.flips(results)
    assert isinstance(table, Table)
    assert table.header == ["Method", "other names, % of 40", "declarations reordered", "other sizes"]
    counts = [leakage.flip_rate(m.predictions, "rename")[0] for m in results.models["sft"]]
    assert table.rows[0] == ["SFT", f"{100 * sum(counts) / 80:.1f}", "–", "–"]


def test_power_says_what_a_difference_needs(results: Results) -> None:
    text = power(results, "win_rate", 4.0, "hargo", "grpo")
    found = comparisons.evidence(results).difference("hargo", "grpo", "win_rate")
    assert found is not None
    asked = need(4.0, found, 80, 2)
    assert f"{asked.rows} rows and 2 seeds" in text or "no number of rows" in text
    assert "Four in five studies" in text and "80 rows" in text
    small = power(results, "race_f1", 0.01, "hargo", "grpo")
    assert "no number of seeds" in small and "no number of rows and 2 seeds" in small
    same = replace(results, models=dict.fromkeys(("sft", "grpo", "hargo"), results.models["sft"]))
    with pytest.raises(UserError, match="no variation to go by"):
        power(same, "em", 1.0, "hargo", "grpo")
    for bad, message in ((("win_rates", 1.0, "hargo", "grpo"), "did you mean 'win_rate'"),
                         (("em", 1.0, "hargos", "grpo"), "did you mean 'hargo'"),
                         (("em", 0.0, "hargo", "grpo"), "--difference 0")):  # fmt: skip
        with pytest.raises(UserError, match=message):
            power(results, *bad)


def copy(tree: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tree, tmp_path / "tree"))


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("evaluate/grpo/seed1/predictions.jsonl", "hargo evaluate --config STUDY --seed 1 --model"),
        ("train/hargo/seed0/metrics.jsonl", "hargo train hargo --config STUDY --seed 0"),
        ("train/sft/seed1/metrics.jsonl", "hargo train sft --config STUDY --seed 1"),
        ("evaluate/baselines/metrics.json", "hargo baselines --config STUDY"),
        ("data/eval.jsonl", "hargo data build --config STUDY"),
    ],
)
def test_a_missing_part_names_what_to_run(study: Study, tree: Path, tmp_path: Path, path: str, command: str) -> None:
    root = copy(tree, tmp_path)
    (root / path).unlink()
    with pytest.raises(UserError, match=re.escape(command)) as error:
        build(study, root, tmp_path / "out")
    assert path in str(error.value) and "\n" not in str(error.value)


def test_predictions_of_other_rows_are_an_error(study: Study, tree: Path, tmp_path: Path) -> None:
    root = copy(tree, tmp_path)
    path = root / "evaluate/grpo/seed1/predictions.jsonl"
    write_jsonl(path, read_jsonl(path)[1:])
    with pytest.raises(UserError, match="do not match the 80 rows"):
        read(study, root)


def test_runs_with_other_versions_are_pointed_out(study: Study, tree: Path, tmp_path: Path) -> None:
    root = copy(tree, tmp_path)
    write_json(
        root / "train/sft/seed0/run.json", {"versions": {"torch": "1.0"}, "git": {"revision": "b" * 40, "dirty": True}}
    )
    text = markdown.render("x", sections(read(study, root), set()))
    assert "differ in their software" in text and "torch 1.0" in text and "not committed" in text


def test_the_papers_numbers_stand_beside_its_own_tasks_and_protocol_only(results: Results) -> None:
    def paper(**over: Any) -> Results:
        data = results.study.data.model_copy(update={"source": "hpcgpt", "protocol": "paper", "path": "x"})
        return replace(results, study=results.study.model_copy(update={"data": data} | over))

    row = {row["method"]: row for row in tables.summary(paper())}["hargo"]
    assert row["win_rate_paper"] == 54.62 and row["accuracy_mlperf_paper"] == 56.04
    text = markdown.render("x", sections(paper(), set()))
    assert "| paper |" in text and "one seed, without intervals" in text
    fewer = paper(tasks=["race_c", "race_fortran", "plp"])
    for other in (fewer, results):
        text = markdown.render("x", sections(other, set()))
        assert "| paper |" not in text and "54.62" not in text and "(the paper: 58)" not in text
        assert "not comparable and left out" in text


def test_rows_that_were_too_long_are_counted(study: Study, tree: Path, tmp_path: Path) -> None:
    root = copy(tree, tmp_path)
    for path in root.glob("evaluate/*/seed*/predictions.jsonl"):
        rows = read_jsonl(path)
        for row in (row for row in rows if row["id"] in ("race_c/00001", "race_c/00003")):
            row.pop("choice"), row.pop("perturbed")
            row |= {"output": "", "parsed": None, "correct": False, "reward": 0.0, "too_long": True, "tokens": None}
        write_jsonl(path, rows)
    build(study, root, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8").replace("\\_", "_")
    assert "2 of the race_c rows are longer than the model has room for" in text
    counted = {
        row["task"]: row["too_long"] for row in table(tmp_path / "out" / "per_task.csv") if row["method"] == "sft"
    }
    assert counted == {"race_c": "2", "race_fortran": "0", "mlperf": "0", "plp": "0"}


def test_study_without_methods_or_some_tasks(tmp_path: Path) -> None:
    small = report_tree.study(methods={}, seeds=[3], tasks=["mlperf"])
    root = report_tree.write(tmp_path, small, per_task=4)
    for path in [*root.glob("evaluate/*/seed*/predictions.jsonl"), *root.glob("evaluate/baselines/*.jsonl")]:
        write_jsonl(path, [row for row in read_jsonl(path) if row["task"] == "mlperf"])
    build(small, root, tmp_path / "out")
    assert "HARGO against GRPO" not in (tmp_path / "out/report.md").read_text(encoding="utf-8")


def test_headline_is_plain_in_a_log(study: Study, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_headline(study, out)
    text = capsys.readouterr().out
    assert "\x1b" not in text and "HARGO" in text and "…" not in text and str(out / "report.html") in text
    with pytest.raises(UserError, match="run `hargo report` first"):
        print_headline(study, out / "nowhere")
