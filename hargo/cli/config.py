"""`hargo config`: check and resolve study files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hargo.cli.common import PLAIN, Config, Overrides, folder, read_study, say_next, write_study

app = typer.Typer(help="Check and resolve study files.", **PLAIN)


@app.command("check")
def check(file: Annotated[Path, typer.Argument(metavar="FILE")], set_: Overrides = None) -> None:
    """Check that a study file is valid, and show what it would run."""
    study = read_study(file, set_)
    runs = ", ".join(study.runs())
    print(f"{file}: valid study {study.name!r}: {runs}; seeds {study.seeds}; tasks {', '.join(study.tasks)}")
    say_next(f"snakemake --profile profiles/local --configfile {file}")


@app.command("schema")
def schema() -> None:
    """Print the JSON schema of a study file."""
    from hargo.config import study_schema

    print(study_schema(), end="")


@app.command("resolve")
def resolve(
    config: Config,
    out: Annotated[Path, typer.Option("--out", help="File to write.", metavar="FILE")],
    set_: Overrides = None,
) -> None:
    """Write the study with every default filled in."""
    study = read_study(config, set_)
    folder(out.parent)
    write_study(study, out)
    print(f"study {study.name!r} written to {out}")
