"""The report's section on P(yes): how calibrated it is, and what other thresholds would give."""

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
    made = [block for pool, names in results.pools.items() for block in _pool(results, pool.title, names)]
    if not made:
        return []
    names = listed([title(name) for name in results.featured])
    return [
        Text(
            "P(yes) is the probability that the answer begins as `yes` does, over that of `yes` and `no` together, "
            "from one forward pass. ECE is the mean gap between P(yes) and the share of rows whose truth is yes, over "
            "ten bins; average precision does not depend on a threshold, and guessing gets that share."
        ),
        Figure(
            "reliability",
            "On the dashed line P(yes) is what it says. Below: where the rows lie. Tasks that are counted together and "
            "seeds pooled.",
            f"Reliability curve of P(yes) for {names}.",
        ),
        Figure(
            "precision_recall",
            "One line per seed; the dashed line is the share of rows whose truth is yes, which guessing gets.",
            f"Precision-recall curves per yes/no task for {names}.",
        ),
        *made,
    ]


def _pool(results: Results, what: str, names: Sequence[str]) -> list[Block]:
    """The tables on the tasks that are counted together as `what`."""
    found = {name: [calibration(model.on(names)) for model in models] for name, models in results.models.items()}
    known = {name: [c for c in values if c] for name, values in found.items() if all(values)}
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
            f"{together}: F1 in percent by the P(yes) from which an answer counts as yes. The best of a row was chosen "
            "on these very rows: an upper bound, not a result.",
        ),
    ]


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return shown(spread(known), 1) if known else "–"
