"""Batches of random log-probabilities that tests of methods share."""

from __future__ import annotations

import dataclasses

import torch

from hargo.config import METHODS
from hargo.methods import load
from hargo.methods.base import Signals, Tokens


def signals(rewards, confidence=None, valid=None, lengths=None):
    rewards = torch.as_tensor(rewards, dtype=torch.float32)
    valid = torch.ones_like(rewards, dtype=torch.bool) if valid is None else torch.as_tensor(valid)
    confidence = torch.zeros_like(rewards) if confidence is None else torch.as_tensor(confidence, dtype=torch.float32)
    lengths = torch.ones_like(rewards) if lengths is None else torch.as_tensor(lengths).view_as(rewards)
    return Signals(rewards, valid, confidence, lengths=lengths)


def tokens(lengths, groups=1, advantages=None, weights=None, seed=0, width=None, requires_grad=True):
    """Random log-probabilities for responses of these lengths; old = current, reference nearby."""
    generator = torch.Generator().manual_seed(seed)
    width = width or max(lengths)
    mask = torch.arange(width)[None] < torch.tensor(lengths)[:, None]
    shape, extra = (len(lengths), max(lengths)), width - max(lengths)
    values = -torch.rand(shape, generator=generator) * 3
    below = values - 0.3 * torch.rand(shape, generator=generator)
    # padding columns hold junk that no loss may look at
    logp = torch.nn.functional.pad(values, (0, extra), value=-9.0).requires_grad_(requires_grad)
    reference = torch.nn.functional.pad(below, (0, extra), value=-2.0)
    return Tokens(
        logp=logp,
        mask=mask,
        groups=groups,
        total_tokens=sum(lengths),
        old_logp=logp.detach().clone(),
        ref_logp=reference,
        advantages=None if advantages is None else torch.as_tensor(advantages, dtype=torch.float32),
        weights=None if weights is None else torch.as_tensor(weights, dtype=torch.float32),
    )


POLICY = [name for name, spec in METHODS.items() if spec.trainer == "rollouts"]
REWARDS = [[1.0, 0.0], [0.2, 0.9], [0.0, 0.3]]
CONFIDENCE = [[-1.0, -2.0], [-0.5, -0.1], [-3.0, -1.0]]
LENGTHS = [3, 1, 5, 2, 4, 4]


def prepared(name, rewards=REWARDS, confidence=CONFIDENCE, lengths=LENGTHS, width=None, seed=0, valid=None, **options):
    """A method and a batch for it: three groups of two, with what the method asks for."""
    spec = METHODS[name]
    method = load(name, spec.options(**{**spec.preset, **options}))
    part = tokens(lengths, groups=len(rewards), width=width, seed=seed)
    part = dataclasses.replace(part, reference_point=0.7 if method.mismatched else 0.0)
    if spec.trainer != "rollouts":
        return method, part
    given = signals(rewards, confidence, valid, lengths)
    if method.critic:
        generator = torch.Generator().manual_seed(seed + 1)
        values = torch.rand(len(lengths), max(lengths), generator=generator)
        values = torch.nn.functional.pad(values, (0, part.mask.shape[1] - max(lengths)), value=5.0)
        shape = (len(rewards), -1, part.mask.shape[1])
        given = dataclasses.replace(given, values=values.view(shape), mask=part.mask.view(shape))
    shares = method.shares(given)
    part = dataclasses.replace(part, advantages=shares.advantages.flatten(0, 1), weights=shares.weights.flatten())
    if method.critic:
        part = dataclasses.replace(
            part, values=values.clone().requires_grad_(), old_values=values, returns=shares.returns.flatten(0, 1)
        )
    return method, part


def rows_of(whole, leaf, rows):
    """Some responses of a batch, with `leaf` for its log-probabilities and the whole batch's denominators."""
    parts = {
        field.name: getattr(whole, field.name)[rows]
        for field in dataclasses.fields(Tokens)
        if isinstance(getattr(whole, field.name), torch.Tensor)
    }
    return dataclasses.replace(whole, **{**parts, "logp": leaf[rows]})
