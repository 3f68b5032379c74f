"""Methods: pure functions from log-probabilities, rewards and masks to a loss. One file each."""

from __future__ import annotations

from hargo.config.methods import METHODS
from hargo.config.options import OptimOptions
from hargo.config.tables import resolve
from hargo.methods.base import Method


def load(name: str, options: OptimOptions) -> Method:
    """The method called `name` in the registry, with its resolved options."""
    return resolve(METHODS[name].module, "Method")(options)


__all__ = ["Method", "load"]
