"""Commands on trained models: answers, baselines, the report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hargo.cli.common import Config, Data, Model, Out, read_study, say_next, stage
from hargo.layout import StudyFolder


def evaluate(
    config: Config,
    model: Model,
    data: Data,
    out: Out,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the trained model, shown in messages.")] = None,
) -> None:
    """Answer the evaluation rows greedily and judge the answers."""
    study = read_study(config)
    label = "evaluate" if seed is None else f"evaluate, seed {seed}"
    with stage(label, study, out):
        from hargo.evaluation.run import evaluate as run

        run(study, model, data, out)
    say_next(f"hargo report --config {config}")


def baselines(config: Config, data: Data, out: Out) -> None:
    """Evaluate majority-class, nearest-neighbour and TF-IDF baselines on the same rows."""
    study = read_study(config)
    with stage("baselines", study, out):
        from hargo.evaluation.baselines import run

        run(study, data, out)
    say_next(f"hargo report --config {config}")


def report(
    config: Config,
    results: Annotated[
        Path | None, typer.Option("--results", help="Default: results/<study name>.", metavar="DIR")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Default: RESULTS/report.", metavar="DIR")] = None,
    show: Annotated[bool, typer.Option("--show", help="Only print the headline of a finished report.")] = False,
    rows: Annotated[
        bool, typer.Option("--rows/--no-rows", help="Put rows and answers into report.html, or keep them out of it.")
    ] = True,
) -> None:
    """Write the tables, figures and HTML report of a study from its evaluations."""
    study = read_study(config)
    results = results or StudyFolder.of(study).root
    out = out or StudyFolder(results).report
    if not show:
        with stage("report", study, out):
            from hargo.report.build import build

            build(study, results, out, rows)
    else:
        from hargo.report.drift import warn

        warn(study, results)
    from hargo.report.build import print_headline

    print_headline(study, out)
