"""What can be named in a study. A new task, method or source is one new file and one line here.

Values are import paths, resolved only when used, so that reading a study never imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from hargo.config import options as o

#: task name -> module holding `TASK`
TASKS: dict[str, str] = {
    "race_c": "hargo.tasks.race_c",
    "race_fortran": "hargo.tasks.race_fortran",
    "mlperf": "hargo.tasks.mlperf",
    "plp": "hargo.tasks.plp",
}

#: data source name -> module holding `load(options, tasks) -> list[Row]`
SOURCES: dict[str, str] = {
    "embedded": "hargo.data.embedded",
    "hpcgpt": "hargo.data.hpcgpt",
    "hub": "hargo.data.hub",
}


class MethodSpec(NamedTuple):
    """Where a method lives, which options it takes and how this name sets them."""

    module: str
    options: type[o.RLOptions]
    preset: Mapping[str, Any] = MappingProxyType({})
    ablation: bool = False


#: method name -> module holding `Method`; several names may share one module with other presets
METHODS: dict[str, MethodSpec] = {
    "grpo": MethodSpec("hargo.methods.grpo", o.PolicyOptions),
    "dr_grpo": MethodSpec("hargo.methods.dr_grpo", o.DrGRPOOptions),
    "hargo": MethodSpec("hargo.methods.hargo", o.HargoOptions),
    "b1": MethodSpec("hargo.methods.hargo", o.HargoOptions, {"weighting": "d"}, ablation=True),
    "b2": MethodSpec("hargo.methods.hargo", o.HargoOptions, {"weighting": "c"}, ablation=True),
    "d_plus_c": MethodSpec("hargo.methods.hargo", o.HargoOptions, {"weighting": "d+c"}, ablation=True),
    "d_times_c": MethodSpec("hargo.methods.hargo", o.HargoOptions, {"weighting": "d*c"}, ablation=True),
}


def resolve(path: str, attribute: str) -> Any:
    """The object `attribute` of the module at import path `path`."""
    return getattr(import_module(path), attribute)
