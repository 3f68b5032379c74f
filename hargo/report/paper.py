"""The paper's numbers (Li and Tian, arXiv 2607.28301): one seed, no intervals, Qwen2.5-0.5B-Instruct, HPC-GPT data.

Shares in percent. `accuracy_<task>` is accuracy on one task; `race_f1` pools the two data-race tasks.
"""

from __future__ import annotations

_COLUMNS = (
    "win_rate",
    "race_f1",
    "plp_similarity",
    "em",
    "avg_score",
    "accuracy_race_c",
    "accuracy_race_fortran",
    "accuracy_mlperf",
    "accuracy_plp",
)

_ROWS: dict[str, tuple[float | None, ...]] = {
    "sft": (None, 89.59, 0.8242, 14.29, 0.3587, 88.65, 92.36, 51.10, 100.0),
    "hpc_gpt": (49.83, 88.82, 0.8054, 19.23, 0.4027, 88.65, 91.72, 54.95, 98.33),
    "ppo": (50.17, 90.22, 0.8221, 18.68, 0.3779, 89.19, 92.36, 50.55, 100.0),
    "dpo": (40.24, 77.61, 0.7993, 7.14, 0.2424, 90.27, 73.25, 34.07, 100.0),
    "grpo": (53.17, 90.73, 0.8351, 18.13, 0.4193, 89.73, 93.63, 59.34, 100.0),
    "dr_grpo": (51.63, 90.79, 0.8388, 15.93, 0.3806, 89.73, 93.63, 54.40, 100.0),
    "simpo": (44.26, 90.03, 0.7816, 6.04, 0.1847, 89.73, 92.36, 20.88, 95.0),
    "kto": (53.08, 90.16, 0.8449, 27.47, 0.4537, 88.11, 93.63, 56.59, 100.0),
    "hargo": (54.62, 91.30, 0.8558, 17.58, 0.4000, 89.19, 94.90, 56.04, 100.0),
    "b1": (53.34, 91.37, 0.8480, 21.43, 0.4187),
    "b2": (53.60, 91.32, 0.8472, 16.48, 0.4077),
}

#: method -> metric -> the paper's value
PAPER: dict[str, dict[str, float]] = {
    method: {key: value for key, value in zip(_COLUMNS, row, strict=False) if value is not None}
    for method, row in _ROWS.items()
}

#: the tasks that it trains and evaluates on, all at once
PAPER_TASKS = {name.removeprefix("accuracy_") for name in _COLUMNS if name.startswith("accuracy_")}

#: its answers: mean of plp over that of race_fortran in characters; long ones on mlperf
ANSWERS = " (the paper: 58). In the paper, 65.9 % of the SFT model's mlperf answers are longer than 40 characters"

ARXIV = "arXiv 2607.28301"
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
