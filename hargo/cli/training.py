"""Commands that train: every run of a study, and the pairs of answers that some of them learn from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hargo.cli.common import (
    Config,
    Seed,
    UsualCheckpoints,
    UsualData,
    UsualModel,
    UsualOut,
    UsualPairs,
    read_study,
    say_next,
    stage,
)
from hargo.errors import UserError
from hargo.layout import StudyFolder

if TYPE_CHECKING:
    from hargo.config.runs import Start


def methods(
    name: Annotated[
        str | None, typer.Argument(help="One method: everything it computes and takes.", metavar="NAME")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A study, for the methods that it names itself.", metavar="FILE")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/methods.md.")] = False,
) -> None:
    """List the methods, each with its formula, its paper and the data that it needs."""
    if config is not None:
        read_study(config)
    from hargo.cli.methods import description, listing, page

    print(page() if markdown else description(name) if name else listing())


def train(
    name: Annotated[str, typer.Argument(help="A run of the study: pretrain, sft or a method.", metavar="RUN")],
    config: Config,
    seed: Seed,
    model: UsualModel = None,
    data: UsualData = None,
    out: UsualOut = None,
    checkpoints: UsualCheckpoints = None,
    pairs: UsualPairs = None,
) -> None:
    """Train one run of a study: pre-training, SFT, or a method from the run that it starts from."""
    study = read_study(config)
    runs, at = study.runs(), StudyFolder.of(study)
    try:
        run = study.run(name)
    except UserError as error:
        raise UserError(f"{config}: {error}") from None
    model = model or _there(at.start_of(run, seed, runs), run.start, config)
    if run.trainer.pairs:
        pairs = pairs or at.pairs(run.start, seed)
    out, checkpoints = out or at.run(name, seed), checkpoints or at.checkpoints(name, seed)
    with stage(f"{name}, seed {seed}", study, out, checkpoints):
        from hargo.training.job import Places
        from hargo.training.job import train as begin

        begin(study, name, seed, Places(model, data or at.data, out, checkpoints, pairs))
    following = next((one for one in runs.values() if one.start.run == name), None)
    if following is not None and not run.evaluated:
        say_next(f"hargo train {following.name} --config {config} --seed {following.seeds[0]}")
    else:
        where = at.evaluation(name, seed)
        say_next(f"hargo evaluate --config {config} --model {out / 'model'} --data {data or at.data} --out {where}")


def _there(model: Path, start: Start, config: Path) -> Path:
    """The model folder that a run starts from; UserError with the command for it where it is missing."""
    if not model.is_dir():
        command = f"hargo train {start.run}" if start.run else "hargo model prepare"
        raise UserError(
            f"{model}: no model to start from; make it with `{command} --config {config}`, or give one with --model"
        )
    return model


def preferences(
    config: Config,
    seed: Seed,
    model: UsualModel = None,
    data: UsualData = None,
    out: UsualOut = None,
) -> None:
    """Sample pairs of answers, the better one first, for the runs of a study that learn from pairs."""
    study = read_study(config)
    at, runs = StudyFolder.of(study), study.runs()
    follow = next((run for run in runs.values() if run.trainer.pairs), None)
    if follow is None and (model is None or out is None):
        raise UserError(f"{config}: no run of this study learns from pairs; give --model and --out, or add such a run")
    if follow is not None:
        model = model or _there(at.start_of(follow, seed, runs), follow.start, config)
        out = out or at.pairs(follow.start, seed)
    assert model is not None and out is not None
    with stage(f"preferences, seed {seed}", study, out):
        from hargo.training.preferences import preferences as sample

        sample(study, seed, model, data or at.data, out)
    say_next(
        f"hargo train {follow.name if follow else 'dpo'} --config {config} --seed {seed} --model {model} --pairs {out}"
    )
