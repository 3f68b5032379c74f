"""Numbers drawn from predictions. A prediction is one dict per evaluation row:

id, task, output, reference, reward (float), parsed (str or None), correct (bool), scores (name -> float),
tokens (int, generated; None where no language model answered), truncated (bool, hit the bound on new tokens). Of a
language model on a yes/no task also choice (log-probabilities of `yes` and `no` at the first token) and perturbed
(kind of change to the program -> choice).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean
from typing import Any

from hargo.config.registry import TASKS
from hargo.errors import UserError
from hargo.tasks import load
from hargo.tasks.race import label

Prediction = dict[str, Any]
LONG_ANSWER = 40  # characters; the paper gives the share of mlperf answers beyond it


def summarise(predictions: list[Prediction]) -> dict[str, Any]:
    """All metrics of one model.

    Keys: `n`, `accuracy` (all rows), `tasks` (name -> figures), `race` (confusion pooled over the tasks with a
    positive class, in percent where a share), and, where mlperf or plp is there, `em` (percent), `avg_score`,
    `mlperf_over_40` (percent) and `plp_similarity`.
    """
    by_task: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        by_task.setdefault(prediction["task"], []).append(prediction)
    result: dict[str, Any] = {
        "n": len(predictions),
        "accuracy": _percent(p["correct"] for p in predictions),
        "tasks": {name: _task(name, by_task[name]) for name in _ordered(by_task)},
    }
    pooled = [p for p in predictions if load(p["task"]).positive]
    if pooled:
        result["race"] = confusion(pooled)
    if "mlperf" in by_task:
        rows = by_task["mlperf"]
        result["em"] = _percent(p["scores"]["em"] for p in rows)
        result["em_whole"] = _percent(p["scores"]["em_whole"] for p in rows)
        result["avg_score"] = fmean(_reward(p) for p in rows)
        result["mlperf_over_40"] = _percent(len(p["output"]) > LONG_ANSWER for p in rows)
    if "plp" in by_task:
        result["plp_similarity"] = fmean(p["scores"]["similarity"] for p in by_task["plp"])
    return result


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
        "reward": fmean(_reward(p) for p in rows),
        "truncated": _percent(p["truncated"] for p in rows),
        "unread": _percent(p["parsed"] is None for p in rows),
        "tokens": fmean(counted) if counted else None,
        "scores": {key: fmean(p["scores"][key] for p in rows) for key in sorted(rows[0]["scores"])},
        "length": {  # characters
            "mean": fmean(lengths),
            "median": lengths[len(lengths) // 2],
            "max": lengths[-1],
            "reference_mean": fmean(len(p["reference"]) for p in rows),
        },
    }
    if task.positive:
        figures["confusion"] = confusion(rows)
    if task.threshold_sweep:
        key, thresholds = task.threshold_sweep
        figures["sweep"] = {
            "score": key,
            "accuracy": {f"{t:g}": _percent(p["scores"][key] >= t for p in rows) for t in thresholds},
        }
    return figures


def confusion(predictions: list[Prediction]) -> dict[str, Any]:
    """Confusion counts of yes/no predictions and what follows from them, shares in percent.

    An answer that is neither label (`parsed` None), or a row whose reference has none, is `undecided`: it is
    counted as wrong, lowers recall where the truth is positive, and is never taken for a "no".
    `undecided_positive` says how many of them are in truth positive; `decided` is the share of the others.
    """
    counts = {"tp": 0, "fp": 0, "tn": 0, "fn": 0, "undecided": 0, "undecided_positive": 0}
    for p in predictions:
        positive, truth = load(p["task"]).positive, label(p["reference"])
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
    rewards = {p["id"]: _reward(p) for p in predictions}
    if len(rewards) != len(predictions):
        raise UserError("WinRate: two predictions have the same id; evaluate again on an eval.jsonl with unique ids")
    return rewards


def _reward(prediction: Prediction) -> float:
    """The reward as a number: an answer that could not be rewarded (None, NaN) earns nothing."""
    reward = prediction["reward"]
    return 0.0 if reward is None or math.isnan(reward) else float(reward)


def _percent(flags: Iterable[Any]) -> float:
    values = [float(flag) for flag in flags]
    return 100 * fmean(values) if values else 0.0


def _share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
