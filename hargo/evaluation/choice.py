"""P(yes) against P(no): one forward pass to the first token of the answer."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hargo import tasks
from hargo.data.programs import LABELS
from hargo.engine.prompts import next_logits

logger = logging.getLogger(__name__)

#: natural logarithms of the probabilities that the answer begins as `yes` or `no` does
Choice = dict[str, float]

#: stands for the logarithm of 0
IMPOSSIBLE = -1000.0


def is_yes_no(task: str) -> bool:
    """Whether the answers to a task are yes and no, with yes the positive class."""
    return tasks.load(task).positive == LABELS[0]


def p_yes(choice: Mapping[str, float]) -> float:
    """P(yes) among the two labels, whatever else the model might have answered.

    >>> round(p_yes({"yes": -0.2231, "no": -1.6094}), 3)
    0.8
    """
    return 1 / (1 + math.exp(min(700.0, choice["no"] - choice["yes"])))


def first_tokens(tokenizer: Any) -> dict[str, list[int]] | None:
    """Label -> ids that an answer beginning with it may begin with; None where the labels share one."""
    tokens = {}
    for label in LABELS:
        ids = tokenizer([label, label.capitalize()], add_special_tokens=False)["input_ids"]
        tokens[label] = sorted({one[0] for one in ids})
    return None if set(tokens["yes"]) & set(tokens["no"]) else tokens


@torch.no_grad()
def choices(model: Any, tokenizer: Any, prompts: Sequence[list[int]], batch_rows: int = 32) -> list[Choice | None]:
    """Per prompt (token ids) the log-probabilities of `yes` and `no` at the first token of the answer.

    Rounded to 4 decimals, since the last bits depend on which prompts share a batch. None for a tokenizer whose
    labels begin with the same token, and for a prompt whose logits are not numbers. A label that cannot begin the
    answer at all has `IMPOSSIBLE`, since JSON has no infinity.
    """
    tokens = first_tokens(tokenizer)
    if tokens is None:
        logger.warning("yes and no begin with the same token, so there is no P(yes) and no calibration")
        return [None] * len(prompts)
    log_probabilities: list[Choice | None] = [None] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for start in range(0, len(order), batch_rows):
        part = order[start : start + batch_rows]
        logp = next_logits(model, [prompts[i] for i in part], tokenizer.pad_token_id).float().log_softmax(-1)
        for i, row in zip(part, logp, strict=True):
            logs = {label: float(row[ids].logsumexp(-1)) for label, ids in tokens.items()}
            if not any(map(math.isnan, logs.values())):
                log_probabilities[i] = {label: round(max(value, IMPOSSIBLE), 4) for label, value in logs.items()}
    return log_probabilities
