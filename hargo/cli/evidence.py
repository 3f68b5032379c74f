"""Commands on finished studies: what a difference would need, two studies side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hargo.cli.common import Config, read_study

ResultsFolder = Annotated[Path | None, typer.Option("--results", help="Default: results/<study name>.", metavar="DIR")]


def power(
    config: Config,
    difference: Annotated[float, typer.Option("--difference", help="The difference to detect, in the metric's unit.")],
    metric: Annotated[str, typer.Option("--metric", help="A metric of the report, as in summary.csv.")] = "win_rate",
    first: Annotated[str | None, typer.Option("--first", help="Default: the subject of the study's report.")] = None,
    second: Annotated[str | None, typer.Option("--second", help="Default: the reference it is compared with.")] = None,
    results: ResultsFolder = None,
) -> None:
    """Estimate from a finished study how many rows or seeds it takes to tell a difference from noise."""
    study = read_study(config)
    from hargo.report.power import power as needed
    from hargo.report.results import read

    evidence = read(study, results or Path("results") / study.name)
    print(needed(evidence, metric, difference, first or evidence.subject, second or evidence.rival))


def compare(
    first: Annotated[Path, typer.Argument(help="Results of one study, e.g. results/demo.", metavar="RUN_A")],
    second: Annotated[Path, typer.Argument(help="Results of the other study.", metavar="RUN_B")],
    out: Annotated[Path | None, typer.Option("--out", help="Also write it as Markdown.", metavar="FILE")] = None,
) -> None:
    """Compare two studies side by side: settings, figures, and which differences exceed the noise."""
    from hargo.report.two_studies import versus

    text = versus(first, second)
    print(text, end="")
    if out is not None:
        from hargo.io import write_text

        write_text(out, text)
