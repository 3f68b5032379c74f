"""What is wrong with a study, in one line: which key, why, and the nearest one that is known."""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

#: keys and indices from the top of a study, or of a section, down to one of its values
Location = tuple[str, ...]

#: pydantic's kinds of errors whose own message speaks of Python
MESSAGES = {
    "missing": "is required",
    "model_type": "must be a section of keys and values",
    "dict_type": "must be a section of keys and values",
    "list_type": "must be a list, such as [0, 1]",
}


def unknown(kind: str, name: str, known: Any) -> str:
    """`unknown <kind> '<name>'; did you mean '<nearest>'?`, or the list of what is known if nothing is near."""
    import difflib

    names = [str(item) for item in known]
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    return f"unknown {kind} {name!r}; {hint}"


class KeyProblem(ValueError):
    """What a validator reports about one key, at `location` from the section that it validates."""

    def __init__(self, location: Location, message: str) -> None:
        super().__init__(message)
        self.location = location


def first_problem(error: ValidationError, model: type[BaseModel], section: Location = ()) -> tuple[Location, str]:
    """Location and text of the first of pydantic's errors on a `model` that stands at `section`.

    The text names the key; the location may be that of the section around it.
    """
    problem = error.errors()[0]
    inside = tuple(map(str, problem["loc"]))
    location = section + inside
    if problem["type"] == "extra_forbidden":
        where = f"key in {'.'.join(location[:-1]) or 'the study'}"
        return location, unknown(where, location[-1], _keys(model, inside[:-1]))
    message = MESSAGES.get(problem["type"], problem["msg"].removeprefix("Value error, "))
    cause = problem.get("ctx", {}).get("error")
    if problem["type"] not in ("missing", "value_error"):
        message += f" (given {problem['input']!r:.60})"
    text = f"{'.'.join(location)}: {message}" if location else message
    return location + (cause.location if isinstance(cause, KeyProblem) else ()), text


def _keys(model: Any, location: Location) -> list[str]:
    """The keys of the section at `location` below `model`."""
    for part in location:
        field = model.model_fields.get(part) if isinstance(model, type) and issubclass(model, BaseModel) else None
        if field is None:
            return []
        model = field.annotation
        if get_origin(model) in (Union, UnionType):
            model = next(item for item in get_args(model) if item is not type(None))
    return list(model.model_fields)
