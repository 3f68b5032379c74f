"""What was run, what to beware of, and what was found."""

from __future__ import annotations

from hargo.config import Study
from hargo.report.blocks import Block, Items, Text, Warn
from hargo.report.drift import drift
from hargo.report.level import level_baselines
from hargo.report.paper import ARXIV, MODEL, PAPER
from hargo.report.results import Results, title
from hargo.report.verdicts import of_subject, verdicts


def blocks(results: Results) -> list[Block]:
    """The study in a sentence, warnings, verdicts, caveats."""
    study = results.study
    first = results.first_reference
    beside = "Methods" if first is None else f"Methods beside {title(first)}"
    trained = ", ".join(title(method) for method in results.models if method != first) or "none"
    rows = f"{len(results.train)} training and {len(results.eval)} evaluation rows"
    many = f"{len(results.tasks)} tasks" if len(results.tasks) > 1 else f"the task {results.tasks[0]}"
    made: list[Block] = [
        Text(
            f"{describe(study)} {rows} on {many}. {beside}: {trained}. "
            "Answers are decoded greedily; reward and judgement of an answer are separate code."
        )
    ]
    otherwise = drift(study, results.folder)
    if otherwise:
        made.append(Warn("Not the study that was run", [f"{text}." for text in otherwise]))
    warnings = level_baselines(results)
    if warnings:
        made.append(Warn("A baseline without a language model keeps up", [f"{text}." for text in warnings]))
    if len(study.seeds) == 1:
        made.append(
            Warn(
                "One seed",
                ["The spread over seeds is unknown, so no difference between methods can be told from noise."],
            )
        )
    lines = [*verdicts(results), *of_subject(results), *_caveats(results)]
    return [*made, *([Items(lines)] if lines else [])]


def describe(study: Study) -> str:
    """The study in one sentence: model, data, protocol, seeds."""
    model = study.model
    what = "a small model built from scratch" if model.source == "scratch" else f"`{model.path}`"
    data = (
        "generated data" if study.data.source == "embedded" else f"`{study.data.path}`" if study.data.path else "rows"
    )
    where = f"{data} (source `{study.data.source}`)"
    protocol = {
        "paper": "the paper's split: seeded, 9:1, rows untouched, near-duplicates on both sides",
        "strict": "the strict split: rows cleaned, tell-tale names scrubbed, near-duplicates kept on one side",
        "given": "the split that the source gives",
    }[study.data.protocol]
    seeds = study.seeds
    many = f"{len(seeds)} seeds ({', '.join(map(str, seeds))})" if len(seeds) > 1 else f"one seed ({seeds[0]})"
    return f"Study `{study.name}`: {what}, {where}, {protocol}, {many}."


def _caveats(results: Results) -> list[str]:
    notes = []
    known = any(name in PAPER for name in results.models)
    if known and not results.comparable:
        notes.append(
            f"Tasks, data or protocol here are not those of the paper ({ARXIV}): its table, one seed, without "
            "intervals, is not comparable and left out."
        )
    elif known:
        notes.append(f"The paper's numbers ({ARXIV}) come from one seed, without intervals.")
        if (results.study.model.source, results.study.model.path) != ("hub", MODEL):
            notes.append(f"The model here is not the paper's {MODEL}: levels differ for that reason alone.")
    if len(results.study.seeds) == 2 and len(results.models) > 1:
        notes.append("Two seeds can show large differences only; `hargo power` says how many a small one would need.")
    notes += _budget(results)
    for task in results.tasks:
        long = max(model.metrics["tasks"][task]["too_long"] for models in results.models.values() for model in models)
        if long:
            notes.append(
                f"{long} of the {task} rows are longer than the model has room for; they count as undecided, which is "
                "wrong, for every language model."
            )
    for method, models in results.models.items():
        for task in results.tasks:
            cut = max(model.metrics["tasks"][task]["truncated"] for model in models)
            if cut > 5:
                notes.append(f"{title(method)}: {cut:.0f} % of the {task} answers hit the bound on new tokens.")
    return notes


def _budget(results: Results) -> list[str]:
    """Says where a study stops training early."""
    study = results.study
    names: dict[int, list[str]] = {}
    for name in study.reported:
        steps = getattr(study.method(name), "max_steps", None)
        if steps is not None:
            names.setdefault(steps, []).append(title(name))
    told = [f"{', '.join(some)} at {steps} steps" for steps, some in names.items()]
    return [f"Training is cut short by the study: {'; '.join(told)}."] if told else []
