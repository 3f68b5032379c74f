"""The command line. Each stage is one command, the same from a workflow rule, a shell and a test.

Everything heavy is imported inside the commands: `hargo --help` must not wait for torch.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hargo.cli import evidence, race, verify
from hargo.cli.common import (
    Checkpoints,
    Config,
    Data,
    Model,
    Out,
    Overrides,
    Seed,
    folder,
    read_study,
    say_next,
    source_options,
    stage,
    write_study,
)
from hargo.cli.slurm import profile_app, slurm_app
from hargo.errors import Interrupted, UserError
from hargo.io import FILE_SYSTEM

HELP = "Reproducible RL post-training of language models on heterogeneous HPC tasks."
plain: dict[str, Any] = {"no_args_is_help": True, "add_completion": False, "pretty_exceptions_enable": False}
app = typer.Typer(help=HELP, **plain)
config_app = typer.Typer(help="Check and resolve study files.", **plain)
data_app = typer.Typer(help="Build and audit the data of a study.", **plain)
model_app = typer.Typer(help="Fetch and prepare the base model.", **plain)
app.add_typer(config_app, name="config")
app.add_typer(data_app, name="data")
app.add_typer(model_app, name="model")
app.add_typer(slurm_app, name="slurm")
app.add_typer(profile_app, name="profile")
app.add_typer(race.app, name="race")
app.command()(evidence.power)
app.command()(evidence.compare)
data_app.command()(verify.verify)


def _version(asked: bool) -> None:
    if asked:
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


@config_app.command("check")
def config_check(file: Annotated[Path, typer.Argument(metavar="FILE")], set_: Overrides = None) -> None:
    """Say whether a study file is valid, and what it would run."""
    study = read_study(file, set_)
    methods = ", ".join(["sft", *study.methods])
    print(f"{file}: valid study {study.name!r}: {methods}; seeds {study.seeds}; tasks {', '.join(study.tasks)}")
    print(f"next: snakemake --profile profiles/local --configfile {file}")


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON schema of a study file."""
    from hargo.config import study_schema

    print(study_schema(), end="")


@config_app.command("resolve")
def config_resolve(
    config: Config,
    out: Annotated[Path, typer.Option("--out", help="File to write.", metavar="FILE")],
    set_: Overrides = None,
) -> None:
    """Write the study with every default filled in."""
    study = read_study(config, set_)
    folder(out.parent)
    write_study(study, out)
    print(f"study {study.name!r} written to {out}")


@data_app.command("prefetch")
def data_prefetch(config: Config) -> None:
    """Fetch the rows from the hub, so that `data build` runs offline."""
    study = read_study(config)
    if study.data.source == "hub":
        print(f"data of {study.name!r}: fetching {study.data.path} into the hub cache", flush=True)
        from hargo.data.hub import prefetch

        for file in prefetch(study.data, study.tasks):
            print(file)
    say_next(f"hargo data build --config {config} --out results/{study.name}/data")


@data_app.command("build")
def data_build(config: Config, out: Out) -> None:
    """Build the training and evaluation rows of a study."""
    study = read_study(config)
    with stage(f"data of {study.name!r}", study, out):
        from hargo.data.build import build, write

        split = build(study.data, study.tasks)
        write(split, out)
        print(f"{len(split.train)} training rows, {len(split.eval)} evaluation rows")
    say_next(f"hargo data audit --config {config} --out {out.parent / 'audit'}")


