"""What the commands share: their options, reading a study, and the frame around a stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hargo.errors import UserError

if TYPE_CHECKING:
    from hargo.config import Study

PLAIN: dict[str, Any] = {"no_args_is_help": True, "add_completion": False, "pretty_exceptions_enable": False}

Config = Annotated[Path, typer.Option("--config", help="Study file (YAML or JSON).", metavar="FILE")]
Out = Annotated[Path, typer.Option("--out", help="Folder to write to.", metavar="DIR")]
Data = Annotated[Path, typer.Option("--data", help="Folder with train.jsonl and eval.jsonl.", metavar="DIR")]
Model = Annotated[Path, typer.Option("--model", help="Model folder to start from.", metavar="DIR")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of this run.", min=0, max=2**32 - 1)]
#: folders of a run, each by default where the workflow has it
USUAL = "Default: the place that the workflow gives it below results/<study>/."
UsualModel = Annotated[Path | None, typer.Option("--model", help=f"Model folder to start from. {USUAL}", metavar="DIR")]
UsualData = Annotated[Path | None, typer.Option("--data", help=f"Folder with train.jsonl. {USUAL}", metavar="DIR")]
UsualOut = Annotated[Path | None, typer.Option("--out", help=f"Folder to write to. {USUAL}", metavar="DIR")]
UsualPairs = Annotated[
    Path | None,
    typer.Option("--pairs", help=f"Folder of `hargo preferences`, for runs on pairs. {USUAL}", metavar="DIR"),
]
UsualCheckpoints = Annotated[
    Path | None,
    typer.Option("--checkpoints", help=f"Folder for checkpoints; a rerun resumes from them. {USUAL}", metavar="DIR"),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override one value, e.g. --set rl.max_steps=5 (repeatable).", metavar="KEY=VALUE"),
]


def write_study(study: Study, out: Path) -> None:
    """Write a resolved study as YAML, unless the file says the same already."""
    import yaml

    from hargo.io import write_text

    text = yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    if not out.is_file() or out.read_text(encoding="utf-8") != text:
        write_text(out, text)


def read_study(path: Path, sets: list[str] | None = None) -> Study:
    from hargo.config import load_study

    return load_study(path, overrides(sets or []))


def overrides(sets: list[str]) -> dict[str, Any]:
    """`["rl.max_steps=5"]` as nested mappings; values are read as YAML."""
    import yaml

    from hargo.config.loading import merge
    from hargo.config.text import parse

    result: dict[str, Any] = {}
    for item in sets:
        key, equals, text = item.partition("=")
        if not equals or not key.strip("."):
            raise UserError(f"--set {item}: write KEY=VALUE, e.g. --set rl.max_steps=5")
        try:
            value = parse(text)
        except (yaml.YAMLError, ValueError, RecursionError):
            raise UserError(f"--set {item}: {text!r} is not a YAML value") from None
        for part in reversed(key.split(".")):
            value = {part: value}
        result = merge(result, value)
    return result


def source_options(source: str, path: str | None) -> Any:
    from pydantic import ValidationError

    from hargo.config.options import DataOptions

    protocol = "given" if source == "embedded" else "strict"
    try:
        return DataOptions(source=source, path=path, protocol=protocol)  # type: ignore[arg-type]
    except ValidationError as error:
        raise UserError(error.errors()[0]["msg"].removeprefix("Value error, ").replace("`path`", "--path")) from None


@contextmanager
def stage(label: str, study: Study, out: Path, checkpoints: Path | None = None) -> Iterator[None]:
    """Announce a stage, prepare the process for computing, and report how long it took."""
    from hargo.machine import bind_threads
    from hargo.provenance import checkout

    bind_threads(study.compute.threads)
    checkout()  # now, since a commit made meanwhile is not the code that runs
    folder(out)
    print(f"{label}: writing to {out}", flush=True)
    if checkpoints is not None:
        folder(checkpoints, "--checkpoints")
        print(f"checkpoints and the steps so far (metrics.jsonl, tensorboard/): {checkpoints}", flush=True)
    start = time.perf_counter()
    yield
    print(f"{label}: done in {time.perf_counter() - start:.1f} s", flush=True)


def folder(path: Path, option: str = "--out") -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be created as a folder ({error.strerror}); choose another {option}") from None


def say_next(what: str) -> None:
    print(f"next: {what}")
