"""What a model can do with packed rows, tried once, and the inputs that make it do so."""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from hargo.engine.attention import NAME, SDPA, implementation, inputs_of, switch_over
from hargo.engine.layout import Layout
from hargo.engine.tryout import Capability, try_out

logger = logging.getLogger(__name__)

_OF_MODEL: WeakKeyDictionary[Any, Capability] = WeakKeyDictionary()
_OF_KIND: dict[tuple[str, str | None, str], Capability] = {}


def capability(model: Any, device: str = "cpu") -> Capability:
    """How several sequences may be computed together by a model, or by one of a configuration.

    It depends on the architecture alone: each way is tried on a small copy of it, once in a process.
    model: a model or its configuration; device: its kind, for a configuration
    """
    if not hasattr(model, "config"):
        return _of_kind(model, device)
    if model not in _OF_MODEL:
        _OF_MODEL[model] = _of_kind(model.config, model.device.type)
    return _OF_MODEL[model]


def _of_kind(config: Any, device: str) -> Capability:
    name = implementation(config)
    name = SDPA if name == NAME else name
    kind = (config.to_json_string(), name, device)
    if kind not in _OF_KIND:
        _OF_KIND[kind] = try_out(config, name, layouts=device == "cpu")
    return _OF_KIND[kind]


_TOLD: WeakSet[Any] = WeakSet()


def packs(model: Any) -> bool:
    """Whether a packed row gives what its sequences give alone; logged once where it does not."""
    ability = capability(model)
    if not ability.packs and model not in _TOLD:
        _TOLD.add(model)
        logger.warning(
            "%s cannot compute packed rows: %s; every response is read with its own prompt, which is slower",
            type(model).__name__,
            ability.reason,
        )
    return ability.packs


def enable(model: Any) -> bool:
    """Have a model whose packed rows are right by a `Layout` use `attention`; whether it does.

    On a GPU a row stays one call with a dense mask: the launches of many small ones would take longer.
    """
    if capability(model).way != "layout":
        return False
    if implementation(model.config) != NAME:
        switch_over(model)
    return True


def for_attention(layout: Layout, model: Any) -> dict[str, Any]:
    """The layout as inputs of a model that packs."""
    enable(model)
    way = capability(model).way
    assert way is not None, "a model that does not pack"
    return inputs_of(layout, model, way)