@data_app.command("audit")
def data_audit(
    out: Out,
    config: Annotated[Path | None, typer.Option("--config", help="Study file.", metavar="FILE")] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder from `data build`; spares building it again.", metavar="DIR"),
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="Audit a data source without a study.")] = None,
    path: Annotated[str | None, typer.Option("--path", help="Where that source is: folder or hub id.")] = None,
) -> None:
    """Measure a data set: duplicates, conflicts, labels told by names, leaks from training to evaluation."""
    from hargo.config import SOURCES
    from hargo.config.study import source_tasks, unknown

    if (config is None) == (source is None):
        raise UserError("give either --config FILE, or --source NAME with --path")
    if config is not None:
        study = read_study(config)
        options, tasks = study.data, study.tasks
    else:
        if source not in SOURCES:
            raise UserError(unknown("data source", str(source), SOURCES))
        known = source_tasks(str(source))
        if known is None:
            raise UserError(
                f"data source {source!r} does not say which tasks it has; audit a study of it, with --config"
            )
        options, tasks = source_options(str(source), path), list(known)
    folder(out)
    print(f"audit: writing {out / 'audit.md'} and {out / 'audit.json'}", flush=True)
    from hargo.data.audit import audit, render
    from hargo.data.build import Split, load_source, split_rows
    from hargo.data.records import load_rows
    from hargo.io import read_json, write_json, write_text

    rows = load_source(options, tasks)
    if data is not None:
        files = data / "train.jsonl", data / "eval.jsonl", data / "manifest.json"
        split = Split(load_rows(files[0]), load_rows(files[1]), read_json(files[2]))
    else:
        split = split_rows(rows, options)
    found = audit(rows, split)
    text = render(found)
    write_json(out / "audit.json", found)
    write_text(out / "audit.md", text if text.endswith("\n") else text + "\n")
    print(text)
    say_next(f"read {out / 'audit.md'}")


@model_app.command("prefetch")
def model_prefetch(config: Config) -> None:
    """Fetch the base model from the network, so that later stages run offline."""
    study = read_study(config)
    print(f"base model: fetching {study.model.path or 'nothing, it is made here'}", flush=True)
    from hargo.models.prepare import prefetch

    where = prefetch(study)
    if where is not None:
        print(f"base model: {where}")
    results = f"results/{study.name}"
    say_next(f"hargo model prepare --config {config} --data {results}/data --out {results}/model/base")


@model_app.command("prepare")
def model_prepare(config: Config, data: Data, out: Out) -> None:
    """Write the base model as safetensors with its tokenizer; a scratch model is made here."""
    study = read_study(config)
    with stage("base model", study, out):
        from hargo.models.prepare import prepare

        prepare(study, data, out)
    following = "pretrain" if study.pretrain else f"sft --seed {study.seeds[0]}"
    say_next(f"hargo {following} --config {config} --model {out} --data {data} --out DIR --checkpoints DIR")


@app.command()
def pretrain(config: Config, model: Model, data: Data, out: Out, checkpoints: Checkpoints) -> None:
    """Language modelling on the training texts, for a model made from scratch."""
    study = read_study(config)
    with stage("pretrain", study, out, checkpoints):
        from hargo.training.stages import pretrain as run

        run(study, model, data, out, checkpoints)
    where = f"--model {out / 'model'} --data {data} --out DIR --checkpoints DIR"
    say_next(f"hargo sft --config {config} --seed {study.seeds[0]} {where}")


@app.command()
def sft(config: Config, seed: Seed, model: Model, data: Data, out: Out, checkpoints: Checkpoints) -> None:
    """Supervised fine-tuning, the loss on the answers only."""
    study = read_study(config)
    with stage(f"sft, seed {seed}", study, out, checkpoints):
        from hargo.training.stages import sft as run

        run(study, seed, model, data, out, checkpoints)
    follow = next(iter(study.methods), None)
    if follow:
        where = f"--model {out / 'model'} --data {data} --out DIR --checkpoints DIR"
        say_next(f"hargo train {follow} --config {config} --seed {seed} {where}")
    else:
        say_next(f"hargo evaluate --config {config} --model {out / 'model'} --data {data} --out DIR")


@app.command()
def preferences(config: Config, seed: Seed, model: Model, data: Data, out: Out) -> None:
    """Pairs of answers of the SFT model, the better one first, for DPO, SimPO and KTO."""
    study = read_study(config)
    with stage(f"preferences, seed {seed}", study, out):
        from hargo.training.pairs import preferences as run

        run(study, seed, model, data, out)
    follow = next((name for name in study.methods if study.spec(name).data == "pairs"), "dpo")
    where = f"--model {model} --data {data} --pairs {out} --out DIR --checkpoints DIR"
    say_next(f"hargo train {follow} --config {config} --seed {seed} {where}")


