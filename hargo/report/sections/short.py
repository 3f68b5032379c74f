"""What was run, what to be careful about, and what was found."""

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
    heading = "Methods" if first is None else f"Methods besides {title(first)}"
    trained = ", ".join(title(method) for method in results.models if method != first) or "none"
    rows = f"{len(results.train)} training and {len(results.eval)} evaluation rows"
    many = f"{len(results.tasks)} tasks" if len(results.tasks) > 1 else f"the task {results.tasks[0]}"
    content: list[Block] = [
        Text(
            f"{describe(study)} {rows} on {many}.{reserved(study)} {heading}: {trained}. "
            "Answers are decoded greedily. Rewards and judgements of answers come from separate code."
        )
    ]
    differences = drift(study, results.folder)
    if differences:
        content.append(Warn("The study differs from the one that was run", [f"{text}." for text in differences]))
    warnings = level_baselines(results)
    if warnings:
        content.append(Warn("A baseline without a language model keeps up", [f"{text}." for text in warnings]))
    if len(study.seeds) == 1:
        content.append(
            Warn(
                "One seed",
                ["The spread over seeds is unknown, so no difference between methods can be distinguished from noise."],
            )
        )
    lines = [*verdicts(results), *of_subject(results), *_caveats(results)]
    return [*content, *([Items(lines)] if lines else [])]


def reserved(study: Study) -> str:
    """Who learns from which training rows, where not all learn from all of them."""
    share = study.data.rl_share
    if share is None:
        return ""
    return f" Of the training rows of each task, the methods after SFT learn from {share:.0%}, and SFT from the others."


def describe(study: Study) -> str:
    """The study in one sentence: model, data, protocol, seeds."""
    model = study.model
    what = "a small model built from scratch" if model.source == "scratch" else f"`{model.path}`"
    data = (
        "generated data" if study.data.source == "embedded" else f"`{study.data.path}`" if study.data.path else "rows"
    )
    where = f"{data} (source `{study.data.source}`)"
    protocol = {
        "paper": "the paper's split (seeded, 9:1, rows untouched, near-duplicates on both sides)",
        "strict": "the strict split (rows cleaned, telltale names scrubbed, near-duplicates kept on one side)",
        "given": "the split given by the source",
    }[study.data.protocol]
    seeds = study.seeds
    many = f"{len(seeds)} seeds ({', '.join(map(str, seeds))})" if len(seeds) > 1 else f"one seed ({seeds[0]})"
    return f"Study `{study.name}` trains {what} on {where} with {protocol} and {many}."


def _caveats(results: Results) -> list[str]:
    notes = []
    known = any(name in PAPER for name in results.models)
    if known and not results.comparable:
        notes.append(
            f"The tasks, data or protocol are not those of the paper ({ARXIV}). Its table (one seed, without "
            "intervals) is therefore not comparable and left out."
        )
    elif known:
        notes.append(f"The paper's numbers ({ARXIV}) come from one seed, without intervals.")
        if (results.study.model.source, results.study.model.path) != ("hub", MODEL):
            notes.append(f"The model is not the paper's {MODEL}; for that reason alone, levels differ.")
    if len(results.study.seeds) == 2 and len(results.models) > 1:
        notes.append("Two seeds can reveal only large differences; `hargo power` says how many a small one would need.")
    notes += _budget(results)
    for task in results.tasks:
        long = max(model.metrics["tasks"][task]["too_long"] for models in results.models.values() for model in models)
        if long:
            notes.append(
                f"{long} of the {task} rows are longer than the model has room for; they count as undecided, and "
                "therefore as wrong, for every language model."
            )
    for method, models in results.models.items():
        for task in results.tasks:
            cut = max(model.metrics["tasks"][task]["truncated"] for model in models)
            if cut > 5:
                notes.append(f"{title(method)}: {cut:.0f} % of the {task} answers reach the limit on new tokens.")
    return notes


def _budget(results: Results) -> list[str]:
    """A sentence on where the study stops training early."""
    study = results.study
    names: dict[int, list[str]] = {}
    for name in study.reported:
        steps = getattr(study.method(name), "max_steps", None)
        if steps is not None:
            names.setdefault(steps, []).append(title(name))
    limits = [f"{', '.join(some)} at {steps} steps" for steps, some in names.items()]
    return [f"The study cuts training short: {'; '.join(limits)}."] if limits else []
