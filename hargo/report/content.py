"""What the report says, section by section, in words that follow from the numbers."""

from __future__ import annotations

from hargo import tasks
from hargo.config import Study
from hargo.report import answers, calibration, cluster, evidence, external, leakage
from hargo.report.blocks import Block, Browser, Figure, Items, Section, Table, Text, Warn
from hargo.report.compare import Gap, gap
from hargo.report.controls import controls
from hargo.report.drift import drift
from hargo.report.evidence import CAPTION, bracket, interval, marks, signed, verdicts
from hargo.report.level import level_baselines
from hargo.report.paper import LENGTH_RATIO, MLPERF_OVER_40
from hargo.report.provenance import provenance
from hargo.report.results import Results, title
from hargo.report.tables import METRICS, heterogeneity, metrics_of, over_seeds, shown

ARXIV = "arXiv 2607.28301"
PAPER_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"


def sections(results: Results, figures: set[str], rows: bool = True) -> list[Section]:
    """All sections; `figures` names the figures that could be drawn, `rows` asks for the browsable predictions."""
    browser: list[Block] = [Browser("Every answer of every model, beside the SFT model's.")] if rows else []
    made = [
        Section("short", "In short", _short(results)),
        Section("results", "Results", _results(results)),
        Section("evidence", "What is more than noise", evidence.blocks(results)),
        Section("gap", "HARGO against GRPO", _gap(results)),
        Section("training", "Training", _training(results)),
        Section("classes", "Answers by class", answers.classes(results)),
        Section("external", "DataRaceBench", external.blocks(results)),
        Section("calibration", "Calibration", calibration.blocks(results)),
        Section("questions", "Questions", answers.questions(results)),
        Section("ablation", "Ablation", _ablation(results)),
        Section("heterogeneity", "How the tasks differ", _heterogeneity(results)),
        Section("leakage", "Leakage and memory", leakage.blocks(results)),
        Section("predictions", "Predictions", browser),
        Section("provenance", "Provenance", provenance(results)),
        Section("cluster", "Cluster jobs", cluster.blocks(results.folder)),
    ]
    kept = []
    for section in made:
        blocks = [b for b in section.blocks if not isinstance(b, Figure) or b.name in figures]
        if blocks:
            kept.append(Section(section.anchor, section.title, blocks))
    return kept


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


def _short(results: Results) -> list[Block]:
    study = results.study
    trained = ", ".join(title(method) for method in results.models if method != "sft") or "none"
    rows = f"{len(results.train)} training and {len(results.eval)} evaluation rows"
    many = f"{len(results.tasks)} tasks" if len(results.tasks) > 1 else f"the task {results.tasks[0]}"
    blocks: list[Block] = [
        Text(
            f"{describe(study)} {rows} on {many}. Methods beside SFT: {trained}. "
            "Answers are decoded greedily; reward and judgement of an answer are separate code."
        )
    ]
    otherwise = drift(study, results.folder)
    if otherwise:
        blocks.append(Warn("Not the study that was run", [f"{text}." for text in otherwise]))
    warnings = level_baselines(results)
    if warnings:
        blocks.append(Warn("A baseline without a language model keeps up", [f"{text}." for text in warnings]))
    if len(study.seeds) == 1:
        blocks.append(
            Warn(
                "One seed",
                ["The spread over seeds is unknown, so no difference between methods can be told from noise."],
            )
        )
    blocks.append(Items([*verdicts(results), *_verdicts(results), *_caveats(results)]))
    return blocks


def _verdicts(results: Results) -> list[str]:
    if not {"hargo", "grpo"} <= results.models.keys():
        return []
    gaps = [found for metric in METRICS if (found := gap(results, "hargo", "grpo", metric))]
    said = [_verdict(gaps[0])] if gaps else []
    for distinguishable, words in ((True, "More than noise"), (False, "Not distinguishable")):
        names = [_name(g.metric) + f" ({signed(g.gap, METRICS[g.metric][1])})" for g in gaps[1:]
                 if g.distinguishable == distinguishable]  # fmt: skip
        if names:
            said.append(f"{words} between HARGO and GRPO: {', '.join(names)}.")
    return said


def _name(metric: str) -> str:
    return METRICS[metric][0].removesuffix(" %")


def _verdict(found: Gap) -> str:
    name, decimals = METRICS[found.metric]
    unit = " points" if "%" in name else ""
    size = f"{abs(found.gap):.{decimals}f}{unit}"
    direction = f"{size} above" if found.gap > 0 else f"{size} below" if found.gap < 0 else "level with"
    tested = f"95 % interval over rows {interval(found.interval, decimals)}, corrected p {found.corrected:.3f}"
    return f"{_name(found.metric)}: HARGO {direction} GRPO; {tested}: {found.reading}."


def _caveats(results: Results) -> list[str]:
    notes = []
    if not results.comparable:
        notes.append(
            f"Tasks, data or protocol here are not those of the paper ({ARXIV}): its table, one seed, without "
            "intervals, is not comparable and left out."
        )
    else:
        notes.append(f"The paper's numbers ({ARXIV}) come from one seed, without intervals.")
        if (results.study.model.source, results.study.model.path) != ("hub", PAPER_MODEL):
            notes.append(f"The model here is not the paper's {PAPER_MODEL}: levels differ for that reason alone.")
    if len(results.study.seeds) == 2:
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