@app.command()
def methods(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/methods.md.")] = False,
) -> None:
    """List the methods: formula, paper and the data each needs."""
    from hargo.cli.methods import listing, page

    print(page() if markdown else listing())


@app.command()
def train(
    method: Annotated[str, typer.Argument(help="A method named in the study.", metavar="METHOD")],
    config: Config,
    seed: Seed,
    model: Model,
    data: Data,
    out: Out,
    checkpoints: Checkpoints,
    pairs: Annotated[
        Path | None, typer.Option(help="Folder of `hargo preferences`, for methods that learn from pairs.")
    ] = None,
) -> None:
    """Train one method, starting at the SFT model (HPC-GPT: at the base model)."""
    study = read_study(config)
    if method not in study.methods:
        from hargo.config import METHODS
        from hargo.config.study import unknown

        if method in METHODS:
            raise UserError(f"{config}: {method} is not in this study; add it to `methods`")
        raise UserError(f"{config}: {unknown('method in this study', method, study.methods)}")
    with stage(f"{method}, seed {seed}", study, out, checkpoints):
        from hargo.training.stages import train as run

        run(study, method, seed, model, data, out, checkpoints, pairs)
    say_next(f"hargo evaluate --config {config} --model {out / 'model'} --data {data} --out DIR")


@app.command()
def evaluate(
    config: Config,
    model: Model,
    data: Data,
    out: Out,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the trained model, for messages.")] = None,
) -> None:
    """Answer the evaluation rows greedily and judge the answers."""
    study = read_study(config)
    label = "evaluate" if seed is None else f"evaluate, seed {seed}"
    with stage(label, study, out):
        from hargo.evaluation.run import evaluate as run

        run(study, model, data, out)
    say_next(f"hargo report --config {config}")


@app.command()
def baselines(config: Config, data: Data, out: Out) -> None:
    """Majority class, nearest neighbour and TF-IDF baselines on the same rows."""
    study = read_study(config)
    with stage("baselines", study, out):
        from hargo.evaluation.baselines import run

        run(study, data, out)
    say_next(f"hargo report --config {config}")


@app.command()
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
    """Tables, figures and the HTML report from the evaluations of a study."""
    study = read_study(config)
    results = results or Path("results") / study.name
    out = out or results / "report"
    if not show:
        with stage("report", study, out):
            from hargo.report.build import build

            build(study, results, out, rows)
    else:
        from hargo.report.drift import warn

        warn(study, results)
    from hargo.report.build import print_headline

    print_headline(out)


@app.command()
def doctor(
    config: Annotated[Path | None, typer.Option("--config", help="Also check a study's needs.", metavar="FILE")] = None,
) -> None:
    """Check this machine and environment, and say what to do about what is missing."""
    study = read_study(config) if config else None
    from hargo.doctor import checks, render

    found = checks(study)
    print(render(found))
    if any(check.state == "missing" for check in found):
        raise typer.Exit(1)


def home(argument: str) -> str:
    """A path of the command line with `~` expanded: a shell leaves that of `--out=~/x` as it is."""
    option, path = re.findall(r"(?s)^(--[a-z-]+=)?(.*)$", argument)[0]
    return (option or "") + os.path.expanduser(path) if path == "~" or path.startswith("~/") else argument


def main() -> None:
    """Entry point: what the user can mend is one line and status 2, anything else a traceback."""
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("hargo").setLevel(logging.INFO)
    try:
        app([home(argument) for argument in sys.argv[1:]], prog_name="hargo")
    except UserError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except Interrupted as error:
        print(f"stopped: {error}; run the same command again to go on", file=sys.stderr)
        sys.exit(os.EX_TEMPFAIL)
    except OSError as error:
        if error.errno not in FILE_SYSTEM:
            raise
        # finished checkpoints are whole, so the same command goes on from the newest
        print(f"error: {error.filename or 'writing'}: {error.strerror}; mend that and run it again", file=sys.stderr)
        sys.exit(2)
