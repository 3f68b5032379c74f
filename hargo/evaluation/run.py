"""Greedy answers to the evaluation rows, each judged and rewarded: predictions.jsonl, metrics.json, run.json."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hargo import provenance, tasks
from hargo.config import Study
from hargo.data.perturb import KINDS, perturb
from hargo.data.programs import LANGUAGES
from hargo.data.records import Row, load_rows
from hargo.errors import UserError
from hargo.evaluation import predictions as files
from hargo.evaluation.metrics import summarise
from hargo.evaluation.predictions import Answer, Prediction
from hargo.io import write_json

if TYPE_CHECKING:
    from hargo.evaluation.choice import Choice

logger = logging.getLogger(__name__)


def evaluate(study: Study, model: Path, data: Path, out: Path) -> None:
    """Answer data/eval.jsonl with the model folder `model` and write the results to the folder `out`."""
    rows = [row for row in load_rows(data / "eval.jsonl") if row.task in study.tasks]
    if not rows:
        raise UserError(f"{data / 'eval.jsonl'}: no evaluation rows for the study's tasks {', '.join(study.tasks)}")
    predictions = answer(study, model, rows, perturbed=study.evaluation.perturb)
    out.mkdir(parents=True, exist_ok=True)
    files.write(out / "predictions.jsonl", predictions)
    write_json(out / "metrics.json", summarise(predictions))
    write_json(out / "run.json", provenance.record(study, stage="evaluate", model=str(model)))
    logger.info("predictions in %s, figures in %s", out / "predictions.jsonl", out / "metrics.json")


def answer(study: Study, model: Path, rows: Sequence[Row], perturbed: bool = False) -> list[Prediction]:
    """Predictions of the model folder `model` in the order of the rows.

    A row that the model's context has no room for, prompt and longest answer together, gets no answer: it is
    marked `too_long` and judged undecided.

    perturbed: also evaluate rewritten programs (`hargo.data.perturb`), for P(yes) alone
    """
    from hargo.evaluation.choice import choices, is_yes_no
    from hargo.models.encode import encode
    from hargo.models.load import deterministic, load_model, load_tokenizer, room_of
    from hargo.rollout import Request
    from hargo.training.examples import answer_limit

    device = deterministic(study)
    tokenizer = load_tokenizer(model)
    policy = load_model(model, device, study.compute)
    limits, room = study.evaluation.max_new_tokens, room_of(policy)
    requests = [
        Request(example.prompt, answer_limit(example.row.task, limits))
        for example in encode(tokenizer, rows, study.model)
    ]
    fitting = [i for i, r in enumerate(requests) if room is None or len(r.prompt) + r.limit <= room]
    answers: list[dict[str, Any]] = [{"output": "", "too_long": True} for _ in rows]
    if len(fitting) < len(rows):
        logger.warning(
            "%d of %d rows count as undecided: with their answers they exceed the %s tokens that the model takes",
            len(rows) - len(fitting),
            len(rows),
            room,
        )
    for i, decoded in zip(fitting, _decode(study, policy, tokenizer, [requests[i] for i in fitting]), strict=True):
        answers[i] = decoded
    yes_no = [i for i in fitting if is_yes_no(rows[i].task)]
    prompts = [requests[i].prompt for i in yes_no]
    for i, choice in zip(yes_no, choices(policy, tokenizer, prompts, study.evaluation.batch_size), strict=True):
        answers[i]["choice"] = choice
    if perturbed:
        programs = [i for i in yes_no if rows[i].task in LANGUAGES]
        for i, kind, choice in _perturbed(study, policy, tokenizer, rows, programs):
            answers[i].setdefault("perturbed", {})[kind] = choice
    return judge(rows, [a["output"] for a in answers], answers)


def _decode(study: Study, policy: Any, tokenizer: Any, requests: list[Any]) -> list[dict[str, Any]]:
    """Greedy answers in the order of the requests."""
    from hargo.models.encode import answer_text
    from hargo.rollout import open_sampler

    answers: list[dict[str, Any]] = [{} for _ in requests]
    order = sorted(range(len(requests)), key=lambda i: len(requests[i].prompt))
    chunk = study.evaluation.batch_size * 4  # a few batches, so that similar lengths are together and progress shows
    opened = open_sampler(study.rl.sampler, policy, tokenizer, batch_rows=study.evaluation.batch_size)
    with closing(opened) as sampler:
        for start in range(0, len(order), chunk):
            part = order[start : start + chunk]
            completions = sampler.sample([requests[i] for i in part]).completions
            for i, (completion,) in zip(part, completions, strict=True):
                text = answer_text(tokenizer, completion.ids, completion.ended)
                answers[i] = {"output": text, "tokens": len(completion.ids), "truncated": not completion.ended}
            logger.info("evaluated %d of %d rows", start + len(part), len(order))
    return answers


def _perturbed(
    study: Study, policy: Any, tokenizer: Any, rows: Sequence[Row], programs: Sequence[int]
) -> Iterator[tuple[int, str, Choice]]:
    """(row, kind of change, choice) for every change of these rows' programs that can be made and fits the model."""
    from hargo.evaluation.choice import choices
    from hargo.models.encode import encode
    from hargo.models.load import room_of

    changed = [(i, kind, row) for i in programs for kind in KINDS if (row := perturb(rows[i], kind)) is not None]
    prompts = [example.prompt for example in encode(tokenizer, [row for _, _, row in changed], study.model)]
    room = room_of(policy)
    fits = [k for k, prompt in enumerate(prompts) if room is None or len(prompt) < room]
    log_probabilities = choices(policy, tokenizer, [prompts[k] for k in fits], study.evaluation.batch_size)
    for k, choice in zip(fits, log_probabilities, strict=True):
        if choice is not None:
            yield changed[k][0], changed[k][1], choice


