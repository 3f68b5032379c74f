"""How many rows or seeds a difference would need to be told from noise, from how much a finished study scatters."""

from __future__ import annotations

from hargo.config.study import unknown
from hargo.errors import UserError
from hargo.evaluation.statistics import need
from hargo.report.compare import evidence
from hargo.report.results import Results, title
from hargo.report.rows import relevant
from hargo.report.tables import metrics_of


def power(results: Results, metric: str, target: float, first: str, second: str) -> str:
    """A few lines of text for a true difference `target`, in the metric's unit, between two methods of the study."""
    for method in (first, second):
        if method not in results.models:
            raise UserError(unknown("method in this study", method, results.models))
    known = metrics_of(results)
    if metric not in known:
        raise UserError(unknown("metric", metric, known))
    if target == 0:
        raise UserError("--difference 0: no number of rows tells equal methods apart; give the gap that would matter")
    found = evidence(results).difference(first, second, metric)
    if found is None:
        raise UserError(f"{metric}: {first} or {second} has no such figure in this study")
    if found.rows == 0:
        raise UserError(f"{metric}: {first} and {second} score alike on every row, so there is no scatter to go by")
    n, k = len(relevant(results.models[first][0].predictions, metric)), len(results.study.seeds)
    asked = need(target, found, n, k)
    name, decimals = known[metric]
    error = found.rows**0.5
    lines = [
        f"{name}, {title(first)} against {title(second)}: gap {found.gap:+.{decimals}f}, standard error over "
        f"{n} rows {error:.{decimals}f}"
        + (f", over {k} seeds {found.seeds**0.5:.{decimals}f}." if found.seeds is not None else "; one seed."),
        f"A true difference of {abs(target):g} shows in four studies of five (two-sided 5 %, one comparison) with",
        f"  {asked.rows} rows and {k} seed{'s' if k > 1 else ''}"
        if asked.rows is not None
        else f"  no number of rows and {k} seeds: seeds alone scatter too much",
    ]
    if k == 1:
        lines.append("  (how much seeds scatter is unknown with one seed; train at least two)")
    elif asked.seeds is not None:
        lines.append(f"  {n} rows and {asked.seeds} seed{'s' if asked.seeds > 1 else ''}")
    else:
        lines.append(f"  no number of seeds on {n} rows: the rows alone scatter too much")
    if k == 2 or (asked.seeds is not None and asked.seeds < 4):
        lines.append("Below four seeds the t test asks for more than this normal approximation says.")
    return "\n".join(lines)
