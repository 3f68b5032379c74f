"""Reading a study file: every mistake becomes one line that names file, key and the nearest valid key."""

from __future__ import annotations

import json
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from hargo.config.study import Study, unknown
from hargo.errors import UserError


def load_study(path: str | Path, overrides: dict[str, Any] | None = None) -> Study:
    """Read and check a study file (YAML or JSON). `overrides` is merged over it, section by section."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{where}: not valid YAML ({getattr(error, 'problem', error)})") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: a study is a mapping with the key `name` and sections such as `data` and `rl`")
    return study_from(merge(value, overrides or {}), str(path))


def study_from(value: dict[str, Any], where: str) -> Study:
    """A study from a mapping; `where` names its origin in error messages."""
    try:
        return Study.model_validate(value)
    except ValidationError as error:
        raise UserError(f"{where}: {_first_problem(error)}") from None


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, mappings merged key by key, anything else replaced."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def study_schema() -> str:
    """The JSON schema of a study file, as kept in workflow/schemas/study.schema.json."""
    return json.dumps(Study.model_json_schema(), indent=2) + "\n"


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    location = problem["loc"]
    key = ".".join(str(part) for part in location)
    if problem["type"] == "extra_forbidden":
        return unknown(f"key in {'.'.join(map(str, location[:-1])) or 'the study'}", str(location[-1]), _keys(location))
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "missing":
        message = "is required"
    given = "" if problem["type"] in ("missing", "value_error") else f" (given {problem['input']!r:.60})"
    return f"{key}: {message}{given}" if key else message


def _keys(location: tuple[int | str, ...]) -> list[str]:
    """The keys allowed beside the last element of `location`."""
    model: Any = Study
    for part in location[:-1]:
        field = model.model_fields.get(str(part)) if isinstance(model, type) and issubclass(model, BaseModel) else None
        if field is None:
            return []
        model = field.annotation
        if get_origin(model) in (Union, UnionType):
            model = next(item for item in get_args(model) if item is not type(None))
    return list(model.model_fields)