def judge(rows: Sequence[Row], outputs: Sequence[str], extra: Sequence[dict[str, Any]]) -> list[Prediction]:
    """Predictions in the order of the rows: the task's reward, and its judgement, which never looks at the reward.

    extra: per row what else is known of the answer. `too_long` leaves a row undecided whatever the task makes of an
    empty answer. What a task of its own gives as a reward or score that is not a finite number is None or 0.
    """
    predictions: dict[int, Prediction] = {}
    rewards = tasks.rewards([row.task for row in rows], outputs, [row.answer for row in rows])
    for name in sorted({row.task for row in rows}):
        mine = [i for i, row in enumerate(rows) if row.task == name]
        verdicts = tasks.load(name).judge([outputs[i] for i in mine], [rows[i].answer for i in mine])
        odd = sum(not math.isfinite(v) for verdict in verdicts for v in verdict.scores.values())
        lost = sum(rewards[i] is None for i in mine)
        if odd or lost:
            logger.warning("%s: %d answers have no usable reward, %d scores are not finite numbers", name, lost, odd)
        for i, verdict in zip(mine, verdicts, strict=True):
            reward = rewards[i]
            if extra[i].get("too_long"):
                reward, verdict = 0.0, replace(verdict, parsed=None, correct=False)
            judged_answer = Answer(
                output=outputs[i],
                reward=reward,
                parsed=verdict.parsed,
                correct=bool(verdict.correct),
                scores={key: float(v) if math.isfinite(v) else 0.0 for key, v in verdict.scores.items()},
                tokens=extra[i].get("tokens"),
                truncated=extra[i].get("truncated", False),
            )
            known = {key: extra[i][key] for key in ("choice", "perturbed", "too_long") if key in extra[i]}
            predictions[i] = Prediction(
                id=rows[i].id, task=name, reference=rows[i].answer, answers=(judged_answer,), **known
            )
    return [predictions[i] for i in range(len(rows))]
