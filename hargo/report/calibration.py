"""The report's section on P(yes): how calibrated it is, and what other thresholds would give."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from hargo import tasks
from hargo.evaluation.calibration import THRESHOLDS, calibration, scored, sweep
from hargo.report.blocks import Block, Figure, Table, Text
from hargo.report.results import Results, title
from hargo.report.tables import shown, spread


def blocks(results: Results) -> list[Block]:
    """Nothing where evaluation has recorded no P(yes)."""
    found = {name: [calibration(model.predictions) for model in models] for name, models in results.models.items()}
    known = {name: [c for c in values if c] for name, values in found.items() if all(values)}
    if not known:
        return []
    names = [task for task in results.tasks if tasks.load(task).positive]
    rows = []
    for name, values in known.items():
        precisions = [_spread([c["tasks"].get(task) for c in values]) for task in names]
        pooled = _spread([c["average_precision"] for c in values])
        rows.append(
            [
                title(name),
                _spread([c["ece"] for c in values]),
                pooled,
                *precisions,
                _spread([c["mass"] for c in values]),
            ]
        )
    sweeps = []
    for name in known:
        runs = [sweep(*scored(model.predictions)) for model in results.models[name]]
        means = [fmean(run[i]["f1"] for run in runs) for i in range(len(THRESHOLDS))]
        best = max(range(len(means)), key=lambda i: means[i])
        cells = [f"{value:.1f}" + (" (best)" if i == best else "") for i, value in enumerate(means)]
        sweeps.append([title(name), *cells])
    return [
        Text(
            "P(yes) is the probability that the answer begins as `yes` does, over that of `yes` and `no` together, "
            "from one forward pass. ECE is the mean gap between P(yes) and the share of races, over ten bins; average "
            "precision does not depend on a threshold, and guessing gets the share of races."
        ),
        Figure(
            "reliability",
            "On the dashed line P(yes) is what it says. Below: where the rows lie. Data-race tasks and seeds pooled.",
            "Reliability curve of P(yes) for SFT, GRPO and HARGO.",
        ),
        Table(
            ["Method", "ECE %", "AP %", *(f"AP, {tasks.load(task).title} %" for task in names), "P(yes) + P(no) %"],
            rows,
            "Calibration on the data-race rows, mean ± deviation over seeds. The last column is the probability that "
            "the answer begins as either label does.",
            strong=("HARGO",),
        ),
        Figure(
            "precision_recall",
            "One line per seed; the dashed line is the share of races, which guessing gets.",
            "Precision-recall curves per data-race task for SFT, GRPO and HARGO.",
        ),
        Table(
            ["Method", *(f"≥ {t:g}" for t in THRESHOLDS)],
            sweeps,
            "Race F1 in percent, both tasks pooled, by the P(yes) from which an answer counts as yes. The best of a "
            "row was chosen on these very rows: an upper bound, not a result.",
            strong=("HARGO",),
        ),
    ]


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return shown(spread(known), 1) if known else "–"
