"""How a token is drawn, and the answers that tokens make.

A token is drawn by inverting the cumulative distribution at a uniform number from its response's own stream, so that
what is sampled is a function of (seed, step, prompt id, sample index) alone, up to the rounding of the logits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hargo.errors import UserError
from hargo.rollout.request import Completion, Request

BLOCK = 256


class Answer:
    """An answer being written: the `sample`-th of a request."""

    def __init__(self, request: Request, sample: int):
        self.request, self.sample = request, sample
        self.ids: list[int] = []
        self.logp: list[float] = []
        self.ended = False

    def add(self, token: int, logp: float, ended: bool) -> None:
        self.ids.append(token)
        self.logp.append(logp)
        self.ended = ended

    @property
    def done(self) -> bool:
        return self.ended or len(self.ids) >= self.request.limit

    @property
    def completion(self) -> Completion:
        return Completion(self.ids, self.logp, self.ended)


class Writing:
    """The answers to requests, written token by token: request by request, `samples` of each."""

    def __init__(
        self, requests: Sequence[Request], samples: int, temperature: float | None, stop: Sequence[int]
    ) -> None:
        self.answers = [Answer(request, sample) for request in requests for sample in range(samples)]
        self.samples, self.temperature, self.stop = samples, temperature, frozenset(stop)
        self.longest = max(request.limit for request in requests)
        self._noise = None
        if temperature is not None:
            rows = [uniforms(answer.request.stream, answer.sample, self.longest) for answer in self.answers]
            self._noise = torch.from_numpy(np.stack(rows))

    def draw(self, logits: Tensor, rows: Sequence[int], step: int) -> Tensor:
        """The next token of each answer in `rows` from its logits [rows, V]; a finished answer's is not kept."""
        token, logp = pick(logits, None if self._noise is None else self._noise[list(rows), step], self.temperature)
        for row, new, value in zip(rows, token.tolist(), logp.tolist(), strict=True):
            if not self.answers[row].done:
                self.answers[row].add(new, value, new in self.stop)
        return token

    def completions(self) -> list[list[Completion]]:
        """[requests][samples]"""
        flat = [answer.completion for answer in self.answers]
        return [flat[i : i + self.samples] for i in range(0, len(flat), self.samples)]


def uniforms(stream: str, sample: int, count: int) -> np.ndarray:
    """`count` numbers in [0, 1) that depend on stream and sample index only: float64 [count]."""
    digest = hashlib.blake2b(f"{stream}/{sample}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little"))).random(count)


def pick(logits: Tensor, noise: Tensor | None, temperature: float | None) -> tuple[Tensor, Tensor]:
    """Next tokens [rows] and their log-probabilities [rows] from logits [rows, V].

    noise: uniform numbers [rows] on the CPU, or None for the most likely token, as is a temperature of None
    A logit of -inf, as of ids that only fill up the vocabulary, is never picked. UserError where logits of a row are
    NaN, +inf or all -inf: they do not make a distribution.
    """
    logits = logits.float()
    if noise is None or temperature is None:
        token, normaliser = logits.argmax(-1), logits.logsumexp(-1)
        _check(normaliser)
        return token, logits.gather(-1, token.unsqueeze(-1)).squeeze(-1) - normaliser
    scaled = logits / temperature
    largest = scaled.amax(-1, keepdim=True)
    weight = (scaled - largest).exp_()
    # the sum up to every block in double precision, then the block that the draw falls into: one pass, not four
    blocks = F.pad(weight, (0, -weight.shape[-1] % BLOCK)).view(len(weight), -1, BLOCK)
    # on the CPU, since CUDA's cumulative sum is not deterministic
    upto = blocks.sum(-1, dtype=torch.float64).cpu().cumsum(-1)
    _check(upto[:, -1])
    draw = noise.unsqueeze(-1) * upto[:, -1:] * (1 - 2**-52)
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


def _check(totals: Tensor) -> None:
    if not totals.isfinite().all():
        raise UserError(
            "the model's logits are not finite: its weights are damaged or training diverged; lower learning_rate"
        )


def _find(upto: Tensor, draw: Tensor) -> Tensor:
    """Index of the first entry above the draw: [rows, n], [rows, 1] -> [rows, 1]."""
    return torch.searchsorted(upto, draw, right=True).clamp(max=upto.shape[-1] - 1)
