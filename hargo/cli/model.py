"""`hargo model`: fetch and prepare the base model."""

from __future__ import annotations

import typer

from hargo.cli.common import PLAIN, Config, Data, Out, read_study, say_next, stage
from hargo.layout import StudyFolder

app = typer.Typer(help="Fetch and prepare the base model.", **PLAIN)


@app.command("prefetch")
def prefetch(config: Config) -> None:
    """Fetch the base model from the network, so that later stages run offline."""
    study = read_study(config)
    print(f"base model: fetching {study.model.path or 'nothing, since it is built locally'}", flush=True)
    from hargo.models.prepare import prefetch as fetch

    where = fetch(study)
    if where is not None:
        print(f"base model: {where}")
    at = StudyFolder.of(study)
    say_next(f"hargo model prepare --config {config} --data {at.data} --out {at.base}")


@app.command("prepare")
def prepare(config: Config, data: Data, out: Out) -> None:
    """Write the base model as safetensors with its tokenizer; a scratch model is built by this command."""
    study = read_study(config)
    with stage("base model", study, out):
        from hargo.models.prepare import prepare as make

        make(study, data, out)
    first = next(iter(study.runs().values()))
    say_next(f"hargo train {first.name} --config {config} --seed {first.seeds[0]}")
