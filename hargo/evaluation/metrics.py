"""Metrics of one model for metrics.json, and its rewards against another's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from hargo.config.registry import TASKS
from hargo.errors import UserError
from hargo.evaluation.confusion import confusion
from hargo.evaluation.headline import ACCURACY, REWARD, earned, of_measure, score
from hargo.evaluation.predictions import Prediction
from hargo.tasks import load

LONG_ANSWER = 40  # characters; the paper gives the share of mlperf answers beyond it


def summarise(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """All metrics of one model.

    Keys: `n`, `accuracy` (all rows, percent), `tasks` (name -> figures), per pool of several tasks its name
    (`race`: confusion counts of the tasks together, in percent where a share), per measure of a task its name (`em`),
    and per task without classes `<task>_over_40` (percent of answers over 40 characters).
    """
    by_task: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        by_task.setdefault(prediction.task, []).append(prediction)
    result: dict[str, Any] = {
        "n": len(predictions),
        "accuracy": ACCURACY.value(predictions) or 0.0,
        "tasks": {name: _task(name, by_task[name]) for name in _ordered(by_task)},
    }
    pools: dict[str, list[Prediction]] = {}
    for name, rows in by_task.items():
        task = load(name)
        if task.pool is not None:
            pools.setdefault(task.pool.name, []).extend(rows)
        for measure in task.measures:
            value = of_measure(measure, name).value(rows)
            if value is not None:
                result[measure.name] = value
        if task.positive is None:
            outputs = [answer.output for p in rows for answer in p.answers]
            result[f"{name}_over_{LONG_ANSWER}"] = _percent(len(output) > LONG_ANSWER for output in outputs)
    return result | {name: confusion(rows) for name, rows in pools.items()}


def _ordered(names: Iterable[str]) -> list[str]:
    order = list(TASKS)
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))


def _task(name: str, rows: list[Prediction]) -> dict[str, Any]:
    task = load(name)
    answers = [answer for p in rows for answer in p.answers]
    lengths = sorted(len(answer.output) for answer in answers)
    counted = [answer.tokens for answer in answers if answer.tokens is not None]
    figures: dict[str, Any] = {
        "n": len(rows),
        "accuracy": ACCURACY.value(rows),
        "reward": REWARD.value(rows),
        "too_long": sum(p.too_long for p in rows),
        "truncated": _percent(answer.truncated for answer in answers),
        "unread": _percent(answer.parsed is None for answer in answers),
        "tokens": fmean(counted) if counted else None,
        "scores": {key: fmean(map(score(key), rows)) for key in sorted({key for a in answers for key in a.scores})},
        "length": {  # characters
            "mean": fmean(lengths),
            "median": lengths[len(lengths) // 2],
            "max": lengths[-1],
            "reference_mean": fmean(len(p.reference) for p in rows),
        },
    }
    if task.positive is not None:
        figures["confusion"] = confusion(rows)
    if task.threshold_sweep:
        key, thresholds = task.threshold_sweep
        figures["sweep"] = {
            "score": key,
            "accuracy": {f"{t:g}": _percent(answer.score(key) >= t for answer in answers) for t in thresholds},
        }
    return figures


def compare(
    predictions: Sequence[Prediction], reference_predictions: Sequence[Prediction], tie: float = 1e-6
) -> dict[str, str]:
    """Row id -> `won`, `tied` or `lost` of `predictions` against `reference_predictions`, by mean reward.

    Rows are matched by id, in whatever order; rewards within `tie` of each other are a tie. UserError if the two
    do not answer the same rows.
    """
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


def _rewards(predictions: Sequence[Prediction]) -> dict[str, float]:
    rewards = {p.id: earned(p) for p in predictions}
    if len(rewards) != len(predictions):
        raise UserError("WinRate: two predictions have the same id; evaluate again on an eval.jsonl with unique ids")
    return rewards


def _percent(flags: Iterable[bool]) -> float:
    values = [float(flag) for flag in flags]
    return 100 * fmean(values) if values else 0.0
