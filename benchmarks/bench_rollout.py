"""Rollout alone, against `generate` of transformers: the same prompts, samples and number of new tokens.

    python benchmarks/bench_rollout.py [--vllm PYTHON]      # and vLLM, where the environment of that PYTHON has it

No answer ends early on either side, so that both write the same number of tokens. Before it is timed, greedy text is
compared: it must be the same.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import common  # first: it binds threads before torch is imported
import torch

from hargo.config.options import ComputeOptions
from hargo.models.load import deterministic, load_model, load_tokenizer
from hargo.models.switches import switch_on
from hargo.rollout import Request
from hargo.rollout.built_in import BuiltIn

PROMPTS, SAMPLES = 8, 4
WORKER = Path(__file__).with_name("vllm_worker.py")


def theirs(model: Any, prompts: list[list[int]], pad: int, new: int, **more: Any) -> list[list[int]]:
    """New tokens of transformers' `generate` on left-padded prompts."""
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    out = model.generate(
        ids, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, eos_token_id=None, pad_token_id=pad, **more
    )
    return out[:, width:].tolist()


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--new", type=int, nargs="+", default=[2, 32, 64], help="new tokens of every answer")
    parser.add_argument(
        "--vllm",
        default=os.environ.get("VLLM_PYTHON"),
        help="Python of an environment with vLLM, which takes turns too, in eager mode; VLLM_PYTHON by default",
    )
    options = parser.parse_args()
    folder, _ = common.prepare(options)
    study = common.study(options)
    device = deterministic(study)
    tokenizer, model = load_tokenizer(folder), load_model(folder, device, study.compute)
    rival = common.stock_model(folder, device)
    switch_on(rival, ComputeOptions(precision=study.compute.precision))
    pad = tokenizer.pad_token_id
    batches = [[e.prompt for e in common.rows(options, tokenizer, PROMPTS * (n + 1))[-PROMPTS:]]
               for n in range(options.rounds + 1)]  # fmt: skip

    def ours(prompts: list[list[int]], new: int, samples: int, temperature: float | None) -> list[list[int]]:
        requests = [Request(p, new, str(i)) for i, p in enumerate(prompts)]
        found = BuiltIn(model, [], pad).sample(requests, samples=samples, temperature=temperature)
        return [c.ids for group in found.completions for c in group]

    figures: dict[str, Any] = {}
    same = sum(
        a == b
        for prompts in batches
        for a, b in zip(ours(prompts, 32, 1, None), theirs(rival, prompts, pad, 32, do_sample=False), strict=True)
    )
    figures["greedy texts equal"] = f"{same} of {PROMPTS * len(batches)}"
    vllm = common.Worker([str(WORKER), str(folder)], options.vllm) if options.vllm else None
    sampling = {"do_sample": True, "temperature": 0.6, "top_k": 0, "num_return_sequences": SAMPLES}
    for new in options.new:
        seconds: dict[str, list[dict[str, float]]] = {"hargo": [], "generate": [], **({"vllm": []} if vllm else {})}
        for number, prompts in enumerate(batches):
            rivals = {
                "hargo": lambda p=prompts, n=new: ours(p, n, SAMPLES, 0.6),
                "generate": lambda p=prompts, n=new: theirs(rival, p, pad, n, **sampling),
            }
            for name, call in rivals.items():
                taken, cpu = common.timed(call)
                if number:
                    seconds[name].append({"seconds": taken, "cpu": cpu})
            if vllm is not None:
                asked = {"prompts": prompts, "new": new, "samples": SAMPLES, "temperature": 0.6}
                step = vllm.step(json.dumps(asked))
                if number:
                    seconds["vllm"].append(step)
        medians = {name: common.median(found) for name, found in seconds.items()}
        figures[str(new)] = {
            **{name: {"tokens_per_second": PROMPTS * SAMPLES * new / value} for name, value in medians.items()},
            "times_as_fast": medians["generate"] / medians["hargo"],
            "times_as_fast_cpu": common.median(seconds["generate"], "cpu") / common.median(seconds["hargo"], "cpu"),
        }
        print(new, figures[str(new)])
    if vllm is not None:
        vllm.close()
    common.write(options, "rollout", figures)


if __name__ == "__main__":
    main()
