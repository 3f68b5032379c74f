"""How many rows or seeds a difference would need to stand out from noise, given the variation in a finished study."""

from __future__ import annotations

from hargo.config.study import unknown
from hargo.errors import UserError
from hargo.evaluation.statistics import MANY, Difference, detectable, need, planned
from hargo.report.comparisons import evidence
from hargo.report.results import Results, title
from hargo.report.tables import metrics_of


def power(results: Results, metric: str, target: float, first: str | None, second: str | None) -> str:
    """A few lines of text for a true difference `target`, in the metric's unit, between two runs of the study.

    first, second: None where the study has no subject, or no reference to compare it with, which is a UserError
    """
    if first is None or second is None:
        raise UserError("this study has no two runs that its report compares; name them with --first and --second")
    for method in (first, second):
        if method not in results.models:
            raise UserError(unknown("method in this study", method, results.models))
    known = metrics_of(results)
    if metric not in known:
        raise UserError(unknown("metric", metric, known))
    if target == 0:
        raise UserError("--difference 0: no number of rows tells equal methods apart; give the gap that would matter")
    difference = evidence(results).difference(first, second, metric)
    if difference is None:
        raise UserError(f"{metric}: {first} or {second} has no value of it in this study")
    if difference.rows == 0:
        raise UserError(f"{metric}: {first} and {second} score alike on every row, so there is no variation to go by")
    comparisons = evidence(results)
    ids, k = comparisons.ids(first, metric), len(results.study.seeds)
    name, decimals = known[metric]
    lines = [
        f"{name}, {title(first)} against {title(second)}: gap {difference.gap:+.{decimals}f}, standard error over "
        f"{comparisons.grouping.describe(ids)} {difference.rows**0.5:.{decimals}f}"
        + (
            f", over {k} seeds {difference.seeds**0.5:.{decimals}f}." if difference.seeds is not None else "; one seed."
        ),
        f"Four in five studies like this one detect a true difference of {detectable(difference):.{decimals}f} or more "
        "(two-sided 5 %, one comparison).",
        f"A difference of {abs(target):g} is detected that often with",
        *_surface(difference, abs(target), len(ids), k),
    ]
    if k == 1:
        lines.append("With one seed, the variation between seeds is unknown; train at least two.")
    elif k < 4:
        lines.append(
            f"{k} seeds give only a rough estimate of the variation between seeds, so these numbers are rough too."
        )
    return "\n".join(lines)


def _surface(difference: Difference, target: float, n: int, k: int) -> list[str]:
    """`R rows and K seeds`, fewer rows from line to line; then the seeds that the rows of the study would need."""
    if difference.seeds is None:
        return [_line(need(target, difference, n, 1).rows, 1)]
    enough = need(target, difference, n, k).seeds
    counts = sorted({2, 3, 5, 10, k} | ({enough} if enough is not None and enough <= 100 else set()))
    lines = [_line(need(target, planned(difference, 1, seeds / k), n, seeds).rows, seeds) for seeds in counts]
    if enough is None:
        lines.append(f"  no number of seeds up to {MANY} on {n} rows")
    elif enough not in counts:
        lines.append(f"  {n} rows and {enough} seeds")
    return lines


def _line(rows: int | None, seeds: int) -> str:
    many = f"{seeds} seed{'s' if seeds > 1 else ''}"
    return f"  no number of rows and {many}: seeds vary too much" if rows is None else f"  {rows} rows and {many}"
