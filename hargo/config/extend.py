"""What a study names from outside this package: its section `extend` enters the tables of names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hargo.config.methods import METHODS
from hargo.config.options import ExtendOptions
from hargo.config.problems import KeyProblem, first_problem
from hargo.config.registry import SAMPLERS, SOURCES, TASKS, TRAINERS
from hargo.config.tables import Table, look_in
from hargo.errors import UserError

#: key of `extend` -> the table that it adds to; methods last, since they name trainers
TABLES: dict[str, Table[Any]] = {
    "tasks": TASKS,
    "sources": SOURCES,
    "samplers": SAMPLERS,
    "trainers": TRAINERS,
    "methods": METHODS,
}


def extend(section: Any) -> None:
    """Make known what the section `extend` of a study names; KeyProblem for what cannot be used."""
    try:
        options = ExtendOptions.model_validate(section)
    except ValidationError as error:
        raise KeyProblem(*first_problem(error, ExtendOptions, ("extend",))) from None
    look_in(options.folders)
    for key, table in TABLES.items():
        for name, where in getattr(options, key).items():
            try:
                table.add(name, where)
            except UserError as error:
                raise KeyProblem(("extend", key, name), f"extend.{key}.{name}: {error}") from error


def with_folders(study: dict[str, Any], files: Iterable[str | Path]) -> dict[str, Any]:
    """A study whose modules are looked for beside its files, unless it says where; seen from here where they are below.

    Jobs read the resolved study, which is elsewhere.
    """
    section = study.get("extend")
    if not isinstance(section, dict) or "folders" in section:
        return study
    folders = dict.fromkeys(os.path.relpath(Path(file).parent) for file in files)
    beside = [os.path.abspath(folder) if folder.startswith(os.pardir) else folder for folder in folders]
    return {**study, "extend": {**section, "folders": beside}}
