"""From a data source to a training and an evaluation file, with a manifest that says how they were made."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hargo.config.options import DataOptions
from hargo.config.registry import SOURCES
from hargo.config.tables import resolve
from hargo.data import protocols
from hargo.data.protocols import Split
from hargo.data.records import Row, save_rows
from hargo.errors import UserError
from hargo.io import write_json

__all__ = ["Split", "build", "load_source", "split_rows", "write"]


def load_source(options: DataOptions, tasks: list[str]) -> list[Row]:
    """All rows of the source for `tasks`; an empty task or a repeated id is a UserError."""
    rows = resolve(SOURCES[options.source], "load")(options, tasks)
    where = f"data.source {options.source!r}" + (f" at {options.path}" if options.path else "")
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise UserError(f"{where}: row id {row.id!r} occurs twice; ids must be unique, rename or delete one row")
        seen.add(row.id)
    for task in tasks:
        if not any(row.task == task for row in rows):
            raise UserError(f"{where}: no rows for task {task!r}; remove it from `tasks` or add rows to the source")
    return rows


def build(options: DataOptions, tasks: list[str]) -> Split:
    """Load the source and split it by `options.protocol`; the same options give the same rows, byte for byte."""
    return split_rows(load_source(options, tasks), options)


def split_rows(rows: list[Row], options: DataOptions) -> Split:
    """Split rows by `options.protocol`, apply the size limits and draw up the manifest."""
    seed = options.split_seed
    if options.protocol == "paper":
        split = protocols.paper(rows, seed, options.eval_fraction)
    elif options.protocol == "strict":
        split = protocols.strict(rows, seed, options.eval_fraction)
    else:
        split = protocols.given(rows)
    train = protocols.limit(split.train, options.train_limit, seed, "train")
    evaluation = protocols.limit(split.eval, options.eval_limit, seed, "eval")
    for side, kept, fix in (
        ("training", train, "data.train_limit"),
        ("evaluation", evaluation, "data.eval_limit"),
    ):
        if not kept:
            raise UserError(
                f"data: the {side} side of {len(rows)} rows is empty; use more rows or another data.eval_fraction "
                f"(raise {fix} if it is set)"
            )
    report: dict[str, Any] = {
        "source": options.source,
        "path": options.path,
        "revision": options.revision,
        "protocol": options.protocol,
        "split_seed": seed,
        "eval_fraction": options.eval_fraction,
        "train_limit": options.train_limit,
        "eval_limit": options.eval_limit,
        "source_rows": _counts(rows),
        "before_limits": {"train": _counts(split.train), "eval": _counts(split.eval)},
        "train": _side(train),
        "eval": _side(evaluation),
        **split.report,
    }
    return Split(train, evaluation, report)


def write(split: Split, out: Path) -> None:
    """Write `train.jsonl`, `eval.jsonl` and `manifest.json` into `out`, the manifest last."""
    save_rows(out / "train.jsonl", split.train)
    save_rows(out / "eval.jsonl", split.eval)
    write_json(out / "manifest.json", split.report)


def digest(rows: list[Row]) -> str:
    """SHA-256 of the JSON-lines file that `save_rows` writes for these rows."""
    text = "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _counts(rows: list[Row]) -> dict[str, int]:
    return {**Counter(row.task for row in rows), "total": len(rows)}


def _side(rows: list[Row]) -> dict[str, Any]:
    return {"rows": _counts(rows), "sha256": digest(rows)}
