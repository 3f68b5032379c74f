"""Base of all sections of a study, and types that they share."""

from __future__ import annotations

import os
from typing import Annotated, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from hargo.config.problems import KeyProblem

#: what NumPy, scikit-learn and torch all take
Seed = Annotated[int, Field(ge=0, lt=2**32)]
#: a path or a hub id; `~` is the home folder, since neither YAML nor Snakemake expands it
Location = Annotated[str, StringConstraints(min_length=1), AfterValidator(os.path.expanduser)]


def _distinct(names: list[str]) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is listed twice")
    return names


Names = Annotated[list[str], AfterValidator(_distinct)]


class BelongsTo(NamedTuple):
    """Beside a field: it counts only where the key `key` of the same section has one of `values`.

    others: values that it does not count for; it may count for any that is in neither, such as a source of one's own
    """

    key: str
    values: tuple[str, ...]
    others: tuple[str, ...] | None = None

    def allows(self, value: str) -> bool:
        return value in self.values or (self.others is not None and value not in self.others)


class Options(BaseModel):
    """Base of every section: unknown keys are errors, and so are keys that would be ignored.

    Types are strict (`true` is no number, `"3"` neither), numbers are finite, values are fixed once read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> Self:
        """A resolved study states every key, so one that says what it says by default is let through."""
        ignored: dict[str, list[tuple[str, BelongsTo]]] = {}
        for name in sorted(self.model_fields_set):
            field = type(self).model_fields[name]
            broken = [
                rule
                for rule in field.metadata
                if isinstance(rule, BelongsTo) and not rule.allows(getattr(self, rule.key))
            ]
            if broken and getattr(self, name) != field.get_default(call_default_factory=True):
                for rule in broken:
                    ignored.setdefault(rule.key, []).append((name, rule))
        for key, rules in ignored.items():
            meant = [value for value in rules[0][1].values if all(value in rule.values for _, rule in rules)]
            names = " and ".join(f"`{name}`" for name, _ in rules)
            chosen = repr(getattr(self, key)) + ("" if key in self.model_fields_set else ", the default")
            choice = f"write `{key}: {meant[0]}`" if len(meant) == 1 else f"set `{key}` to one of {', '.join(meant)}"
            raise KeyProblem(
                (rules[0][0],),
                f"{names} would be ignored, since {key} is {chosen}; {choice}, or delete the key",
            )
        return self
