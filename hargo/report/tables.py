"""The report's tables as lists of rows; written to CSV as they are, shown in part."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from hargo.config import TASKS
from hargo.evaluation.confusion import confusion
from hargo.evaluation.headline import correct, earned, metrics
from hargo.report.results import Model, Results, title


class _Headline(Mapping[str, tuple[str, int]]):
    """The headline figures of all registered tasks, read from the registry each time so that no list goes stale."""

    def __getitem__(self, key: str) -> tuple[str, int]:
        metric = metrics(TASKS)[key]
        if not metric.headline:
            raise KeyError(key)
        return metric.title, metric.decimals

    def __iter__(self) -> Iterator[str]:
        return iter([key for key, metric in metrics(TASKS).items() if metric.headline])

    def __len__(self) -> int:
        return len(list(iter(self)))


#: headline metric -> (title, decimals); shares in percent
METRICS = _Headline()

#: reward histogram bins: the tiers of mlperf, and ranges between them for continuous rewards
BINS: tuple[tuple[str, float, float], ...] = (
    ("0", -1.0, 0.0),
    ("0-0.1", 0.0, 0.1),
    ("0.1-0.2", 0.1, 0.2),
    ("0.2-0.5", 0.2, 0.5),
    ("0.5-0.8", 0.5, 0.8),
    ("0.8-1", 0.8, 1.0 - 1e-9),
    ("1", 1.0 - 1e-9, 1.0),
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Spread:
    """A figure over seeds. std is the sample deviation, None for one seed."""

    mean: float
    std: float | None
    low: float
    high: float
    n: int


def spread(values: Sequence[float]) -> Spread:
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, min(values), max(values), len(values))


def over_seeds(models: Sequence[Model], metric: str) -> Spread | None:
    """Spread of one metric, None where the models do not have it."""
    values = [model.figures[metric] for model in models if metric in model.figures]
    return spread(values) if len(values) == len(models) and values else None


def metrics_of(results: Results) -> dict[str, tuple[str, int]]:
    """Metrics that this study has: the headline's in the order of its tasks, then accuracy per task."""
    figures = {key: value for key, value in METRICS.items() if any(key in m.figures for m in _all(results))}
    accuracy = [metrics(TASKS)[f"accuracy_{task}"] for task in results.tasks]
    figures |= {one.name: (one.title, one.decimals) for one in accuracy}
    return figures


def _all(results: Results) -> list[Model]:
    return [model for models in results.models.values() for model in models]


def summary(results: Results) -> list[Row]:
    """One row per method and baseline: each metric's mean, std, min and max over seeds, and the paper's value."""
    rows = [_method_row(results, method, models, results.kind(method)) for method, models in results.models.items()]
    rows += [_method_row(results, name, [model], "baseline") for name, model in results.baselines.items()]
    return rows


def _method_row(results: Results, method: str, models: Sequence[Model], kind: str) -> Row:
    row: Row = {"method": method, "title": title(method), "kind": kind}
    row["seeds"] = 0 if kind == "baseline" else len(models)
    for metric in metrics_of(results):
        value = over_seeds(models, metric)
        row |= {
            f"{metric}_mean": value and value.mean,
            f"{metric}_std": value and value.std,
            f"{metric}_min": value and value.low,
            f"{metric}_max": value and value.high,
        }
        if results.comparable:
            row[f"{metric}_paper"] = results.paper(method, metric)
    return row


def ablation(results: Results) -> list[Row]:
    """First reference, rival, subject, ablations and controls, with the paper's values."""
    shown = [m for m in results.models if m in results.featured or m in results.ablations]
    starts = {run.start.run for run in results.study.runs().values()}
    return [_method_row(results, name, results.models[name], _role(results, name, starts)) for name in shown]


def _role(results: Results, method: str, starts: set[str | None]) -> str:
    if method in starts:
        return "start"
    if results.kind(method) == "control":
        return "control"
    weighting = getattr(results.study.method(method), "weighting", None)
    if weighting:
        return f"weighting {weighting}"
    return "subject" if method == results.subject else "reference" if method in results.references else "ablation"


