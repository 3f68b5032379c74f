"""Decoding of left-padded rows through transformers' own cache, for models whose attention cannot be exchanged.

A prompt's cache is expanded to its G samples, finished rows leave the batch, prompts of like length go together.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hargo.rollout.sample import Completion, Request, pick, uniforms


def complete(
    model: Any,
    requests: Sequence[Request],
    samples: int,
    temperature: float | None,
    stop: Sequence[int],
    pad: int,
) -> list[list[Completion]]:
    """Completions [len(requests)][samples] of prompts decoded together."""
    return _Batch(model, list(requests), samples, temperature, stop, pad).run()


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
        past = cache_argument(cache)
        longest = int(limits.max())
        noise = self._noise(longest)
        tokens = torch.full((count, longest), self.pad, device=device)
        logps = torch.zeros(count, longest, device=device)
        lengths = torch.zeros(count, dtype=torch.long, device=device)
        ended = torch.zeros(count, dtype=torch.bool, device=device)
        alive = torch.arange(count, device=device)  # batch row -> response; -1 once finished
        for step in range(longest):
            drawn = None if noise is None else noise[alive.clamp(min=0).cpu(), step]
            token, logp = pick(logits, drawn, self.temperature)
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
                use_cache=True,
                **past,
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
            use_cache=True,
            logits_to_keep=1,
            **cache_argument(cache),
        )
        assert cache.get_seq_length() == width, "the model keeps no cache under the name it was given"
        return output.logits[:, -1], cache, mask

    def _noise(self, longest: int) -> Tensor | None:
        """Uniform numbers [rows, longest], on the CPU."""
        if self.temperature is None:
            return None
        rows = [uniforms(r.stream, sample, longest) for r in self.requests for sample in range(self.samples)]
        return torch.from_numpy(np.stack(rows))

    def _completions(
        self, tokens: list[list[int]], logps: list[list[float]], lengths: list[int], ended: list[bool]
    ) -> list[list[Completion]]:
        flat = [Completion(t[:n], p[:n], e) for t, p, n, e in zip(tokens, logps, lengths, ended, strict=True)]
        return [flat[i : i + self.samples] for i in range(0, len(flat), self.samples)]


def cache_argument(cache: Any) -> dict[str, Any]:
    """The cache under the name it has in the transformers at hand; models swallow a name they do not know."""
    from transformers import LlamaForCausalLM

    known = signature(LlamaForCausalLM.forward).parameters
    return {"cache" if "cache" in known else "past_key_values": cache}
