"""How near each evaluation program is to the nearest training program, and the metrics by that."""

from __future__ import annotations

from statistics import fmean

from hargo.data.programs import LANGUAGES
from hargo.data.similarity import fingerprint, nearest
from hargo.evaluation.calibration import calibration
from hargo.evaluation.confusion import confusion
from hargo.evaluation.predictions import Prediction
from hargo.report.results import Results
from hargo.report.tables import Row

#: similarity of an evaluation program to the nearest training program, lowest first: (title, low, high)
BANDS = (("below 0.8", -1.0, 0.8), ("0.8 to 0.9", 0.8, 0.9), ("0.9 to 1", 0.9, 1.0), ("1: a twin", 1.0, 2.0))


def bands(results: Results) -> dict[str, str]:
    """Evaluation row id -> band of similarity to the nearest training program, for rows of data-race tasks."""
    places = {}
    for task in results.tasks:
        if task not in LANGUAGES:
            continue
        rows = [row for row in results.eval if row.task == task]
        values = nearest(
            [fingerprint(row) for row in rows], [fingerprint(row) for row in results.train if row.task == task]
        )
        for row, value in zip(rows, values, strict=True):
            places[row.id] = next(name for name, low, high in BANDS if low <= value < high)
    return places


def band_table(results: Results) -> list[Row]:
    """One row per band and method or baseline: every race metric, means over seeds, and P(yes)'s where recorded."""
    place = bands(results)
    rows: list[Row] = []
    for band, _, _ in BANDS:
        for name, models in results.everyone.items():
            parts = [within(model.predictions, place, band) for model in models]
            if not all(parts):
                continue
            row: Row = {"similarity": band, "method": name, "n": len(parts[0])}
            counts = [confusion(part) for part in parts]
            row |= {key: fmean(c[key] for c in counts) for key in counts[0]}
            calibrations = [one for part in parts if (one := calibration(part))]
            for key in ("ece", "average_precision"):
                known = [one[key] for one in calibrations if one[key] is not None]
                row[key] = fmean(known) if len(known) == len(parts) else None
            rows.append(row)
    return rows


def within(predictions: list[Prediction], place: dict[str, str], band: str) -> list[Prediction]:
    """The predictions on rows of a band; place: from `bands`."""
    return [p for p in predictions if place.get(p.id) == band]
