"""From results/<study>/ to tables, figures and pages."""

from __future__ import annotations

import csv
import logging
from pathlib import Path

from hargo.config import Study
from hargo.errors import UserError
from hargo.io import write_text
from hargo.report import drift, tables
from hargo.report.comparisons import gap_table
from hargo.report.figures import FIGURES
from hargo.report.figures.style import draw
from hargo.report.marks import annotate, marked
from hargo.report.render import html, markdown
from hargo.report.results import read, title
from hargo.report.sections import sections
from hargo.report.similarity import band_table

logger = logging.getLogger(__name__)


def build(study: Study, results: Path, out: Path, rows: bool = True) -> None:
    """Write the tables as CSV, figures/, report.md and report.html to `out`.

    rows: whether report.html contains the evaluation rows and answers; without them it can be shared where the
        data may not
    results: results/<study>/; a method or seed that is missing there is a UserError naming what to run
    """
    drift.warn(study, results)
    study_results = read(study, results)
    for name, table in (
        ("summary", annotate(study_results, tables.summary(study_results))),
        ("per_task", tables.per_task(study_results)),
        ("ablation", tables.ablation(study_results)),
        ("heterogeneity", tables.heterogeneity(study_results)),
        ("evidence", gap_table(study_results)),
        ("similarity", band_table(study_results)),
    ):
        write_text(out / f"{name}.csv", tables.to_csv(table))
    (out / "figures").mkdir(parents=True, exist_ok=True)
    figures = draw(study_results, out / "figures", FIGURES)
    content = sections(study_results, set(figures), rows)
    heading = f"Study {study.name}"
    write_text(out / "report.md", markdown.render(heading, content))
    write_text(out / "report.html", html.render(heading, content, figures, study_results))
    logger.info("report in %s", out / "report.html")


def print_headline(study: Study, out: Path) -> None:
    """Print the headline table of a finished report, plain where output is not a terminal, and its path."""
    from rich.console import Console
    from rich.table import Table

    path = out / "summary.csv"
    if not path.is_file():
        raise UserError(f"{path}: no such file; run `hargo report` first")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("Method", no_wrap=True)
    shown = {key: (name, places) for key, (name, places) in tables.METRICS.items() if f"{key}_mean" in rows[0]}
    for name, _ in shown.values():
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        cells = []
        for key, (_, places) in shown.items():
            mean, deviation = row[f"{key}_mean"], row[f"{key}_std"]
            spread = f" ± {float(deviation):.{places}f}" if deviation else ""
            marks = row.get(f"{key}_marks") or ""
            cells.append(f"{float(mean):.{places}f}{spread}{marks}" if mean else "–")
        style = "bold" if row["method"] == study.subject else "dim" if row["kind"] == "baseline" else None
        table.add_row(row["title"], *cells, style=style)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # a log file wraps nothing
    console.print(table)
    if len(study.reported) > 1:
        meanings = ", ".join(f"{mark} differs from {title(name)}" for name, mark in marked(study.references).items())
        console.print(f"{meanings} (over rows and seeds, Holm-corrected across methods)", style="dim")
    console.print(f"Full report: {out / 'report.html'}", markup=False, soft_wrap=True)
