"""Numbers drawn from predictions. A prediction is one dict per evaluation row:

id, task, output, reference, reward (float), parsed (str or None), correct (bool), scores (name -> float),
tokens (int, generated; None where no language model answered), truncated (bool, hit the bound on new tokens). Of a
language model on a yes/no task also choice (log-probabilities of `yes` and `no` at the first token) and perturbed
(kind of change to the program -> choice); too_long (true) where the row did not fit the model's context, which leaves
it without an answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean
from typing import Any

from hargo.config.registry import TASKS
from hargo.data.programs import LABELS
from hargo.errors import UserError
from hargo.tasks import load
from hargo.tasks.race import label

Prediction = dict[str, Any]
LONG_ANSWER = 40  # characters; the paper gives the share of mlperf answers beyond it


def summarise(predictions: list[Prediction]) -> dict[str, Any]:
    """All metrics of one model.

    Keys: `n`, `accuracy` (all rows, percent), `tasks` (name -> figures), per pool of several tasks its name
    (`race`: confusion counts of the tasks together, in percent where a share), per measure of a task its name (`em`),
    and per task without classes `<task>_over_40` (percent of answers over 40 characters).
    """
    by_task: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        by_task.setdefault(prediction["task"], []).append(prediction)
    result: dict[str, Any] = {
        "n": len(predictions),
        "accuracy": _percent(p["correct"] for p in predictions),
        "tasks": {name: _task(name, by_task[name]) for name in _ordered(by_task)},
    }
    pools: dict[str, list[Prediction]] = {}
    for name, rows in by_task.items():
        task = load(name)
        if task.pool is not None:
            pools.setdefault(task.pool.name, []).extend(rows)
        for measure in task.measures:
            values = [reward_of(p) if measure.score is None else score_of(p, measure.score) for p in rows]
            result[measure.name] = (100 if measure.percent else 1) * fmean(values)
        if task.positive is None:
            result[f"{name}_over_{LONG_ANSWER}"] = _percent(len(p["output"]) > LONG_ANSWER for p in rows)
    return result | {name: confusion(rows) for name, rows in pools.items()}


def _ordered(names: Iterable[str]) -> list[str]:
    order = list(TASKS)
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))


def _task(name: str, rows: list[Prediction]) -> dict[str, Any]:
    task = load(name)
    lengths = sorted(len(p["output"]) for p in rows)
    counted = [p["tokens"] for p in rows if p["tokens"] is not None]
    figures: dict[str, Any] = {
        "n": len(rows),
        "accuracy": _percent(p["correct"] for p in rows),
        "reward": fmean(reward_of(p) for p in rows),
        "too_long": sum(bool(p.get("too_long")) for p in rows),
        "truncated": _percent(p["truncated"] for p in rows),
        "unread": _percent(p["parsed"] is None for p in rows),
        "tokens": fmean(counted) if counted else None,
        "scores": {
            key: fmean(score_of(p, key) for p in rows) for key in sorted({key for p in rows for key in p["scores"]})
        },
        "length": {  # characters
            "mean": fmean(lengths),
            "median": lengths[len(lengths) // 2],
            "max": lengths[-1],
            "reference_mean": fmean(len(p["reference"]) for p in rows),
        },
    }
    if task.positive is not None:
        figures["confusion"] = confusion(rows)
    if task.threshold_sweep:
        key, thresholds = task.threshold_sweep
        figures["sweep"] = {
            "score": key,
            "accuracy": {f"{t:g}": _percent(score_of(p, key) >= t for p in rows) for t in thresholds},
        }
    return figures


def confusion(predictions: list[Prediction]) -> dict[str, Any]:
    """Confusion counts of the predictions of tasks with classes and what follows from them, shares in percent.

    An answer that is of no class (`parsed` None), or a row whose reference has none, is `undecided`: it is
    counted as wrong, lowers recall where the truth is positive, and is never taken for a "no".
    `undecided_positive` says how many of them are in truth positive; `decided` is the share of the others.
    """
    counts = {"tp": 0, "fp": 0, "tn": 0, "fn": 0, "undecided": 0, "undecided_positive": 0}
    for p in predictions:
        positive, truth = load(p["task"]).positive, truth_of(p["task"], p["reference"])
        if p["parsed"] is None or truth is None:
            counts["undecided"] += 1
            counts["undecided_positive"] += truth == positive
        else:
            hit = p["parsed"] == truth
            counts[("t" if hit else "f") + ("p" if p["parsed"] == positive else "n")] += 1
    return {**counts, **rates(**counts)}


def rates(tp: int, fp: int, tn: int, fn: int, undecided: int = 0, undecided_positive: int = 0) -> dict[str, float]:
    """Precision, recall, F1, accuracy and the decided share, in percent; 0 where a denominator is 0.

    >>> {key: round(value, 2) for key, value in rates(tp=142, fp=19, tn=167, fn=14).items()}
    {'precision': 88.2, 'recall': 91.03, 'f1': 89.59, 'accuracy': 90.35, 'decided': 100.0}
    """
    n = tp + fp + tn + fn + undecided
    missed = fn + undecided_positive
    return {
        "precision": _share(tp, tp + fp),
        "recall": _share(tp, tp + missed),
        "f1": _share(2 * tp, 2 * tp + fp + missed),
        "accuracy": _share(tp + tn, n),
        "decided": _share(n - undecided, n),
    }


def win_rate(
    predictions: list[Prediction], reference_predictions: list[Prediction], tie: float = 1e-6
) -> dict[str, float | int]:
    """WinRate in percent, (wins + ties / 2) / n, by per-sample reward, with the counts.

    Rows are matched by id, in whatever order; rewards within `tie` of each other are a tie. UserError if the two
    do not answer the same rows.
    """
    outcomes = compare(predictions, reference_predictions, tie)
    wins, losses = (sum(o == kind for o in outcomes.values()) for kind in ("won", "lost"))
    ties = len(outcomes) - wins - losses
    return {
        "wins": wins,
        "ties": ties,
        "losses": losses,
        "rate": _share(wins + 0.5 * ties, len(outcomes)),
    }


def compare(
    predictions: list[Prediction], reference_predictions: list[Prediction], tie: float = 1e-6
) -> dict[str, str]:
    """Row id -> `won`, `tied` or `lost` of `predictions` against `reference_predictions`, by reward."""
    ours, theirs = _rewards(predictions), _rewards(reference_predictions)
    odd = sorted(ours.keys() ^ theirs.keys())
    if odd:
        raise UserError(
            f"WinRate: {len(odd)} rows are answered by only one of two models, the first {odd[0]!r}; "
            "evaluate both on the same eval.jsonl"
        )
    outcomes = {}
    for key, value in ours.items():
        gap = value - theirs[key]
        outcomes[key] = "tied" if abs(gap) <= tie else "won" if gap > 0 else "lost"
    return outcomes


def _rewards(predictions: list[Prediction]) -> dict[str, float]:
    rewards = {p["id"]: reward_of(p) for p in predictions}
    if len(rewards) != len(predictions):
        raise UserError("WinRate: two predictions have the same id; evaluate again on an eval.jsonl with unique ids")
    return rewards


def reward_of(prediction: Prediction) -> float:
    """The reward as a number: an answer that could not be rewarded (None, not finite) earns nothing."""
    return _finite(prediction["reward"])


def score_of(prediction: Prediction, key: str) -> float:
    """A score of the judgement as a number; one that is absent or not finite counts as 0."""
    return _finite(prediction["scores"].get(key))


def _finite(value: float | None) -> float:
    return float(value) if value is not None and math.isfinite(value) else 0.0


def truth_of(task: str, reference: str) -> str | None:
    """The class of a reference; None where it has none."""
    found = load(task)
    if found.label is not None:
        return found.label(reference)
    return label(reference) if found.positive in LABELS else reference.strip() or None


def _percent(flags: Iterable[Any]) -> float:
    values = [float(flag) for flag in flags]
    return 100 * fmean(values) if values else 0.0


def _share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
