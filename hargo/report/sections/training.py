"""How training went: rewards, and how the methods share out the gradient."""

from __future__ import annotations

from hargo.report.blocks import Block, Figure
from hargo.report.results import Results, title
from hargo.report.words import listed

#: method -> how it weighs the responses of a group
WEIGHTS = {
    "grpo": "gives each response 1/G",
    "hargo": "moves weight towards responses with large modulated advantages",
}


def blocks(results: Results) -> list[Block]:
    """Two figures; each is left out where the runs logged nothing for it."""
    names = results.weighing
    runs = results.study.runs()
    schemes = [f"{title(name)} {WEIGHTS[runs[name].method]}" for name in names if runs[name].method in WEIGHTS]
    return [
        Figure(
            "learning",
            "Reward of sampled answers during training, a moving mean over a tenth of the run; bands span the seeds.",
            "Learning curves per task.",
        ),
        Figure(
            "distributions",
            "How the gradient is shared out over training: median, middle half, p10 to p90 and extremes, averaged over "
            "seeds." + (f" {'; '.join(schemes)}." if schemes else ""),
            f"Quantiles over training of advantage, confidence and weight for {listed([title(n) for n in names])}.",
        ),
    ]
