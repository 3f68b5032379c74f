"""Generation for short answers to long prompts: every prompt is read once, whatever the number of samples.

A prompt's cache is expanded to its G samples, finished rows leave the batch, prompts of like length go together.
What is sampled is a function of (seed, step, prompt id, sample index) alone: each token is drawn by inverting the
cumulative distribution at a uniform number from that response's own stream, so batching does not change answers
(up to the rounding of the logits).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


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


@torch.no_grad()
def generate(
    model: Any,
    requests: Sequence[Request],
    *,
    stop: Sequence[int],
    pad: int,
    samples: int = 1,
    temperature: float | None = None,
    batch_tokens: int = 16384,
    batch_rows: int = 64,
) -> list[list[Completion]]:
    """Complete every prompt `samples` times; `temperature=None` is greedy.

    stop: ids that end an answer; batch_tokens, batch_rows: bounds on cache positions and rows decoded together.
    Returns completions [len(requests)][samples], in the order of the requests.
    """
    order = sorted(range(len(requests)), key=lambda i: len(requests[i].prompt))
    results: list[list[Completion]] = [[] for _ in requests]
    for batch in _batches(
        [len(requests[i].prompt) + requests[i].limit for i in order], samples, batch_tokens, batch_rows
    ):
        chosen = [order[k] for k in batch]
        part = _Batch(model, [requests[i] for i in chosen], samples, temperature, stop, pad).run()
        for i, completions in zip(chosen, part, strict=True):
            results[i] = completions
    return results


def _batches(lengths: list[int], samples: int, batch_tokens: int, batch_rows: int) -> list[list[int]]:
    """Consecutive runs of (sorted) prompts within the bounds; a run ends where padding would exceed a third."""
    batches: list[list[int]] = []
    for index, length in enumerate(lengths):
        current = batches[-1] if batches else None
        if current is not None:
            rows = len(current) + 1
            padding = sum(length - lengths[k] for k in current)
            fits = rows * samples <= batch_rows and rows * samples * length <= batch_tokens
            if fits and padding * 3 <= rows * length:
                current.append(index)
                continue
        batches.append([index])
    return batches


class _Batch:
    def __init__(
        self,
        model: Any,
        requests: list[Request],
        samples: int,
        temperature: float | None,
        stop: Sequence[int],
        pad: int,
    ):
        self.model, self.requests, self.samples, self.temperature = model, requests, samples, temperature
        self.device = model.device
        self.stop = torch.tensor(list(stop), device=self.device)
        self.pad = pad

    def run(self) -> list[list[Completion]]:
        requests, samples, device = self.requests, self.samples, self.device
        limits = torch.tensor([r.limit for r in requests], device=device).repeat_interleave(samples)
        logits, cache, mask = self._prefill()
        count = len(requests) * samples
        if samples > 1:
            cache.batch_repeat_interleave(samples)
            logits, mask = logits.repeat_interleave(samples, 0), mask.repeat_interleave(samples, 0)
        position = mask.sum(-1)
        longest = int(limits.max())
        noise = self._noise(longest)
        tokens = torch.full((count, longest), self.pad, device=device)
        logps = torch.zeros(count, longest, device=device)
        lengths = torch.zeros(count, dtype=torch.long, device=device)
        ended = torch.zeros(count, dtype=torch.bool, device=device)
        alive = torch.arange(count, device=device)  # batch row -> response; -1 once finished
        for step in range(longest):
            token, logp = self._pick(logits, None if noise is None else noise[alive.clamp(min=0).cpu(), step])
            active = alive >= 0
            rows = alive[active]
            tokens[rows, step], logps[rows, step] = token[active], logp[active]
            lengths[rows] = step + 1
            stopped = torch.isin(token, self.stop)
            ended[rows] = stopped[active]
            alive = torch.where(stopped | (limits[alive.clamp(min=0)] <= step + 1), -1, alive)
            remaining = (alive >= 0).nonzero().squeeze(-1)
            if not len(remaining):
                break
            if len(remaining) <= 0.75 * len(alive):  # copying the cache pays once a quarter of the rows is done
                cache.batch_select_indices(remaining)
                alive, token, mask, position = (x[remaining] for x in (alive, token, mask, position))
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=-1)
            output = self.model(
                input_ids=token.unsqueeze(-1),
                attention_mask=mask,
                position_ids=position.unsqueeze(-1),
                cache=cache,
                use_cache=True,
            )
            logits = output.logits[:, -1]
            position = position + 1
        return self._completions(tokens.tolist(), logps.tolist(), lengths.tolist(), ended.tolist())

    def _prefill(self) -> tuple[Tensor, Any, Tensor]:
        """Logits after each prompt [P, V], the cache, and the mask [P, S] of the left-padded prompts."""
        from transformers import DynamicCache

        width = max(len(r.prompt) for r in self.requests)
        ids = torch.tensor([[self.pad] * (width - len(r.prompt)) + r.prompt for r in self.requests], device=self.device)
        mask = torch.tensor(
            [[0] * (width - len(r.prompt)) + [1] * len(r.prompt) for r in self.requests], device=self.device
        )
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        cache = DynamicCache(config=self.model.config)
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            cache=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1], cache, mask

    def _noise(self, longest: int) -> Tensor | None:
        """Uniform numbers [rows, longest], on the CPU."""
        if self.temperature is None:
            return None
        rows = [uniforms(r.stream, sample, longest) for r in self.requests for sample in range(self.samples)]
        return torch.from_numpy(np.stack(rows))

    def _pick(self, logits: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        """Next tokens [rows] and their log-probabilities [rows] from logits [rows, V]."""
        logits = logits.float()
        if noise is None or self.temperature is None:
            token = logits.argmax(-1)
        else:
            logits = logits / self.temperature
            # on the CPU, since CUDA's cumulative sum is not deterministic
            cumulative = logits.double().softmax(-1).cpu().cumsum(-1)
            # the last entry may miss 1 by rounding: scale the draw, so that it always falls on a token
            draw = (noise * cumulative[:, -1]).unsqueeze(-1)
            token = torch.searchsorted(cumulative, draw, right=True).squeeze(-1).clamp(max=logits.shape[-1] - 1)
            token = token.to(self.device)
        logp = logits.gather(-1, token.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
        return token, logp

    def _completions(
        self, tokens: list[list[int]], logps: list[list[float]], lengths: list[int], ended: list[bool]
    ) -> list[list[Completion]]:
        flat = [Completion(t[:n], p[:n], e) for t, p, n, e in zip(tokens, logps, lengths, ended, strict=True)]
        return [flat[i : i + self.samples] for i in range(0, len(flat), self.samples)]
