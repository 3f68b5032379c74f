"""What is asked for, what comes back, and how a token is drawn.

A token is drawn by inverting the cumulative distribution at a uniform number from its response's own stream, so that
what is sampled is a function of (seed, step, prompt id, sample index) alone, up to the rounding of the logits.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 256


@dataclass(frozen=True)
class Request:
    """prompt: token ids; limit: most new tokens; stream: what the sampling of this prompt depends on."""

    prompt: list[int]
    limit: int
    stream: str = ""


@dataclass(frozen=True)
class Completion:
    """ids: sampled tokens, ending with a stop id if `ended`; logp: of each, at the sampling temperature."""

    ids: list[int]
    logp: list[float]
    ended: bool


def uniforms(stream: str, sample: int, count: int) -> np.ndarray:
    """`count` numbers in [0, 1) that depend on stream and sample index only: float64 [count]."""
    digest = hashlib.blake2b(f"{stream}/{sample}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little"))).random(count)


def pick(logits: Tensor, noise: Tensor | None, temperature: float | None) -> tuple[Tensor, Tensor]:
    """Next tokens [rows] and their log-probabilities [rows] from logits [rows, V].

    noise: uniform numbers [rows] on the CPU, or None for the most likely token, as is a temperature of None
    """
    logits = logits.float()
    if noise is None or temperature is None:
        token = logits.argmax(-1)
        return token, logits.gather(-1, token.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
    scaled = logits / temperature
    largest = scaled.amax(-1, keepdim=True)
    weight = (scaled - largest).exp_()
    # the sum up to every block in double precision, then the block that the draw falls into: one pass, not four
    blocks = F.pad(weight, (0, -weight.shape[-1] % BLOCK)).view(len(weight), -1, BLOCK)
    # on the CPU, since CUDA's cumulative sum is not deterministic
    upto = blocks.sum(-1, dtype=torch.float64).cpu().cumsum(-1)
    draw = noise.unsqueeze(-1) * upto[:, -1:]
    block = _find(upto, draw)
    rows = torch.arange(len(weight))
    inside = blocks[rows, block.squeeze(-1)].cpu().double().cumsum(-1)
    before = F.pad(upto, (1, 0)).gather(-1, block)
    # by rounding the sum of a block may differ from that of its parts: the draw stays within it
    token = block * BLOCK + _find(inside, torch.minimum(draw - before, inside[:, -1:] * (1 - 2**-52)))
    token = token.clamp(max=logits.shape[-1] - 1).to(logits.device)
    total = upto[:, -1].log().to(logits.device)
    logp = (scaled.gather(-1, token) - largest).squeeze(-1).double() - total
    return token.squeeze(-1), logp.float()


def _find(upto: Tensor, draw: Tensor) -> Tensor:
    """Index of the first entry above the draw: [rows, n], [rows, 1] -> [rows, 1]."""
    return torch.searchsorted(upto, draw, right=True).clamp(max=upto.shape[-1] - 1)
