"""The subject against its rival on every metric; nothing where either is missing."""

from __future__ import annotations

from hargo.report.blocks import Block, Table
from hargo.report.comparisons import gap
from hargo.report.results import Results, title
from hargo.report.tables import metrics_of
from hargo.report.words import interval, signed


def blocks(results: Results) -> list[Block]:
    """One table, one row per metric."""
    if results.subject is None or results.rival is None:
        return []
    rows = []
    for metric, (name, decimals) in metrics_of(results).items():
        difference = gap(results, results.subject, results.rival, metric)
        if difference is None:
            continue
        bounds = interval(difference.interval, decimals)
        rows.append([name, signed(difference.gap, decimals), bounds, f"{difference.corrected:.3f}", difference.reading])
    rival = title(results.rival)
    return [
        Table(
            ["Metric", f"{title(results.subject)} − {rival}", "95 % over rows", "p, Holm", "Reading"],
            rows,
            "The interval is a paired bootstrap over evaluation rows. p also accounts for seed-to-seed variation and "
            f"is Holm-corrected across the methods compared with {rival} within each metric. It is not corrected "
            "across metrics, so with several metrics some gaps count by chance.",
        )
    ]