def _results(results: Results) -> list[Block]:
    metrics = metrics_of(results)
    main = [key for key in metrics if key in METRICS]
    accuracy = [key for key in metrics if key.startswith("accuracy_")]
    many = "mean ± sample standard deviation over seeds" if len(results.study.seeds) > 1 else "one seed"
    return [
        Figure(
            "headline",
            "Dots are seeds; bars run from the SFT model's mean to the method's; dashed lines are baselines without a "
            "language model. The axes leave out zero.",
            "Headline metrics per method with seeds and baselines; the figures are in the table below.",
        ),
        _method_table(
            results,
            main,
            f"Headline metrics, means over seeds (each seed's are in the figure). {CAPTION} WinRate is measured "
            "against the SFT model of the same seed, where 50 is level."
            + (" The column after each metric is the paper's." if results.comparable else ""),
        ),
        _method_table(results, accuracy, f"Accuracy per task, {many}."),
    ]


def _method_table(results: Results, metrics: list[str], caption: str, methods: list[str] | None = None) -> Table:
    header: list[str] = ["Method"]
    muted: list[int] = []
    papers = {m: any(results.paper(name, m) is not None for name in results.models) for m in metrics}
    for metric in metrics:
        header.append(metrics_of(results)[metric][0])
        if papers[metric]:
            muted.append(len(header))
            header.append("paper")
    rows = []
    everyone = {name: results.models[name] for name in methods or results.models}
    if methods is None:
        everyone |= {name: [model] for name, model in results.baselines.items()}
    for name, models in everyone.items():
        row = [title(name)]
        for metric in metrics:
            decimals = metrics_of(results)[metric][1]
            over = over_seeds(models, metric)
            cell = shown(over, decimals)
            if over and metric in METRICS and name in results.models:
                told = bracket(results, name, metric, decimals) + marks(results, name, metric)
                cell = f"{over.mean:.{decimals}f}{told}"
            row.append(cell)
            if papers[metric]:
                theirs = results.paper(name, metric)
                row.append("" if theirs is None else f"{theirs:.{decimals}f}")
        rows.append(row)
    return Table(header, rows, caption, tuple(muted), strong=("HARGO",))


def _gap(results: Results) -> list[Block]:
    if not {"hargo", "grpo"} <= results.models.keys():
        return []
    rows = []
    for metric, (name, decimals) in metrics_of(results).items():
        found = gap(results, "hargo", "grpo", metric)
        if found is None:
            continue
        bounds = interval(found.interval, decimals)
        rows.append([name, signed(found.gap, decimals), bounds, f"{found.corrected:.3f}", found.reading])
    return [
        Table(
            ["Metric", "HARGO − GRPO", "95 % over rows", "p, Holm", "Reading"],
            rows,
            "The interval is a paired bootstrap over evaluation rows; p takes the seeds into account and is corrected "
            "over the methods held against GRPO. With several metrics, some gaps count by chance.",
        )
    ]


def _training(results: Results) -> list[Block]:
    return [
        Figure(
            "learning",
            "Reward of sampled answers during training, moving mean over a tenth of the run; bands span the seeds.",
            "Learning curves per task.",
        ),
        Figure(
            "distributions",
            "How gradient is shared out over training: median, middle half, p10 to p90, and extremes, mean over seeds. "
            "GRPO gives each response 1/G; HARGO moves weight towards responses with large modulated advantages.",
            "Quantiles over training of advantage, confidence and weight for GRPO and HARGO.",
        ),
    ]


def _ablation(results: Results) -> list[Block]:
    if not results.ablations:
        return []
    methods = [m for m in results.models if m in ("grpo", "hargo") or m in results.ablations]
    metrics = [key for key in metrics_of(results) if key in METRICS]
    caption = (
        "Forms of HARGO's weights: B1 by advantage alone, B2 by confidence alone, HARGO (B3) by both; controls last."
    )
    figure = Figure(
        "forest",
        "What each form changes against GRPO: square for the gap, line for its 95 % interval over rows; filled where "
        "rows and seeds do not explain it, corrected for all methods.",
        "Forest plot of the gaps to GRPO with their intervals, one panel per metric",
    )
    return [figure, _method_table(results, metrics, caption, methods), *controls(results)]


def _heterogeneity(results: Results) -> list[Block]:
    rows = []
    table = heterogeneity(results)
    for row in table:
        mean = row["answer_chars_mean"]
        rows.append(
            [
                tasks.load(row["task"]).title,
                f"{row['train_rows']} / {row['eval_rows']}",
                "–" if mean is None else f"{mean:.1f}",
                f"{row['sft_answer_chars_mean']:.1f}",
                f"{row['sft_over_40_chars']:.1f}",
                f"{row['sft_reward_mean']:.3f}",
                f"{row['sft_accuracy']:.2f}",
            ]
        )
    means = [row["answer_chars_mean"] for row in table if row["answer_chars_mean"]]
    ratio = f"The longest mean answer is {max(means) / min(means):.0f} times the shortest" if len(means) > 1 else ""
    if results.comparable:
        ratio += f" (the paper: {LENGTH_RATIO}). In the paper {MLPERF_OVER_40} % of the SFT model's mlperf answers have"
        ratio += " over 40 characters"
    return [
        *([Text(f"{ratio}.")] if ratio else []),
        Table(
            [
                "Task",
                "Train / eval rows",
                "Answer, chars",
                "SFT answer, chars",
                "SFT over 40 chars %",
                "SFT reward",
                "SFT accuracy %",
            ],
            rows,
            "What makes the tasks heterogeneous: answer length, shape of the reward, and how good the SFT model is.",
        ),
        Figure("rewards", "Share of evaluation answers by reward, all seeds.", "Histogram of rewards per task."),
        Figure(
            "lengths",
            "Answer length on evaluation rows: median, middle half and p10 to p90; log scale.",
            "Answer lengths per task for the references and for the models.",
        ),
    ]
