"""The report's section on what training has seen of the evaluation rows, and what a model gains by memorising."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from hargo import tasks
from hargo.data.perturb import KINDS
from hargo.evaluation.choice import p_yes
from hargo.evaluation.confusion import confusion
from hargo.evaluation.predictions import Prediction
from hargo.report.blocks import Block, Table, Text, Verbatim
from hargo.report.comparisons import evidence
from hargo.report.results import Results, title
from hargo.report.similarity import BANDS, bands, within
from hargo.report.tables import metrics_of, over_seeds

_WORDS = {"rename": "other names", "reorder": "declarations reordered", "resize": "other sizes"}


def blocks(results: Results) -> list[Block]:
    return [*_split(results), *_baselines(results), *similar(results), *flips(results), *_audit(results)]


def _split(results: Results) -> list[Block]:
    figures = (results.audit or {}).get("tasks", {})
    rows = []
    for task in results.tasks:
        leak, conflicts = figures.get(task, {}).get("leakage"), figures.get(task, {}).get("conflicts", {})
        if leak:
            named_label = leak.get("told", {"rows": 0, "right": None})
            name = f"{named_label['rows']}, right {_percent(named_label['right'])}" if named_label["rows"] else "none"
            cells = [_percent(leak[key]) for key in ("exact", "masked", "near")]
            rows.append([tasks.load(task).title, str(leak["rows"]), *cells, name, _percent(conflicts.get("ceiling"))])
    if not rows:
        return []
    return [
        Text(
            "This is what training has seen of the evaluation rows on this study's split. A model that only memorises "
            "does well on rows that are in training already, and reading a label off a program's name takes no model "
            "at all."
        ),
        Table(
            ["Task", "Eval rows", "Same prompt", "Same, masked", "90 % similar", "Label in the name", "EM ceiling"],
            rows,
            "The share of evaluation rows whose prompt is in training word for word, is in training after masking "
            "names, numbers and strings, or is at least 90 % similar to a training row; evaluation programs whose name "
            "says yes or no, and how often that is the label; and the best exact match of one answer per prompt, on "
            "all rows of the source.",
        ),
    ]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %"


def _baselines(results: Results) -> list[Block]:
    """Baselines beside the best method, with its interval."""
    if not results.baselines:
        return []
    rows = []
    for metric, (name, decimals) in metrics_of(results).items():
        if metric == "win_rate":
            continue
        known = {m: s.mean for m, models in results.models.items() if (s := over_seeds(models, metric))}
        if not known:
            continue
        best = max(known, key=lambda method: known[method])
        bounds = evidence(results).own(best, metric)
        interval = f" [{bounds[0]:.{decimals}f}, {bounds[1]:.{decimals}f}]" if bounds else ""
        cells = []
        for model in results.baselines.values():
            value = model.figures.get(metric)
            keeps_up = value is not None and bounds is not None and value >= bounds[0]
            cells.append("–" if value is None else f"{value:.{decimals}f}" + (" (keeps up)" if keeps_up else ""))
        rows.append([name, *cells, f"{title(best)}: {known[best]:.{decimals}f}{interval}"])
    return [
        Table(
            ["Metric", *results.baselines, "Best language model"],
            rows,
            "Baselines without a language model beside the method with the highest mean and, in brackets, its 95 % "
            "interval over rows. A baseline keeps up if it is in or above that interval.",
        )
    ]


def similar(results: Results) -> list[Block]:
    """Race metrics by how similar the nearest training program is."""
    place = bands(results)
    shown = [name for name, _, _ in BANDS if name in place.values()]
    if not shown:
        return []
    rows = []
    for name, models in results.everyone.items():
        cells: list[str] = []
        for band in shown:
            counts = [confusion(mine) for model in models if (mine := within(model.predictions, place, band))]
            if len(counts) < len(models):
                cells += ["–", "–"]
                continue
            cells += [f"{fmean(c[key] for c in counts):.1f}" for key in ("accuracy", "f1")]
        rows.append([title(name), *cells])
    sizes = {band: sum(value == band for value in place.values()) for band in shown}
    header = [f"{band} ({sizes[band]} rows), {what} %" for band in shown for what in ("accuracy", "F1")]
    return [
        Table(
            ["Method", *header],
            rows,
            "Data-race rows by the similarity of the nearest training program, after masking names, numbers and "
            "strings; means over seeds. A method whose lead is on twins memorises.",
        )
    ]


def flip_rate(predictions: Sequence[Prediction], kind: str) -> tuple[int, int]:
    """(rows whose answer flips, rows changed): P(yes) crosses one half when the program is changed in this way."""
    pairs = [
        (p_yes(p.choice) >= 0.5, p_yes(p.perturbed[kind]) >= 0.5)
        for p in predictions
        if p.choice and kind in p.perturbed
    ]
    return sum(a != b for a, b in pairs), len(pairs)


def flips(results: Results) -> list[Block]:
    """Share of answers that change with a change to the program that should not matter."""
    rows = []
    changed: dict[str, int] = {}
    for name, models in results.models.items():
        cells = []
        for kind in KINDS:
            counts = [flip_rate(model.predictions, kind) for model in models]
            if all(n for _, n in counts):
                changed[kind] = counts[0][1]
                cells.append(f"{fmean(100 * flipped / n for flipped, n in counts):.1f}")
            else:
                cells.append("–")
        rows.append([title(name), *cells])
    if not changed:
        return []
    head: list[Any] = [f"{_WORDS[kind]}, % of {changed[kind]}" if kind in changed else _WORDS[kind] for kind in KINDS]
    return [
        Table(
            ["Method", *head],
            rows,
            "Answers that flip (P(yes) crosses one half) when the program's names, the order of its declarations or "
            "its sizes change but its meaning does not, in percent of the rows that could be changed; mean over seeds.",
        )
    ]


def _audit(results: Results) -> list[Block]:
    if results.audit is None:
        return []
    return [Verbatim("The audit in full", results.audit_text or str(results.audit))]
