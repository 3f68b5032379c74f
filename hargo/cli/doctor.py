"""The command that checks a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hargo.cli.common import read_study


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", help="Also check a study's requirements.", metavar="FILE")
    ] = None,
) -> None:
    """Check this machine and environment, and say how to fix what is missing."""
    study = read_study(config) if config else None
    from hargo.doctor import checks, render

    results = checks(study)
    print(render(results))
    if any(check.state == "missing" for check in results):
        raise typer.Exit(1)
