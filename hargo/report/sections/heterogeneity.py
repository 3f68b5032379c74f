"""How the tasks differ: in their answers, in their rewards, and in what a model does with them."""

from __future__ import annotations

from hargo import tasks
from hargo.report.blocks import Block, Figure, Table, Text
from hargo.report.paper import ANSWERS
from hargo.report.results import Results, title
from hargo.report.tables import heterogeneity


def blocks(results: Results) -> list[Block]:
    """A table and the figures of rewards and lengths; the model's columns are those of the first reference."""
    run = results.featured[0]
    name = title(run)
    rows = heterogeneity(results)
    columns = {
        f"{name} answer, chars": (f"{run}_answer_chars_mean", 1),
        f"{name} over 40 chars %": (f"{run}_over_40_chars", 1),
        f"{name} reward": (f"{run}_reward_mean", 3),
        f"{name} accuracy %": (f"{run}_accuracy", 2),
    }
    cells = []
    for row in rows:
        mean = row["answer_chars_mean"]
        data = [f"{row['train_rows']} / {row['eval_rows']}", "–" if mean is None else f"{mean:.1f}"]
        model = [f"{row[key]:.{decimals}f}" for key, decimals in columns.values()]
        cells.append([tasks.load(row["task"]).title, *data, *model])
    means = [row["answer_chars_mean"] for row in rows if row["answer_chars_mean"]]
    ratio = f"The longest mean answer is {max(means) / min(means):.0f} times the shortest" if len(means) > 1 else ""
    if results.comparable:
        ratio += ANSWERS
    return [
        *([Text(f"{ratio}.")] if ratio else []),
        Table(
            ["Task", "Train / eval rows", "Answer, chars", *columns],
            cells,
            "What makes the tasks heterogeneous: answer length, shape of the reward, and how well the "
            f"{name} model does.",
        ),
        Figure("rewards", "Share of evaluation answers by reward, all seeds.", "Histogram of rewards per task."),
        Figure(
            "lengths",
            "Answer length on evaluation rows: median, middle half and p10 to p90; log scale.",
            "Answer lengths per task for the references and for the models.",
        ),
    ]
