"""Sampling answers. A backend is one module with a `generate` of the same signature as `hargo.rollout.generate`."""

from hargo.rollout.generate import Completion, Request, generate

__all__ = ["Completion", "Request", "generate"]
