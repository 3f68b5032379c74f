"""What a run learns from: the training rows of the study's tasks, encoded, within the run's limits."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from hargo import tasks
from hargo.config import Study
from hargo.config.options import OptimOptions, PostTrainingOptions
from hargo.data.protocols import limit, reserve
from hargo.data.records import load_rows
from hargo.models.encode import Example, encode

logger = logging.getLogger(__name__)


def answer_limit(task: str, limits: dict[str, int]) -> int:
    """Most new tokens for a task: the study's bound, else the task's own."""
    return limits.get(task) or tasks.load(task).max_new_tokens


def training_examples(study: Study, tokenizer: Any, data: Path, options: OptimOptions) -> list[Example]:
    """What a stage learns from: the rows of data/train.jsonl of the study's tasks, within the stage's limits.

    Where the study reserves a share of them for the methods after SFT, these get that share and the others the rest.
    """
    rows = [row for row in load_rows(data / "train.jsonl") if row.task in study.tasks]
    seed = study.data.split_seed
    if study.data.rl_share is not None:
        first, reserved = reserve(rows, study.data.rl_share, seed)
        rows = reserved if isinstance(options, PostTrainingOptions) else first
    rows = limit(rows, getattr(options, "train_limit", None), seed, "rl")
    return drop_long(encode(tokenizer, rows, study.model), options)


def drop_long(examples: list[Example], options: OptimOptions) -> list[Example]:
    """Examples whose prompt is within `max_prompt_tokens`; the log says how many were left out."""
    if options.max_prompt_tokens is None:
        return examples
    fitting = [example for example in examples if len(example.prompt) <= options.max_prompt_tokens]
    if len(fitting) < len(examples):
        logger.info(
            "%d of %d training prompts are longer than %d tokens and are left out",
            len(examples) - len(fitting),
            len(examples),
            options.max_prompt_tokens,
        )
    return fitting
