"""`hargo data`: build, audit and verify the rows of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hargo.cli import verify
from hargo.cli.common import PLAIN, Config, Out, folder, read_study, say_next, source_options, stage
from hargo.errors import UserError
from hargo.layout import StudyFolder

app = typer.Typer(help="Build and audit the data of a study.", **PLAIN)
app.command()(verify.verify)


@app.command("prefetch")
def prefetch(config: Config) -> None:
    """Fetch the rows from the hub, so that `data build` runs offline."""
    study = read_study(config)
    if study.data.source == "hub":
        print(f"data of {study.name!r}: fetching {study.data.path} into the hub cache", flush=True)
        from hargo.data.hub import prefetch as fetch

        for file in fetch(study.data, study.tasks):
            print(file)
    say_next(f"hargo data build --config {config} --out {StudyFolder.of(study).data}")


@app.command("build")
def build(config: Config, out: Out) -> None:
    """Build the training and evaluation rows of a study."""
    study = read_study(config)
    with stage(f"data of {study.name!r}", study, out):
        from hargo.data.build import build as make
        from hargo.data.build import write

        split = make(study.data, study.tasks)
        write(split, out)
        print(f"{len(split.train)} training rows, {len(split.eval)} evaluation rows")
    say_next(f"hargo data audit --config {config} --out {out.parent / 'audit'}")


@app.command("audit")
def audit(
    out: Out,
    config: Annotated[Path | None, typer.Option("--config", help="Study file.", metavar="FILE")] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Folder from `data build`; saves building it again.", metavar="DIR"),
    ] = None,
    source: Annotated[str | None, typer.Option("--source", help="Audit a data source without a study.")] = None,
    path: Annotated[str | None, typer.Option("--path", help="Where that source is: a folder or a hub id.")] = None,
) -> None:
    """Measure a data set: duplicates, conflicts, labels given away by names, leaks from training to evaluation."""
    from hargo.config.study import source_tasks

    if (config is None) == (source is None):
        raise UserError("give either --config FILE, or --source NAME with --path")
    if config is not None:
        study = read_study(config)
        options, tasks = study.data, study.tasks
    else:
        declared = source_tasks(str(source))
        if declared is None:
            raise UserError(
                f"data source {source!r} does not declare its tasks; audit a study that uses it, with --config"
            )
        options, tasks = source_options(str(source), path), list(declared)
    folder(out)
    print(f"audit: writing {out / 'audit.md'} and {out / 'audit.json'}", flush=True)
    from hargo.data.audit import audit as measure
    from hargo.data.audit import render
    from hargo.data.build import Split, load_source, split_rows
    from hargo.data.records import load_rows
    from hargo.io import read_json, write_json, write_text

    rows = load_source(options, tasks)
    if data is not None:
        files = data / "train.jsonl", data / "eval.jsonl", data / "manifest.json"
        split = Split(load_rows(files[0]), load_rows(files[1]), read_json(files[2]))
    else:
        split = split_rows(rows, options)
    figures = measure(rows, split)
    text = render(figures)
    write_json(out / "audit.json", figures)
    write_text(out / "audit.md", text if text.endswith("\n") else text + "\n")
    print(text)
    say_next(f"read {out / 'audit.md'}")
