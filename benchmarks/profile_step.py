"""Where the time of our step goes: its parts by the clock, matrix products by torch's profiler and FLOP counter."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import common
import torch
from torch.autograd import DeviceType
from torch.utils.flop_counter import FlopCounterMode

from hargo.training import update
from hargo.training.trainers.rollouts import Rollouts
from hargo.training.update import OneLoss

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addbmm", "mkldnn::_linear_pointwise")


def work(x: Sequence[int], weight: Sequence[int], *_: Any, **__: Any) -> int:
    """Floating-point operations of oneDNN's linear layer, which torch's counter does not know."""
    return 2 * math.prod(x) * weight[0]


def profile(options: argparse.Namespace, policy: Any, stage: Rollouts, chosen: Any, learner: OneLoss) -> dict[str, Any]:
    """Median seconds of every part over the rounds, and of one more step the share of its matrix products."""
    seconds: dict[str, float] = defaultdict(float)

    def timed(owner: Any, name: str, label: str) -> None:
        inner: Callable = getattr(owner, name)

        def outer(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            result = inner(*args, **kwargs)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seconds[label] += time.perf_counter() - began
            return result

        setattr(owner, name, outer)

    written: list[int] = []
    sample = stage.sampler.sample

    def remembered(*args: Any, **kwargs: Any) -> Any:
        found = sample(*args, **kwargs)
        written.append(max(len(completion.ids) for group in found.completions for completion in group))
        return found

    stage.sampler.sample = remembered  # type: ignore[method-assign]
    timed(stage.sampler, "sample", "rollout")
    timed(stage, "_reward", "reward")
    timed(stage, "_ask_reference", "reference")
    timed(update, "score", "forward")
    timed(torch.Tensor, "backward", "backward")
    timed(update, "clip_gradient", "clip")
    timed(learner.optimizer, "step", "optimiser")
    timed(learner, "apply", "step")
    rounds = []
    for number in range(options.rounds + 1):
        seconds.clear()
        record = learner.apply(stage, number, chosen.learning_rate)
        rounds.append(dict(seconds))
        print(number, {k: round(v, 2) for k, v in seconds.items()}, record["tokens"], round(record["length/mean"], 1))
    parts = {name: common.median(rounds[1:], name) for name in rounds[1]}
    # the first token comes with the prompts; every other reads all weights again
    read = (statistics.median(written[1:]) - 1) * sum(p.numel() * p.element_size() for p in policy.parameters())
    known = {torch.ops.mkldnn._linear_pointwise: work} if hasattr(torch.ops.mkldnn, "_linear_pointwise") else {}
    with FlopCounterMode(display=False, custom_mapping=known) as counter:
        learner.apply(stage, options.rounds, chosen.learning_rate)
    cuda = policy.device.type == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU, *([torch.profiler.ProfilerActivity.CUDA] if cuda else [])]
    with torch.profiler.profile(activities=activities) as trace:
        learner.apply(stage, options.rounds, chosen.learning_rate)
    own = {
        event.key: (event.self_device_time_total if cuda else event.self_cpu_time_total) / 1e6
        for event in trace.key_averages()
        if event.device_type == DeviceType.CPU  # a kernel's time is that of the operation that launched it
    }
    total = sum(own.values())
    kind = getattr(torch, common.study(options).compute.precision)
    peak, bandwidth = common.gemm_peak(policy.device.type, kind), common.bandwidth(policy.device.type)
    flops = counter.get_total_flops()
    last = rounds[-1]["step"]
    top = sorted(own.items(), key=lambda item: -item[1])[:15]
    for key, value in top:
        print(f"{key:50} {value:7.2f} s {value / total:6.1%}")
    print(f"{flops / 1e12:.2f} TFLOP, at the peak of {peak / 1e9:.0f} GFLOP/s {flops / peak:.2f} s of {last:.2f} s")
    return {
        "parts": parts,
        "gemm_share": sum(own.get(key, 0.0) for key in PRODUCTS) / total,
        "gemm_peak": peak,
        "flops": flops,
        "floor_seconds": flops / peak,
        "bandwidth": bandwidth,
        "decoding_floor_seconds": read / bandwidth,
        "seconds": last,
        "own_seconds": dict(top),
    }
