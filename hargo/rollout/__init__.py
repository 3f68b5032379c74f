"""Sampling answers. A sampler is one module, see `hargo.rollout.sampler`, and one line in the registry."""

from hargo.rollout.request import Completion, Request, Rollout
from hargo.rollout.sampler import Sampler, can_sample, open_sampler

__all__ = ["Completion", "Request", "Rollout", "Sampler", "can_sample", "open_sampler"]
