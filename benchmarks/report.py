"""Tables and a figure from the benchmarks' JSON, put into docs/performance.md between its two marks.

python benchmarks/report.py [--out results/bench] [--docs docs/performance.md]
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from pathlib import Path
from typing import Any

from hargo.io import read_json, write_text

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: written by `make bench` -->", "<!-- end of figures -->"


def table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [
        head,
        ["---"] * len(head),
        *([f"{x:.2f}" if isinstance(x, float) else str(x) for x in row] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def steps(figures: dict[str, Any], title: str = "A whole step") -> str:
    """Table of `bench_step.py`, one line per G and engine or method."""
    rows = []
    for group, rivals in figures.items():
        first = next(iter(rivals.values()))
        for name, found in rivals.items():
            times = found["seconds"] / first["seconds"]
            each = statistics.median(
                b["seconds"] / a["seconds"] for a, b in zip(first["steps"], found["steps"], strict=True)
            )
            own = f"{1000 * found['own_seconds']:.1f}" if "own_seconds" in found else ""
            speed = [found["seconds"], found["samples_per_second"], times, each]
            rows.append([f"G={group}", name, *speed, found["peak_gb"], own, (found.get("revision") or "")[:7]])
    head = [
        "",
        "engine",
        "s a step",
        "samples/s",
        "times the first's",
        "step by step",
        "peak GB",
        "weights and loss, ms",
        "revision",
    ]
    return f"## {title}\n\n" + table(head, rows)


def profile(figures: dict[str, Any]) -> str:
    parts = sorted({name for found in figures.values() for name in found["parts"]} - {"step"})
    rows = [[name, *(found["parts"].get(name, 0.0) for found in figures.values())] for name in [*parts, "step"]]
    rows += [
        ["matrix products, share", *(found["gemm_share"] for found in figures.values())],
        ["peak of matrix products, GFLOP/s", *(found["gemm_peak"] / 1e9 for found in figures.values())],
        ["all floating-point work at that peak, seconds", *(found["floor_seconds"] for found in figures.values())],
        ["memory, GB/s", *(found["bandwidth"] / 1e9 for found in figures.values())],
        [
            "reading the weights for every token of the longest answer, seconds",
            *(found["decoding_floor_seconds"] for found in figures.values()),
        ],
        [
            "a step over all floating-point work at the peak",
            *(found["seconds"] / found["floor_seconds"] for found in figures.values()),
        ],
    ]
    return "## Where the time of a step goes\n\n" + table(["seconds", *(f"G={g}" for g in figures)], rows)


def rollout(figures: dict[str, Any]) -> str:
    rows = [
        [new, *(found[name]["tokens_per_second"] if name in found else "" for name in ("hargo", "generate", "vllm")),
         found["times_as_fast"]]
        for new, found in figures.items()
        if isinstance(found, dict)
    ]  # fmt: skip
    head = ["new tokens", "tokens/s", "of `generate`", "of vLLM, eager", "times as fast as `generate`"]
    same = figures["greedy texts equal"]
    return f"## Rollout\n\nGreedy texts equal to those of `generate`: {same}.\n\n" + table(head, rows)


def memory(figures: dict[str, Any]) -> str:
    rows = [[f"G={g}", name, f["peak_gb"], f["seconds"]] for g, peaks in figures.items() for name, f in peaks.items()]
    told = "Activations kept, and computed again (`compute.gradient_checkpointing`), by tokens of a pass.\n\n"
    return "## Memory\n\n" + told + table(["", "tokens per pass", "peak GB", "s a step"], rows)


def scaling(figures: dict[str, Any]) -> str:
    rows = [[name, f["token_ratio"], f["times_as_fast"], f["share"]] for name, f in figures.items()]
    head = ["", "token ratio G(P+R)/(P+GR)", "times as fast as padded", "share reached"]
    return "## The training pass\n\n" + table(head, rows)


def machine(found: dict[str, Any]) -> str:
    versions = ", ".join(
        f"{name} {v}" for name, v in found["versions"].items() if name in ("torch", "transformers", "trl")
    )
    threads = " ".join(f"{name}={value}" for name, value in found["environment"].items())
    git = found["git"] or {}
    return (
        f"{found['cpu']}, {found['cores']} cores, device {found['device']}, {found['threads']} threads ({threads}); "
        f"{versions}; revision {str(git.get('revision'))[:7]}. Medians of rounds in which the rivals took turns."
    )


def figure(step: dict[str, Any], scaling: dict[str, Any], path: Path) -> None:
    """Seconds of a step beside those of others, and how much of the token ratio the training pass reaches."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = 2 if scaling else 1
    fig, axes = plt.subplots(
        1, panels, figsize=(4.5 * panels, 3.2 if scaling else 1.6), layout="constrained", squeeze=False
    )
    left = axes[0, 0]
    bars = [(f"{name}, G={g}", found["seconds"]) for g, rivals in step.items() for name, found in rivals.items()]
    names, seconds = zip(*reversed(bars), strict=True) if bars else ((), ())
    drawn = left.barh(names, seconds, color=["#b0b0b0" if name.startswith("trl") else "#1f5582" for name in names])
    left.bar_label(drawn, fmt="%.1f", padding=3, fontsize=7)
    left.set(xlabel="seconds a step")
    left.tick_params(axis="y", labelsize=7)
    left.spines[["top", "right"]].set_visible(False)
    if scaling:
        tokens(axes[0, 1], scaling)
    fig.savefig(path, metadata={"Date": None})


