"""Pairs of answers: a model answers every prompt twice, the reward puts the better answer first."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hargo import provenance, tasks
from hargo.config import Study
from hargo.data.records import load_rows
from hargo.engine.pack import Group
from hargo.errors import UserError
from hargo.io import read_jsonl, write_json, write_jsonl
from hargo.models.encode import Example, answer_text
from hargo.models.load import deterministic, load_model, load_tokenizer, room_of
from hargo.rollout import Completion, Request, open_sampler
from hargo.training.examples import answer_limit, training_examples

logger = logging.getLogger(__name__)

_CHUNK = 128
TIE = 1e-6


def preferences(study: Study, seed: int, model: Path, data: Path, out: Path) -> None:
    """Sample two answers per training prompt from the model in `model` and write pairs.jsonl and run.json to `out`.

    A pair whose rewards differ by no more than 1e-6, or of which one is unusable, is dropped and counted; so is a
    prompt that leaves the model no room for its longest answer.
    """
    options = study.rl
    device = deterministic(study)
    tokenizer, policy = load_tokenizer(model), load_model(model, device, study.compute)
    began = time.monotonic()
    pairs: list[dict] = []
    counts: Counter[str] = Counter()
    examples, room = [], room_of(policy)
    for e in training_examples(study, tokenizer, data, options):
        if room is None or len(e.prompt) + answer_limit(e.row.task, options.max_new_tokens) <= room:
            examples.append(e)
        else:
            counts[f"{e.row.task}/too_long"] += 1
    with closing(open_sampler(options.sampler, policy, tokenizer)) as sampler:
        for start in range(0, len(examples), _CHUNK):
            part = examples[start : start + _CHUNK]
            requests = [
                Request(e.prompt, answer_limit(e.row.task, options.max_new_tokens), f"pairs/{seed}/{e.row.id}")
                for e in part
            ]
            answers = sampler.sample(requests, samples=2, temperature=options.temperature).completions
            for example, two in zip(part, answers, strict=True):
                outcome, pair = _ordered(example, two, tokenizer)
                counts[f"{example.row.task}/{outcome}"] += 1
                if pair is not None:
                    pairs.append(pair)
            done = start + len(part)
            left = (time.monotonic() - began) / done * (len(examples) - done)
            logger.info("%d of %d prompts, %d pairs, %.0f s left", done, len(examples), len(pairs), left)
    if not pairs:
        raise UserError(f"{model}: no two answers differ in reward; sample more prompts or raise rl.temperature")
    write_jsonl(out / "pairs.jsonl", pairs)
    write_json(out / "run.json", provenance.record(study, stage=f"preferences seed {seed}", seed=seed, pairs=counts))
    dropped = sum(value for key, value in counts.items() if not key.endswith("/kept"))
    logger.info("%d pairs in %s, %d dropped: %s", len(pairs), out / "pairs.jsonl", dropped, dict(counts))


def _ordered(example: Example, two: Sequence[Completion], tokenizer: Any) -> tuple[str, dict | None]:
    """What becomes of two answers to a prompt (`kept`, `tied` or `unusable`), and the pair if it is kept."""
    task = example.row.task
    texts = [answer_text(tokenizer, one.ids, one.ended) for one in two]
    first, second = tasks.rewards([task] * 2, texts, [example.row.answer] * 2)
    if first is None or second is None:
        return "unusable", None
    if abs(first - second) <= TIE:
        return "tied", None
    better = 0 if first > second else 1
    return "kept", {
        "id": example.row.id,
        "task": task,
        "chosen": texts[better],
        "rejected": texts[1 - better],
        "rewards": [max(first, second), min(first, second)],
        "ids": [two[better].ids, two[1 - better].ids],
    }


def load_pairs(folder: Path, examples: Sequence[Example], data: Path) -> list[Group]:
    """The pairs in `folder`, each with the prompt of its training row, chosen answer first.

    examples: what the method may learn from. Pairs of further rows of data/train.jsonl, which were made under wider
    limits than the method's own, are left out and counted in the log; a pair of an unknown row is an error.
    """
    prompts = {example.row.id: example.prompt for example in examples}
    path = folder / "pairs.jsonl"
    if not path.is_file():
        raise UserError(f"{path}: no such file; make it with `hargo preferences`")
    groups: list[Group] = []
    outside: dict[str, int] = {}
    pairs = read_jsonl(path)
    for number, pair in enumerate(pairs, 1):
        try:
            row, answers = str(pair["id"]), [list(map(int, ids)) for ids in pair["ids"]]
        except (KeyError, TypeError, ValueError):
            answers = []
        if len(answers) != 2:
            raise UserError(f"{path}: line {number}: not a pair with `id` and two lists in `ids`; make the file again")
        if row in prompts:
            groups.append(Group(prompts[row], answers))
        else:
            outside.setdefault(row, number)
    _check_outside(outside, path, data, len(pairs) - len(groups), len(pairs))
    if not groups:
        raise UserError(
            f"{path}: none of its {len(pairs)} pairs is of a row within this method's limits; "
            "widen its train_limit or max_prompt_tokens, or make the pairs again"
        )
    return groups


def _check_outside(outside: dict[str, int], path: Path, data: Path, skipped: int, total: int) -> None:
    """Rows with pairs that are not among a method's examples, and their lines: logged once, or refused as unknown."""
    if not outside:
        return
    known = {row.id for row in load_rows(data / "train.jsonl")}
    for row, number in outside.items():
        if row not in known:
            raise UserError(f"{path}: line {number}: {row} is not a training row; make the pairs from this data")
    logger.warning(
        "%d of %d pairs in %s are of training rows outside this method's limits (tasks, train_limit, "
        "max_prompt_tokens) and are left out",
        skipped,
        total,
        path,
    )
