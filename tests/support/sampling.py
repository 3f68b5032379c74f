"""Sampling without a tokenizer, as many tests want it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hargo.rollout import Completion, Request
from hargo.rollout.built_in import BuiltIn


def generate(
    model: Any,
    requests: Sequence[Request],
    *,
    stop: Sequence[int],
    pad: int | None = None,
    samples: int = 1,
    temperature: float | None = None,
    **bounds: int,
) -> list[list[Completion]]:
    """Completions of the built-in sampler, [requests][samples]; `bounds`: its own on what is decoded together."""
    sampler = BuiltIn(model, stop, pad, **bounds)
    return sampler.sample(requests, samples=samples, temperature=temperature).completions
