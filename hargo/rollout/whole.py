"""Decoding without a cache: every token takes a pass over its whole text.

For models that keep no cache, or one that a program cannot handle. Nothing is padded: texts of one length go together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hargo.engine.inputs import known, last_logits
from hargo.rollout.draw import Writing
from hargo.rollout.request import Completion, Request


def complete(
    model: Any, requests: Sequence[Request], samples: int, temperature: float | None, stop: Sequence[int]
) -> list[list[Completion]]:
    """Completions [len(requests)][samples] of prompts of one length."""
    writing = Writing(requests, samples, temperature, stop)
    logits = read(model, [request.prompt for request in requests]).repeat_interleave(samples, 0)
    rows = list(range(len(writing.answers)))
    for step in range(writing.longest):
        writing.draw(logits, rows, step)
        rows = [row for row in rows if not writing.answers[row].done]
        if not rows:
            break
        answers = [writing.answers[row] for row in rows]
        logits = read(model, [answer.request.prompt + answer.ids for answer in answers])
    return writing.completions()


def read(model: Any, texts: Sequence[list[int]]) -> Tensor:
    """Logits after texts of one length, [texts, V]."""
    inputs = known(model, input_ids=torch.tensor(texts, device=model.device), use_cache=False, logits_to_keep=1)
    return last_logits(model(**inputs))
