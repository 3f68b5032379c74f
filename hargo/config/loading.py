"""Reading a study file: every mistake becomes one line that names file, line, key and the nearest valid key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hargo.config.extend import with_folders
from hargo.config.problems import Location, first_problem
from hargo.config.study import Study
from hargo.config.text import read_mapping
from hargo.errors import UserError


def load_study(path: str | Path, overrides: dict[str, Any] | None = None) -> Study:
    """Read and check a study file (YAML or JSON). `overrides` is merged over it, section by section."""
    return load_merged([path], overrides or {})


def load_merged(paths: Sequence[str | Path], overrides: dict[str, Any]) -> Study:
    """A study in several files, each merged over those before it, and `overrides` over all."""
    value: dict[str, Any] = {}
    places: dict[Location, str] = {}
    for path in paths:
        more, lines = read_mapping(path)
        value, places = merge(value, more), places | lines
    where = " + ".join(map(str, paths))
    places |= dict.fromkeys(_locations(overrides), where)  # these are in no file
    return study_from(with_folders(merge(value, overrides), paths), where, places)


def study_from(value: dict[str, Any], where: str, places: dict[Location, str] | None = None) -> Study:
    """A study from a mapping; `where` names its origin in error messages, `places` that of single keys."""
    try:
        return Study.model_validate(value)
    except ValidationError as error:
        location, problem = first_problem(error, Study)
        while location and location not in (places or {}):
            location = location[:-1]
        raise UserError(f"{(places or {}).get(location, where)}: {problem}") from None


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, mappings merged key by key, anything else replaced."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def _locations(value: Any, above: Location = ()) -> Iterator[Location]:
    """The innermost keys of nested mappings."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _locations(inner, (*above, str(key)))
    elif above:
        yield above