def tokens(axis: Any, figures: dict[str, Any]) -> None:
    """Speed of the training pass over the token ratio."""
    ratio, reached = ([f[key] for f in figures.values()] for key in ("token_ratio", "times_as_fast"))
    axis.scatter(ratio, reached, color="#1f5582", zorder=3)
    for name, x, y in zip(figures, ratio, reached, strict=True):
        axis.annotate(name, (x, y), textcoords="offset points", xytext=(4, -9), fontsize=6)
    top = max([1.0, *ratio, *reached])
    axis.plot([1, top], [1, top], color="#999999", lw=1, label="token ratio")
    axis.plot([1, top], [0.8, 0.8 * top], color="#999999", lw=1, ls=":", label="80 % of it")
    axis.set(xlabel="token ratio G(P+R)/(P+GR)", ylabel="times as fast as padded")
    axis.legend(frameon=False)


PARTS = {
    "step": steps,
    "races": partial(steps, title="A step on race rows: answers to 2 tokens, no reference"),
    "methods": partial(steps, title="HARGO's step beside GRPO's, on the same answers"),
    "switches": partial(steps, title="A step with other switches"),
    "profile": profile,
    "rollout": rollout,
    "memory": memory,
    "scaling": scaling,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "bench")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs" / "performance.md")
    options = parser.parse_args()
    found = {
        name: read_json(options.out / f"{name}.json") for name in PARTS if (options.out / f"{name}.json").is_file()
    }
    if not found:
        raise SystemExit(f"error: {options.out} holds no figures; run a benchmark first")
    sections = [machine(next(iter(found.values()))["machine"])]
    sections += [PARTS[name](part["figures"]) for name, part in found.items()]
    drawn = options.docs.with_suffix(".svg")
    figure(*(found.get(name, {"figures": {}})["figures"] for name in ("step", "scaling")), drawn)
    told = "Seconds of a step" + (", and speed of the training pass over the token ratio" if "scaling" in found else "")
    sections.append(f"![{told}]({drawn.name})")
    before, _, rest = options.docs.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    write_text(options.docs, before + BEGIN + "\n\n" + "\n\n".join(sections) + "\n\n" + END + after)
    print(options.docs)


if __name__ == "__main__":
    main()
