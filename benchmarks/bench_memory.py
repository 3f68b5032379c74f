"""Peak memory of a whole RL step: ours at several packed lengths, and TRL's GRPOTrainer.

python benchmarks/bench_memory.py --groups 4
"""

from __future__ import annotations

from pathlib import Path

import common

STEP = str(Path(__file__).with_name("bench_step.py"))


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--tokens", type=int, nargs="+", default=[384, 768, 1536], help="tokens per pass")
    parser.add_argument("--no-trl", action="store_true")
    options = parser.parse_args()
    common.prepare(options)
    figures = {}
    for group in options.groups:
        arguments = common.again(STEP, options, "--groups", group)
        rivals = {f"{n} tokens": [*arguments, "--worker", "grpo", "--tokens", str(n)] for n in options.tokens}
        if not options.no_trl:
            rivals["TRL"] = [*arguments, "--worker", "trl"]
        peaks = {}
        for name, command in rivals.items():  # one after the other: together they may not fit
            steps = common.take_turns({name: command}, 1)[name]
            peaks[name] = {"peak_gb": max(step["peak"] for step in steps) / 1e9, "seconds": common.median(steps)}
            print(f"G={group} {name}: {peaks[name]['peak_gb']:.2f} GB")
        figures[str(group)] = peaks
    common.write(options, "memory", figures)


if __name__ == "__main__":
    main()
