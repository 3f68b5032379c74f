"""Values that training logged, as curves."""

from __future__ import annotations

import numpy as np

from hargo.report.results import Results


def series(results: Results, method: str, key: str) -> list[tuple[list[int], list[float]]]:
    """Per seed, the steps that log `key` and its values; a step without a row of the task does not log it."""
    runs = []
    for log in results.training[method]:
        pairs = [(record["step"], record[key]) for record in log if record.get(key) is not None]
        if pairs:
            runs.append(([s for s, _ in pairs], [v for _, v in pairs]))
    return runs


def smooth(runs: list[tuple[list[int], list[float]]], points: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Centred moving means over a tenth of the run, on common steps: grid [points], curves [seeds, points]."""
    first = max(steps[0] for steps, _ in runs)
    last = min(steps[-1] for steps, _ in runs)
    grid = np.linspace(first, max(last, first + 1), points)
    curves = []
    for steps, values in runs:
        width = max(1, len(values) // 10)
        padded = np.pad(np.asarray(values, dtype=float), (width // 2, width - 1 - width // 2), mode="edge")
        curves.append(np.interp(grid, steps, np.convolve(padded, np.ones(width) / width, mode="valid")))
    return grid, np.array(curves)
