"""`hargo slurm` and `hargo profile`: what jobs cost, what would be submitted, and a profile for this cluster."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from hargo.cli.common import Config, read_study
from hargo.errors import UserError

slurm_app = typer.Typer(help="Jobs on a Slurm cluster: what they cost, and their scripts.", no_args_is_help=True)
profile_app = typer.Typer(help="Snakemake profiles.", no_args_is_help=True)


@slurm_app.command("report")
def report(
    config: Config,
    jobs: Annotated[bool, typer.Option("--jobs/--rules", help="One line per job instead of one per rule.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
) -> None:
    """Show state, wait, elapsed time, CPU and memory used, GPU hours and requeues of a study's jobs."""
    from hargo.report import cluster

    results = Path("results") / read_study(config).name
    entries = cluster.jobs(results)
    if not entries:
        raise UserError(
            f"{cluster.JOURNAL}/jobs.jsonl lists no job of {results}; run this where the study was submitted from"
        )
    header, rows = (
        (cluster.JOB_HEADER, cluster.one_by_one(entries)) if jobs else (cluster.RULE_HEADER, cluster.per_rule(entries))
    )
    if as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([header, *rows])
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in header:
        text = name in ("Job", "Rule", "Target", "State")
        table.add_column(name, justify="left" if text else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)
    console.print(cluster.source(entries), soft_wrap=True)


@slurm_app.command("script")
def script(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="A rule of the workflow, e.g. train.")],
    config: Config = Path("config/demo.yaml"),
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="Snakemake profile; default: yours, else profiles/slurm.", metavar="DIR"),
    ] = None,
) -> None:
    """Print the sbatch script and the commands of RULE's jobs, finished or not, without submitting anything."""
    from hargo.cli import profiles

    read_study(config)
    if profile is None:
        profile = str((profiles.own() if profiles.own().is_file() else profiles.TEMPLATE).parent)
    command = [sys.executable, "-m", "snakemake", "--profile", profile, "--configfile", str(config)]
    arguments = [
        *command,
        "--executor",
        "submitit",
        "--submitit-script",
        rule,
        "--forceall",
        "--nolock",
        "--quiet",
        "host",
    ]
    raise typer.Exit(subprocess.run(arguments).returncode)


@profile_app.command("install")
def install(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Profile name; only slurm can be installed.")] = "slurm",
    partition: Annotated[str | None, typer.Option(help="Partition; default: the cluster's default.")] = None,
    account: Annotated[str | None, typer.Option(help="Account; default: yours, if you have just one.")] = None,
    gpu: Annotated[str | None, typer.Option(help="GPU type, e.g. a100; `none` for a cluster without GPUs.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing profile of that name.")] = False,
) -> None:
    """Write your Snakemake profile for this cluster, so that `snakemake --profile slurm` works from any folder."""
    from hargo.cli import profiles

    if name != "slurm":
        raise UserError(f"profile {name!r}: only `slurm` can be installed; profiles/local works as it is")
    site = profiles.propose(partition, account, gpu)
    path = profiles.install(site, force)
    for line in site.notes:
        print(line)
    print(f"written: {path}")
    print("next: snakemake --profile slurm --configfile config/demo.yaml -n")
