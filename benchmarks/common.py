"""What the benchmarks share: rows and a model that has seen them, workers that take turns, the machine, tables.

A rival runs in a process of its own and takes one step when told to, so that rivals take turns on one machine and
each has its own peak of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hargo import provenance
from hargo.machine import available_cores, bind_threads

ROOT = Path(__file__).resolve().parent.parent
CORES = os.sched_getaffinity(0)
THREADS = int(os.environ.get("OMP_NUM_THREADS", min(2, available_cores())))
bind_threads(THREADS)  # before torch is imported: see README

import torch  # noqa: E402

from hargo.config import Study, load_study  # noqa: E402
from hargo.config.options import ComputeOptions  # noqa: E402
from hargo.models.encode import Example  # noqa: E402

NEW_TOKENS = 64


def parser(purpose: str | None) -> argparse.ArgumentParser:
    """Options that all benchmarks have."""
    made = argparse.ArgumentParser(description=purpose, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--study", type=Path, default=ROOT / "config" / "hpcgpt-smol.yaml")
    made.add_argument("--hpcgpt", type=Path, help="folder of the HPC-GPT files; the study's own by default")
    made.add_argument("--cache", type=Path, default=ROOT / "results" / "cache" / "bench", help="model and rows")
    made.add_argument("--out", type=Path, default=ROOT / "results" / "bench", help="where figures are written")
    made.add_argument("--rounds", type=int, default=5, help="steps of each rival, after one that warms up")
    made.add_argument(
        "--races", action="store_true", help="race rows alone, answers to 2 tokens, beta 0, hence no reference"
    )
    return made


def new_tokens(options: argparse.Namespace) -> int:
    return 2 if options.races else NEW_TOKENS


def study(options: argparse.Namespace, compute: dict[str, Any] | None = None) -> Study:
    """The study that the benchmarks time: real rows, a real model, answers of every task to 64 tokens."""
    found = load_study(options.study)
    rl = {
        "max_new_tokens": dict.fromkeys(found.tasks, new_tokens(options)),
        "beta": 0.0 if options.races else found.rl.beta,
        "tokens_per_pass": found.rl.tokens_per_pass,
    }
    over: dict[str, Any] = {
        "rl": rl,
        "compute": {"threads": THREADS, **(compute or {})},
        "sft": {"max_steps": 40, "checkpoint_every": 40},
    }
    if options.hpcgpt:
        over["data"] = {"path": str(options.hpcgpt)}
    return load_study(options.study, over)


def prepare(options: argparse.Namespace) -> tuple[Path, Path]:
    """Folders of the model and the rows, made by the project's own stages where they are missing.

    The model has had a few steps of SFT: a base model never ends its answers, which are the workload.
    """
    from hargo.data.build import build, write
    from hargo.models.prepare import prefetch
    from hargo.models.prepare import prepare as prepare_model
    from hargo.training.job import Places, train

    made, cache = study(options), options.cache
    data, model = cache / "data", cache / "sft" / "model"
    if not (data / "train.jsonl").is_file():
        write(build(made.data, made.tasks), data)
    if not (model / "config.json").is_file():
        prefetch(made)
        prepare_model(made, data, cache / "base")
        train(made, "sft", 0, Places(cache / "base", data, cache / "sft", cache / "checkpoints"))
    return model, data


def rows(options: argparse.Namespace, tokenizer: Any, count: int) -> list[Example]:
    """`count` training rows drawn from all tasks as they come (or from races), the same on every call."""
    from hargo.training.examples import training_examples

    made = study(options)
    examples = training_examples(made, tokenizer, options.cache / "data", made.rl)
    if options.races:
        examples = [example for example in examples if example.row.task.startswith("race")]
    order = torch.randperm(len(examples), generator=torch.Generator().manual_seed(0)).tolist()
    return [examples[i] for i in order[:count]]


def stock_model(folder: Path, device: torch.device) -> Any:
    """The model as users of transformers load it, in float32, for rivals."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()


class InOrder:
    """Takes the place of the training order: step n has the n-th `batch` rows."""

    def __init__(self, batch: int):
        self.batch = batch

    def indices(self, step: int) -> list[int]:
        return list(range(step * self.batch, (step + 1) * self.batch))


