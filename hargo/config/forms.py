"""What people write and mean: short forms of a study, and keys in the wrong section, told where they belong."""

from __future__ import annotations

from typing import Any

from hargo.config import options as o
from hargo.config.methods import METHODS
from hargo.config.problems import KeyProblem

#: sections that stand for their defaults where nothing is below them
SECTIONS = ("extend", "data", "model", "sft", "rl", "methods", "sweep", "evaluation", "report", "compute", "prefetch")


def spelled_out(study: dict[str, Any]) -> dict[str, Any]:
    """A study with its short forms written out: empty sections, `methods: [grpo, hargo]`, `sft: false`.

    KeyProblem for `seeds: 3`, and for a method's option that is in `rl`.
    """
    value = {key: item for key, item in study.items() if not (key in SECTIONS and item is None)}
    methods = value.get("methods")
    if isinstance(methods, str):
        methods = [methods]
    if isinstance(methods, list) and all(isinstance(name, str) for name in methods):
        value["methods"] = {name: {} for name in methods}
    if value.get("sft") is False:
        value["sft"] = None
    seeds = value.get("seeds")
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        raise KeyProblem(("seeds",), f"seeds: write a list: [{seeds}] for one seed, or [0, 1, 2] for three")
    if isinstance(value.get("rl"), dict):
        _check_shared(value["rl"])
    return value


def _check_shared(rl: dict[str, Any]) -> None:
    """KeyProblem where `rl` has a key that only some methods know."""
    for key in rl:
        if key in o.RLOptions.model_fields:
            continue
        owners = [name for name, spec in METHODS.items() if key in spec.options.model_fields and not spec.preset]
        if owners:
            places = " or ".join(f"methods.{name}" for name in owners[:3])
            raise KeyProblem(("rl", key), f"rl.{key}: not all methods know this key; it belongs to {places}")
