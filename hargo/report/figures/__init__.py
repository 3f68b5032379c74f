"""The report's figures, drawn with matplotlib."""

from __future__ import annotations

from hargo.report.figures.confusions import confusions
from hargo.report.figures.curves import precision_recall, reliability_curve
from hargo.report.figures.distributions import distributions
from hargo.report.figures.forest import forest
from hargo.report.figures.headline import headline
from hargo.report.figures.learning import learning
from hargo.report.figures.lengths import lengths
from hargo.report.figures.rewards import rewards
from hargo.report.figures.style import Plots

#: figure name -> function that draws it, or gives None where the results have nothing to show
FIGURES: Plots = {
    "headline": headline,
    "learning": learning,
    "distributions": distributions,
    "rewards": rewards,
    "lengths": lengths,
    "confusions": confusions,
    "forest": forest,
    "reliability": reliability_curve,
    "precision_recall": precision_recall,
}