def peak_memory() -> int:
    """Bytes: the most this process has held, on the GPU where there is one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def serve(step: Callable[[], dict[str, Any]]) -> None:
    """The worker's side: take a step for every line on standard input and report it on standard output."""
    for _ in turns():
        began = now()
        report(began, step())


def turns() -> Iterator[None]:
    print("ready", flush=True)
    for _ in sys.stdin:
        yield


def now() -> tuple[float, float]:
    """By the clock, and of the processor: where other work disturbs the first, the second still tells something."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter(), time.process_time()


def report(began: tuple[float, float], found: dict[str, Any]) -> None:
    seconds, cpu = (end - start for start, end in zip(began, now(), strict=True))
    print("step", json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak_memory(), **found}), flush=True)


def all_cores() -> None:
    """A process whose threads are bound leaves its children one core alone."""
    os.sched_setaffinity(0, CORES)


class Worker:
    """A rival in a process of its own: this script again, with `arguments`."""

    def __init__(self, arguments: Sequence[str], python: str = sys.executable):
        self.process = subprocess.Popen(
            [python, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=all_cores,
        )
        self._await("ready")

    def step(self, told: str = "go") -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{told}\n")
        self.process.stdin.flush()
        return json.loads(self._await("step"))

    def _await(self, word: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line[len(word) :]
        raise SystemExit(f"a worker ended with status {self.process.wait()}: {' '.join(self.process.args[1:])}")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def again(script: str, options: argparse.Namespace, *more: Any) -> list[str]:
    """The command line of a worker: this script with the same folders and rounds."""
    shared = ["--study", options.study, "--cache", options.cache, "--out", options.out, "--rounds", options.rounds]
    if options.hpcgpt:
        shared += ["--hpcgpt", options.hpcgpt]
    if options.races:
        shared += ["--races"]
    return [str(part) for part in (script, *shared, *more)]


def take_turns(rivals: dict[str, Sequence[str]], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Steps of each rival, one after the other in every round; the first round warms up and is left out."""
    workers = {name: Worker(arguments) for name, arguments in rivals.items()}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in rivals}
    for number in range(rounds + 1):
        for name, worker in workers.items():
            step = worker.step()
            print(f"  {name} {number}: {step}", file=sys.stderr, flush=True)
            if number:
                found[name].append(step)
    for worker in workers.values():
        worker.close()
    return found


def median(steps: Sequence[dict[str, Any]], key: str = "seconds") -> float:
    return statistics.median(step[key] for step in steps)


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of one call by the clock, and of the processor."""
    began = now()
    call()
    return now()[0] - began[0], time.process_time() - began[1]


def clock(call: Callable[[], Any], times: int = 5) -> float:
    """Median seconds of a call, after one that warms up."""
    taken = []
    for number in range(times + 1):
        began = time.perf_counter()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if number:
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def gemm_peak(device: str = "cpu", dtype: torch.dtype = torch.float32) -> float:
    """FLOP/s of the product of two square matrices, large for the device, by torch or as models here compute it."""
    from hargo.engine.linear import use_onednn

    size = 2048 if device == "cpu" else 8192
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    layer = torch.nn.Sequential(torch.nn.Linear(size, size, bias=False, device=device, dtype=dtype))
    use_onednn(layer)
    with torch.no_grad():
        return 2 * size**3 / min(clock(lambda: a @ b, 9), clock(lambda: layer(a), 9))


def bandwidth(device: str = "cpu") -> float:
    """Bytes/s at which half a gigabyte is read."""
    many = torch.ones(1 << 27, device=device)
    return many.numel() * many.element_size() / clock(many.sum, 9)


def machine() -> dict[str, Any]:
    """What the figures depend on, as `run.json` has it."""
    from importlib import metadata

    keep = ("versions", "git", "platform", "cpu", "cores", "device", "threads", "environment")
    found = provenance.record(ComputeOptions())
    versions = found["versions"] | {"trl": metadata.version("trl")} if _installed("trl") else found["versions"]
    # threads that are bound make the process see one core
    return {**{key: found[key] for key in keep}, "cores": len(CORES), "versions": versions}


def _installed(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None


def write(options: argparse.Namespace, name: str, figures: dict[str, Any]) -> None:
    """Figures and machine to <out>/<name>.json."""
    from hargo.io import write_json

    options.out.mkdir(parents=True, exist_ok=True)
    write_json(options.out / f"{name}.json", {"figures": figures, "machine": machine()})
    print(f"{options.out / name}.json")
