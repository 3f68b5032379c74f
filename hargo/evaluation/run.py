"""Greedy answers to the evaluation rows, each judged and rewarded: predictions.jsonl, metrics.json, run.json."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hargo import provenance, tasks
from hargo.config import Study
from hargo.data.perturb import KINDS, perturb
from hargo.data.records import Row, load_rows
from hargo.errors import UserError
from hargo.evaluation.metrics import summarise
from hargo.io import write_json, write_jsonl

logger = logging.getLogger(__name__)

#: keys of a prediction that only some have
OPTIONAL = ("choice", "perturbed", "too_long")


def evaluate(study: Study, model: Path, data: Path, out: Path) -> None:
    """Answer data/eval.jsonl with the model folder `model` and write the results to the folder `out`."""
    rows = [row for row in load_rows(data / "eval.jsonl") if row.task in study.tasks]
    if not rows:
        raise UserError(f"{data / 'eval.jsonl'}: no evaluation rows for the study's tasks {', '.join(study.tasks)}")
    predictions = answer(study, model, rows, perturbed=study.evaluation.perturb)
    out.mkdir(parents=True, exist_ok=True)
    write_jsonl(out / "predictions.jsonl", predictions)
    write_json(out / "metrics.json", summarise(predictions))
    write_json(out / "run.json", provenance.record(study, stage="evaluate", model=str(model)))
    logger.info("predictions in %s, figures in %s", out / "predictions.jsonl", out / "metrics.json")


def answer(
    study: Study, model: Path, rows: Sequence[Row], skip_long: bool = False, perturbed: bool = False
) -> list[dict[str, Any]]:
    """Predictions of the model folder `model` in the order of the rows.

    skip_long: a row that does not fit the model's context is left undecided (`too_long`) instead of an error
    perturbed: also ask race rows in other words (`hargo.data.perturb`), for P(yes) alone
    """
    from hargo.evaluation.choice import choices
    from hargo.models.encode import answer_text, encode
    from hargo.models.load import check_context, deterministic, load_model, load_tokenizer, stop_ids
    from hargo.rollout import Request, generate
    from hargo.training.experience import answer_limit

    device = deterministic(study)
    tokenizer = load_tokenizer(model)
    policy = load_model(model, device, study.compute)
    limits = study.evaluation.max_new_tokens
    requests = [
        Request(example.prompt, answer_limit(example.row.task, limits))
        for example in encode(tokenizer, rows, study.model.system)
    ]
    answers: list[dict[str, Any]] = [{"output": ""} for _ in rows]
    order = sorted(range(len(rows)), key=lambda i: len(requests[i].prompt))
    room = getattr(policy.config, "max_position_embeddings", None)
    if skip_long and room is not None:
        for i in [i for i in order if len(requests[i].prompt) + requests[i].limit > room]:
            answers[i] = {"output": "", "too_long": True}
            order.remove(i)
    check_context(policy, max((len(requests[i].prompt) + requests[i].limit for i in order), default=0), "evaluation")
    stop = stop_ids(policy, tokenizer)
    chunk = study.evaluation.batch_size * 4  # a few batches, so that like lengths meet and progress shows
    for start in range(0, len(order), chunk):
        part = order[start : start + chunk]
        completions = generate(
            policy,
            [requests[i] for i in part],
            stop=stop,
            pad=tokenizer.pad_token_id,
            batch_rows=study.evaluation.batch_size,
        )
        for i, (completion,) in zip(part, completions, strict=True):
            text = answer_text(tokenizer, completion.ids, completion.ended)
            answers[i] = {"output": text, "tokens": len(completion.ids), "truncated": not completion.ended}
        logger.info("evaluated %d of %d rows", start + len(part), len(order))
    race = [i for i in order if tasks.load(rows[i].task).positive]
    prompts = [requests[i].prompt for i in race]
    for i, choice in zip(race, choices(policy, tokenizer, prompts, study.evaluation.batch_size), strict=True):
        answers[i]["choice"] = choice
    if perturbed:
        asked = [(i, kind, row) for i in race for kind in KINDS if (row := perturb(rows[i], kind)) is not None]
        prompts = [example.prompt for example in encode(tokenizer, [row for _, _, row in asked], study.model.system)]
        fits = [k for k, prompt in enumerate(prompts) if room is None or len(prompt) < room]
        found = choices(policy, tokenizer, [prompts[k] for k in fits], study.evaluation.batch_size)
        for k, choice in zip(fits, found, strict=True):
            if choice is not None:
                answers[asked[k][0]].setdefault("perturbed", {})[asked[k][1]] = choice
    return judge(rows, [a["output"] for a in answers], answers)


def judge(rows: Sequence[Row], outputs: Sequence[str], extra: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Predictions in the order of the rows: the task's reward, and its judgement, which never looks at the reward."""
    predictions: list[dict[str, Any]] = [{} for _ in rows]
    for name in sorted({row.task for row in rows}):
        mine = [i for i, row in enumerate(rows) if row.task == name]
        task = tasks.load(name)
        texts, references = [outputs[i] for i in mine], [rows[i].answer for i in mine]
        for i, reward, verdict in zip(mine, task.reward(texts, references), task.judge(texts, references), strict=True):
            predictions[i] = {
                "id": rows[i].id,
                "task": name,
                "output": outputs[i],
                "reference": rows[i].answer,
                "reward": None if reward is None else float(reward),
                **asdict(verdict),
                "tokens": extra[i].get("tokens"),
                "truncated": extra[i].get("truncated", False),
                **{key: extra[i][key] for key in OPTIONAL if extra[i].get(key) is not None},
            }
    return predictions
