"""A small results/<study>/ in the layout of a finished study, with model text that tries to break a page."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from hargo import tasks
from hargo.config import Study, study_from
from hargo.data.records import Row, save_rows
from hargo.evaluation import predictions as files
from hargo.evaluation.metrics import summarise
from hargo.evaluation.predictions import Prediction
from hargo.io import write_json, write_jsonl, write_text
from hargo.layout import StudyFolder

EVIL = ['</script><script>document.title="owned"</script>', "<img src=x onerror=alert(1)>", "]]>|`\u2028&amp;"]

#: share of answers that are right: method -> task
SKILL = {
    "sft": {"race_c": 0.72, "race_fortran": 0.78, "mlperf": 0.45, "plp": 0.7},
    "grpo": {"race_c": 0.78, "race_fortran": 0.82, "mlperf": 0.55, "plp": 0.75},
    "hargo": {"race_c": 0.79, "race_fortran": 0.85, "mlperf": 0.55, "plp": 0.8},
    "b1": {"race_c": 0.78, "race_fortran": 0.84, "mlperf": 0.57, "plp": 0.78},
    "b2": {"race_c": 0.78, "race_fortran": 0.83, "mlperf": 0.53, "plp": 0.76},
}
OTHER = SKILL["grpo"]
SENTENCES = [
    "The Devign dataset is used for defect detection.",
    "CodeT5 supports code summarization and code generation in one framework.",
    "The test set holds 2.7k samples of C code.",
]


def study(**over: Any) -> Study:
    value: dict[str, Any] = {
        "name": "synthetic",
        "seeds": [0, 1],
        "data": {"source": "embedded", "protocol": "given"},
        "pretrain": {"steps": 3},
        "methods": {"grpo": None, "hargo": None, "b1": None, "b2": None},
    }
    return study_from(value | over, "test")


def rows(per_task: int) -> list[Row]:
    """Rows that look alike, each of a family of its own, so that all count as independent."""
    rng = random.Random(5)
    result = []
    for task in ("race_c", "race_fortran", "mlperf", "plp"):
        for number in range(per_task):
            prompt = f"Question {number} on {task}: " + " ".join(["#pragma omp parallel for"] * (1 + number % 5))
            answer = {
                "mlperf": rng.choice(
                    ["8", "NVIDIA A100-PCIe-80GB", "Dell, 16", "The Submitter is Dell and the ID is 4."]
                ),
                "plp": rng.choice(SENTENCES),
            }.get(task, rng.choice(["yes", "no"]))
            if number == 2:
                prompt += " " + EVIL[0]
            result.append(
                Row(f"{task}/{number:05d}", task, prompt, answer, {"split": "eval", "family": f"{task} {number}"})
            )
    return result


def answer(row: Row, skill: float, rng: random.Random) -> str:
    if rng.random() < skill:
        return row.answer
    if row.task.startswith("race"):
        return rng.choice(["yes", "no", "no", EVIL[0]])
    return rng.choice([*EVIL, "Dell", "16 nodes", "CodeT5 is used.", ""])


def assess(row: Row, output: str, rng: random.Random) -> tuple[float | None, tasks.Verdict]:
    """Reward and verdict; similarities of plp are drawn, which spares loading the embedding model."""
    if row.task == "plp":
        similarity = 1.0 if output == row.answer else rng.uniform(0, 0.6)
        return min(1.0, similarity + 0.05), tasks.Verdict(output or None, similarity >= 0.5, {"similarity": similarity})
    task = tasks.load(row.task)
    return task.reward([output], [row.answer])[0], task.judge([output], [row.answer])[0]


def predict(items: list[Row], skill: dict[str, float], rng: random.Random, tokens: int | None = 3) -> list[Prediction]:
    found: list[dict[str, Any]] = []
    for row in items:
        output = answer(row, skill[row.task], rng)
        reward, verdict = assess(row, output, rng)
        found.append(
            {
                "id": row.id,
                "task": row.task,
                "output": output,
                "reference": row.answer,
                "reward": reward,
                "parsed": verdict.parsed,
                "correct": verdict.correct,
                "scores": verdict.scores,
                "tokens": tokens,
                "truncated": rng.random() < 0.02,
            }
        )
        if row.task.startswith("race") and tokens is not None:
            sure = min(0.97, max(0.03, rng.gauss(0.8 if output == "yes" else 0.2, 0.15)))
            found[-1]["choice"] = {"yes": round(math.log(sure), 4), "no": round(math.log(1 - sure), 4)}
            other = min(0.97, max(0.03, sure + rng.gauss(0, 0.2)))
            found[-1]["perturbed"] = {"rename": {"yes": math.log(other), "no": math.log(1 - other)}}
    return [Prediction.of(record) for record in found]


def steps(method: str, rng: random.Random, count: int = 40) -> list[dict[str, Any]]:
    log = []
    for step in range(1, count + 1):
        record: dict[str, Any] = {"step": step, "loss": 1 / step, "learning_rate": 1e-4, "grad_norm": 1.0, "tokens": 99}
        record |= {"seconds": 0.5, "reward/mean": 0.5 + 0.3 * step / count}
        for index, task in enumerate(("race_c", "race_fortran", "mlperf", "plp")):
            if rng.random() < 0.8:  # not every batch holds every task
                gain = (0.30 if method == "hargo" else 0.24) * step / count
                record[f"reward/{task}/mean"] = 0.35 + 0.1 * index + gain + rng.gauss(0, 0.08)
        spread = 1.1 if method == "hargo" else 1.0
        record["dist/advantage"] = [spread * v + rng.gauss(0, 0.05) for v in (-1.5, -0.9, -0.5, 0, 0.5, 1.0, 1.5)]
        middle = 0.25 if method == "grpo" else 0.2
        record["dist/weight"] = [0.25] * 7 if method == "grpo" else [0.02, 0.1, 0.15, middle, 0.3, 0.4, 0.5]
        if method != "grpo":
            record["dist/confidence"] = [v + rng.gauss(0, 0.01) for v in (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7)]
        log.append(record)
    return log


def write(folder: Path, study: Study, per_task: int = 30) -> Path:
    """Write the tree and return its folder, `folder`/<study name>."""
    root = folder / study.name
    items = rows(per_task)
    save_rows(root / "data" / "eval.jsonl", items)
    save_rows(root / "data" / "train.jsonl", items)
    write_json(root / "data" / "manifest.json", {"source": "embedded"})
    run = {
        "versions": {"torch": "2.13.0", "hargo": "0.1.0"},
        "git": {"revision": "a" * 40, "dirty": False},
        "python": "3.11.7",
        "cpu": "Some CPU",
        "device": "cpu",
        "wall_seconds": 12.5,
        "started": "2026-01-01T00:00:00.000+00:00",
    }
    at = StudyFolder(root)
    for method in study.reported:
        for seed in study.seeds:
            rng = random.Random(f"{method}{seed}")
            trained = at.run(method, seed)
            write_jsonl(
                trained / "metrics.jsonl", [{"step": 1, "loss": 1.0}] if method == "sft" else steps(method, rng)
            )
            write_json(trained / "run.json", run)
            where = at.evaluation(method, seed)
            predictions = predict(items, SKILL.get(method, OTHER), rng)
            files.write(where / "predictions.jsonl", predictions)
            write_json(where / "metrics.json", summarise(predictions))
            write_json(where / "run.json", run)
    where = at.baselines
    share = {"majority": 0.5, "1-nn": 0.74, "tf-idf-lr": 0.88}
    for name, skill in share.items():
        predictions = predict(items, dict.fromkeys(SKILL["sft"], skill), random.Random(name), tokens=None)
        if name == "tf-idf-lr":
            predictions = [p for p in predictions if p.task.startswith("race")]
        files.write(where / f"predictions-{name}.jsonl", predictions)
    write_json(where / "metrics.json", {})
    leak = {"rows": per_task, "exact": 100.0, "masked": 100.0, "near": 100.0, "told": {"rows": 9, "right": 95.0}}
    audited = {"race_fortran": {"leakage": leak, "conflicts": {"ceiling": 88.25}}}
    write_json(root / "audit" / "audit.json", {"rows": len(items), "tasks": audited})
    write_text(root / "audit" / "audit.md", "12 evaluation rows have a twin in train </pre><script>alert(2)</script>\n")
    return root
