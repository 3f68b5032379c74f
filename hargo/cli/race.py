"""Commands on data races outside a study's own rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hargo.cli.common import Config, Data, Model, Out, read_study, stage
from hargo.errors import UserError

app = typer.Typer(
    help="Ask a model for data races in files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="C, C++ or Fortran files, or folders of them.", metavar="FILE…")],
    model: Model,
    config: Annotated[
        Path | None, typer.Option("--config", help="The model's study; default: that of its run.json.", metavar="FILE")
    ] = None,
    threshold: Annotated[
        float, typer.Option("--threshold", min=0, max=1, help="Lowest P(yes) at which a file counts as racy.")
    ] = 0.5,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", help="Also write the findings as SARIF 2.1.0.", metavar="FILE")
    ] = None,
) -> None:
    """Print a verdict, its probability and the model for each file."""
    from hargo.data.drb import printable
    from hargo.evaluation import check as checking
    from hargo.machine import bind_threads

    study = read_study(config) if config else checking.study_of(model)
    bind_threads(study.compute.threads if study else 1)
    findings = checking.check(model, files, threshold, study)
    for one in findings:
        word = "undecided" if one.race is None else "race" if one.race else "no race"
        detail = one.reason if one.p is None else f"P(yes) {one.p:.3f}"
        print(f"{printable(one.path)}: {word}, {detail}")
    print(f"model: {checking.model_name(model)}")
    if sarif is not None:
        from hargo.io import write_json

        sarif = sarif.expanduser()
        if sarif.is_dir():
            raise UserError(f"{sarif}: is a folder; give --sarif the name of a file")
        write_json(sarif, checking.sarif(findings, checking.model_name(model), Path.cwd()))
        print(f"SARIF: {printable(sarif)}")


@app.command()
def score(
    config: Config,
    model: Model,
    data: Data,
    out: Out,
    path: Annotated[
        Path | None, typer.Option("--path", help="DataRaceBench folder; default: evaluation.external.", metavar="DIR")
    ] = None,
) -> None:
    """Answer the kernels of a DataRaceBench folder and count the answers as for race detectors."""
    study = read_study(config)
    with stage("DataRaceBench", study, out):
        from hargo.evaluation.external import PARTS, score

        figures = score(study, model, data, out, path)
        for part in PARTS:
            if part.key in figures:
                f = figures[part.key]
                print(
                    f"{part.title}: TP {f['tp']}, FP {f['fp']}, TN {f['tn']}, FN {f['fn']}, undecided "
                    f"{f['undecided']}; TSR {f['tsr']:.3f}, F1 {f['f1']:.3f}, F1 x TSR {f['f1_tsr']:.3f}"
                )
