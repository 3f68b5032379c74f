"""The report's section on P(yes): how well calibrated it is, and what other thresholds would give."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from hargo import tasks
from hargo.evaluation.calibration import THRESHOLDS, calibration, scored, sweep
from hargo.report.blocks import Block, Figure, Table, Text
from hargo.report.results import Results, title
from hargo.report.tables import shown, spread
from hargo.report.words import listed


def blocks(results: Results) -> list[Block]:
    """Nothing where evaluation has recorded no P(yes)."""
    tables = [block for pool, names in results.pools.items() for block in _pool(results, pool.title, names)]
    if not tables:
        return []
    names = listed([title(name) for name in results.featured])
    return [
        Text(
            "P(yes) is the probability that the answer begins as `yes` does, divided by that of `yes` and `no` "
            "together, from one forward pass. ECE is the mean gap between P(yes) and the share of rows whose truth is "
            "yes, over ten bins. Average precision does not depend on a threshold; guessing scores the share of rows "
            "whose truth is yes."
        ),
        Figure(
            "reliability",
            "On the dashed line, P(yes) is calibrated. The bars below show how the rows are distributed. Tasks that "
            "are counted together are pooled, and so are seeds.",
            f"Reliability curve of P(yes) for {names}.",
        ),
        Figure(
            "precision_recall",
            "One line per seed; the dashed line is the share of rows whose truth is yes, which guessing scores.",
            f"Precision-recall curves per yes/no task for {names}.",
        ),
        *tables,
    ]


def _pool(results: Results, what: str, names: Sequence[str]) -> list[Block]:
    """The tables on the tasks that are counted together as `what`."""
    measured = {name: [calibration(model.on(names)) for model in models] for name, models in results.models.items()}
    known = {name: [c for c in values if c] for name, values in measured.items() if all(values)}
    if not known:
        return []
    rows, sweeps = [], []
    for name, values in known.items():
        precisions = [_spread([c["tasks"].get(task) for c in values]) for task in names]
        figures = [_spread([c[key] for c in values]) for key in ("ece", "average_precision")]
        rows.append([title(name), *figures, *precisions, _spread([c["mass"] for c in values])])
        runs = [sweep(*scored(model.on(names))) for model in results.models[name]]
        means = [fmean(run[i]["f1"] for run in runs) for i in range(len(THRESHOLDS))]
        best = max(range(len(means)), key=lambda i: means[i])
        sweeps.append([title(name), *(f"{v:.1f}" + (" (best)" if i == best else "") for i, v in enumerate(means))])
    together = f"{what}, {len(names)} tasks pooled" if len(names) > 1 else what
    return [
        Table(
            ["Method", "ECE %", "AP %", *(f"AP, {tasks.load(task).title} %" for task in names), "P(yes) + P(no) %"],
            rows,
            f"{together}: calibration, mean ± deviation over seeds. The last column is the probability that the answer "
            "begins as either label does.",
        ),
        Table(
            ["Method", *(f"≥ {t:g}" for t in THRESHOLDS)],
            sweeps,
            f"{together}: F1 in percent by the lowest P(yes) that counts as yes. The best threshold of a row was "
            "chosen on these same rows, so its F1 is an upper bound, not a result.",
        ),
    ]


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return shown(spread(known), 1) if known else "–"