def per_task(results: Results) -> list[Row]:
    """One row per task and model: means over seeds of accuracy, reward, lengths, scores, confusion, sweep."""
    rows = []
    for task in results.tasks:
        for method, models in results.everyone.items():
            values = [model.metrics["tasks"].get(task) for model in models]
            if any(value is None for value in values):
                continue
            accuracy = spread([value["accuracy"] for value in values])
            row: Row = {
                "task": task,
                "method": method,
                "n": values[0]["n"],
                "seeds": 0 if method in results.baselines else len(values),
                "accuracy_mean": accuracy.mean,
                "accuracy_std": accuracy.std,
                "accuracy_min": accuracy.low,
                "accuracy_max": accuracy.high,
            }
            if results.comparable:
                row["accuracy_paper"] = results.paper(method, f"accuracy_{task}")
            for key in ("reward", "unread", "too_long", "truncated", "tokens"):
                row[key] = _mean(value[key] for value in values)
            row["characters"] = _mean(value["length"]["mean"] for value in values)
            for kind in unseen(results, task):
                row[f"accuracy_unseen_{kind}"] = _mean(accuracy_where(model, results, task, kind) for model in models)
            for key in values[0]["scores"]:
                row[key] = _mean(value["scores"][key] for value in values)
            for key in values[0].get("confusion", {}):
                row[key] = _mean(value["confusion"][key] for value in values)
            for key in values[0].get("sweep", {}).get("accuracy", {}):
                row[f"accuracy_at_{key}"] = _mean(value["sweep"]["accuracy"][key] for value in values)
            rows.append(row)
    return rows


def unseen(results: Results, task: str) -> list[str]:
    """What the evaluation rows of a task hold that training has not seen, as the source says: families, names, ..."""
    return sorted({str(row.meta["held_out"]) for row in results.eval if row.task == task and "held_out" in row.meta})


def accuracy_where(model: Model, results: Results, task: str, kind: str) -> float | None:
    """Accuracy in percent on the rows of a task whose `held_out` is `kind`; None where the model answers none."""
    rows = {row.id for row in results.eval if row.task == task and row.meta.get("held_out") == kind}
    right = [correct(p) for p in model.predictions if p.id in rows]
    return 100 * fmean(right) if right else None


def counts(models: Sequence[Model], names: Sequence[str]) -> Row | None:
    """Confusion counts and rates of these tasks' rows together, means over the models; None where one answers none."""
    parts = [[p for p in model.predictions if p.task in names] for model in models]
    if not all(parts):
        return None
    confusions = [confusion(part) for part in parts]
    return {key: fmean(one[key] for one in confusions) for key in confusions[0]}


def heterogeneity(results: Results) -> list[Row]:
    """How the tasks differ: in the data (answers of the training rows), and in what the first reference does with them.

    Its columns begin with its name; in a study without a reference they are the subject's.
    """
    rows = []
    run = results.featured[0]
    for task in results.tasks:
        answers = sorted(len(row.answer) for row in results.train if row.task == task)
        answered = [p for model in results.models[run] for p in model.predictions if p.task == task]
        rewards = [earned(p) for p in answered]
        row: Row = {
            "task": task,
            "train_rows": len(answers),
            "eval_rows": sum(1 for item in results.eval if item.task == task),
            "answer_chars_mean": fmean(answers) if answers else None,
            "answer_chars_median": answers[len(answers) // 2] if answers else None,
            "answer_chars_max": answers[-1] if answers else None,
            f"{run}_answer_chars_mean": fmean(len(p.first.output) for p in answered),
            f"{run}_over_40_chars": 100 * fmean(len(p.first.output) > 40 for p in answered),
            f"{run}_accuracy": 100 * fmean(correct(p) for p in answered),
            f"{run}_reward_mean": fmean(rewards),
        }
        if results.comparable:
            row[f"{run}_accuracy_paper"] = results.paper(run, f"accuracy_{task}")
        row |= {f"{run}_reward_{name}": share for name, share in histogram(rewards).items()}
        rows.append(row)
    return rows


def histogram(rewards: Sequence[float]) -> dict[str, float]:
    """Share of rewards, in percent, in each of `BINS` (low, high]."""
    return {
        name: 100 * sum(low < value <= high for value in rewards) / len(rewards) if rewards else 0.0
        for name, low, high in BINS
    }


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def to_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV; columns in order of first appearance, numbers rounded to 6 decimals, unknown values empty."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in columns])
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def shown(value: Spread | None, decimals: int) -> str:
    """A figure for people: `54.62 ± 0.31`, without deviation for one seed, a dash for none."""
    if value is None:
        return "–"
    deviation = f" ± {value.std:.{decimals}f}" if value.std is not None else ""
    return f"{value.mean:.{decimals}f}{deviation}"
