"""Sampling answers. A backend is one module with a `generate` of the same signature as `hargo.rollout.generate`."""

from hargo.rollout.generate import generate
from hargo.rollout.sample import Completion, Request
from hargo.rollout.ways import can_sample

__all__ = ["Completion", "Request", "can_sample", "generate"]
