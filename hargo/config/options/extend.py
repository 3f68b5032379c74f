"""Code from outside this package that a study names."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from hargo.config.options.base import Location, Options

_MODULE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"


def _names_code(value: str) -> str:
    if not re.fullmatch(rf"{_MODULE}(:[A-Za-z_]\w*)?", value) or value.partition(":")[0].endswith(".py"):
        raise ValueError(f"{value!r} names no code; write MODULE:NAME, such as my_task:TASK, without folder and .py")
    return value


Code = Annotated[str, AfterValidator(_names_code)]


class ExtendOptions(Options):
    """Code from outside hargo, by the name that the study has for it. Reading the study imports it."""

    tasks: dict[str, Code] = Field(default_factory=dict, description="Tasks: {summary: my_task:TASK}.")
    sources: dict[str, Code] = Field(default_factory=dict, description="Data sources, by module: {mine: my_source}.")
    samplers: dict[str, Code] = Field(default_factory=dict, description="Samplers, by module: {mine: my_sampler}.")
    trainers: dict[str, Code] = Field(default_factory=dict, description="Trainers: {mine: my_trainer:TRAINER}.")
    methods: dict[str, Code] = Field(default_factory=dict, description="Methods: {mine: my_method:METHOD}.")
    folders: list[Location] = Field(
        [],
        description="Folders to look for modules in, after Python's path; by default that of the study file.",
    )
