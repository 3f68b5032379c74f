"""Responses read apart, each behind its own prompt, for models that cannot take a packed row.

Rows are padded on the right: what comes later cannot be seen, so that no causal model, with a state or without, needs
to know of the padding, and every one numbers its places from 0 by itself. The rows of a pass are bounded by what they
compute, padding included; a group that is more than that is computed in parts, and again in the backward pass, so that
no more than one part's activations are ever kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hargo.engine.inputs import keywords


@dataclass(frozen=True)
class Rows:
    """B rows of N tokens with S scored ones.

    ids: [B, N]; keep: [K], places whose logits some row needs; kept: [B, K], which of them a row does
    targets, slots: [S], the scored tokens and their places in a flattened matrix, in the order of `kept`
    """

    ids: Tensor
    keep: Tensor
    kept: Tensor
    targets: Tensor
    slots: Tensor


def batches(texts: Sequence[tuple[list[int], list[int]]], most: int | None) -> list[list[int]]:
    """Numbers of the texts (prompt, response) that are computed together, in falling length."""
    order = sorted(range(len(texts)), key=lambda i: (-sum(map(len, texts[i])), i))
    parts: list[list[int]] = []
    for number in order:
        longest = sum(map(len, texts[parts[-1][0]])) if parts else 0
        if parts and (most is None or (len(parts[-1]) + 1) * longest <= most):
            parts[-1].append(number)
        else:
            parts.append([number])
    return parts


def lay_out(
    texts: Sequence[tuple[list[int], list[int]]], numbers: Sequence[int], width: int, device: torch.device
) -> Rows:
    """Those of the texts in `numbers`; `width`: of the flattened matrix with a row for each of all texts."""
    chosen = [texts[i] for i in numbers]
    longest = max(len(prompt) + len(response) for prompt, response in chosen)
    # the last token of a response predicts nothing, and any token serves as padding
    full = [[*prompt, *response] for prompt, response in chosen]
    ids = torch.tensor([text + text[:1] * (longest - len(text)) for text in full])[:, : max(1, longest - 1)]
    scored = torch.zeros(ids.shape, dtype=torch.bool)
    for row, (prompt, response) in enumerate(chosen):
        scored[row, len(prompt) - 1 : len(prompt) + len(response) - 1] = True
    keep = scored.any(0).nonzero()[:, 0]
    targets = [token for _, response in chosen for token in response]
    slots = [n * width + k for n, (_, response) in zip(numbers, chosen, strict=True) for k in range(len(response))]
    tensors = (
        ids,
        keep,
        scored[:, keep],
        torch.tensor(targets, dtype=torch.long),
        torch.tensor(slots, dtype=torch.long),
    )
    return Rows(*(x.to(device) for x in tensors))


def read(model: Any, ids: Tensor, keep: Tensor, states: bool, **inputs: Any) -> tuple[Tensor, Tensor | None]:
    """Logits [B, K, V] at the places `keep` of every row, and what the output layer computed them from, if `states`."""
    seen: list[Tensor] = []
    hook = None
    if states:
        hook = model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    known = keywords(model)
    if "use_cache" in known or "**" in known:
        inputs["use_cache"] = False
    early = "logits_to_keep" in known
    if early:
        inputs["logits_to_keep"] = keep
    try:
        logits = model(input_ids=ids, **inputs).logits
    finally:
        if hook is not None:
            hook.remove()
    outputs = [logits, *seen] if early else [x[:, keep] for x in (logits, *seen)]
    return outputs[0], outputs[1] if states else None
