"""Peak memory of a whole RL step over packed lengths, with activations kept and computed again.

python benchmarks/bench_memory.py --groups 4

That of TRL is in the table of whole steps.
"""

from __future__ import annotations

from pathlib import Path

import common

STEP = str(Path(__file__).with_name("bench_step.py"))


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--tokens", type=int, nargs="+", default=[768, 8192], help="tokens per pass")
    options = parser.parse_args()
    common.prepare(options)
    figures = {}
    for group in options.groups:
        peaks = {}
        for switch in ("", "+gradient_checkpointing"):
            for count in options.tokens:
                rival = f"grpo+tokens_per_pass={count}{switch}"
                shared = common.again(STEP, options, "--groups", group, "--worker", rival)
                name = f"{count} tokens{', computed again' if switch else ''}"
                # one after the other: they may not fit together
                steps = common.take_turns({name: shared}, options.rounds)[name]
                peaks[name] = {"peak_gb": max(step["peak"] for step in steps) / 1e9, "seconds": common.median(steps)}
                print(f"G={group} {name}: {peaks[name]['peak_gb']:.2f} GB")
        figures[str(group)] = peaks
    common.write(options, "memory", figures)


if __name__ == "__main__":
    main()
