"""The command line. Each stage is one command, the same from a workflow rule, a shell and a test.

Everything heavy is imported inside the commands: `hargo --help` must not wait for torch.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated

import typer

from hargo.cli import config, data, doctor, evaluation, evidence, model, race, training
from hargo.cli.common import PLAIN
from hargo.cli.slurm import profile_app, slurm_app
from hargo.errors import Interrupted, UserError
from hargo.io import FILE_SYSTEM

HELP = "Reproducible RL post-training of language models on heterogeneous HPC tasks."
app = typer.Typer(help=HELP, **PLAIN)
groups = {"config": config.app, "data": data.app, "model": model.app, "slurm": slurm_app, "profile": profile_app}
for name, group in {**groups, "race": race.app}.items():
    app.add_typer(group, name=name)
for command in (
    training.train,
    training.preferences,
    training.methods,
    evaluation.evaluate,
    evaluation.baselines,
    evaluation.report,
    evidence.power,
    evidence.compare,
    doctor.doctor,
):
    app.command()(command)


def _version(requested: bool) -> None:
    if requested:
        from hargo import __version__

        print(f"hargo {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def home(argument: str) -> str:
    """A path of the command line with `~` expanded: a shell leaves that of `--out=~/x` as it is."""
    option, path = re.findall(r"(?s)^(--[a-z-]+=)?(.*)$", argument)[0]
    return (option or "") + os.path.expanduser(path) if path == "~" or path.startswith("~/") else argument


def main() -> None:
    """Entry point: an error that the user can fix is one line and status 2, anything else is a traceback."""
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("hargo").setLevel(logging.INFO)
    try:
        app([home(argument) for argument in sys.argv[1:]], prog_name="hargo")
    except UserError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except Interrupted as error:
        print(f"stopped: {error}; run the same command again to resume", file=sys.stderr)
        sys.exit(os.EX_TEMPFAIL)
    except OSError as error:
        if error.errno not in FILE_SYSTEM:
            raise
        # finished checkpoints are whole, so the same command resumes from the newest
        print(f"error: {error.filename or 'writing'}: {error.strerror}; fix that and run it again", file=sys.stderr)
        sys.exit(2)
