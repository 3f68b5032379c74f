"""Checkpoints: everything a run needs to resume as if it had never stopped, or to train for longer than was planned.

A checkpoint is a folder `step-<n>` written under a temporary name, synced, then renamed; its last file is the marker
`COMPLETE`. The newest folder with a marker wins; half-written ones are ignored and removed. Only safetensors and JSON.
Weights that are not trained are not in it: the model that a run starts from has them, and its digest is among the
settings, whose digest names the folder of a run's checkpoints. How long the run is to be is not among these settings,
except for what the learning rates depend on: a longer run resumes from the checkpoint of a shorter one.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from hargo.errors import UserError
from hargo.io import atomic_folder, read_json, write_errors, write_json, write_text
from hargo.training.lock import confirm

logger = logging.getLogger(__name__)
MARKER = "COMPLETE"
KEEP = 2


def complete(folder: Path) -> list[Path]:
    """Complete checkpoints in `folder`, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / MARKER).is_file())


def save(
    folder: Path,
    step: int,
    model: torch.nn.Module,
    optimizers: Mapping[str, torch.optim.Optimizer],
    state: dict[str, Any],
) -> None:
    """Write the checkpoint of `step` finished steps and remove all but the newest `KEEP`.

    optimizers: by the name of their state; state: JSON values, such as a method's running baseline
    UserError where another process has taken `folder` over.
    """
    confirm(folder)
    trained = _trained(model)
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in trained.items()}
    tensors = {f"model/{name}": parameter.detach() for name, parameter in trained.items()}
    for kind, optimizer in optimizers.items():
        for parameter, moments in optimizer.state.items():
            tensors |= {f"{kind}/{names[parameter]}/{key}": value for key, value in moments.items()}
    tensors["rng/cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["rng/cuda"] = torch.cuda.get_rng_state()
    with atomic_folder(folder / f"step-{step:07d}") as temporary:
        with write_errors(temporary):
            save_file({key: value.contiguous() for key, value in tensors.items()}, temporary / "tensors.safetensors")
        write_json(temporary / "state.json", {"step": step, **state})
        write_text(temporary / MARKER, "")
    for old in complete(folder)[:-KEEP]:
        remove(old)


def remove(path: Path) -> None:
    """Delete a checkpoint, marker first, so that a half-deleted one never counts as complete."""
    (path / MARKER).unlink()
    shutil.rmtree(path, ignore_errors=True)


def load_newest(
    folder: Path,
    model: torch.nn.Module,
    optimizers: Mapping[str, torch.optim.Optimizer],
    usable: Callable[[dict[str, Any]], bool] = lambda state: True,
) -> dict[str, Any] | None:
    """Restore the newest complete checkpoint into model and optimizers; its state, or None where there is none.

    A checkpoint that cannot be read is set aside, and one whose state is not `usable`, as of a longer run, removed; the
    one before it is taken.
    """
    whole = complete(folder)
    for path in (*folder.glob(".step-*"), *folder.glob("step-*")):
        if path not in whole:  # left by a run that died while writing or deleting
            shutil.rmtree(path, ignore_errors=True)
    for path in reversed(whole):
        try:
            state: dict[str, Any] = read_json(path / "state.json")
            if not usable(state):
                logger.info("checkpoint %s is removed, since this run cannot resume from it", path)
                remove(path)
                continue
            tensors = load_file(path / "tensors.safetensors")
            _check_names(model, tensors)
        except (UserError, OSError, SafetensorError) as error:
            logger.warning("checkpoint %s cannot be read (%s); using the one before it", path, error)
            path.rename(path.with_name(f"broken-{path.name}"))
            continue
        _restore(model, optimizers, tensors)
        return state
    return None


def _trained(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _check_names(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """UserError unless the checkpoint has the tensors that the model trains, and these alone."""
    saved = {key.removeprefix("model/"): value.shape for key, value in tensors.items() if key.startswith("model/")}
    expected = {name: parameter.shape for name, parameter in _trained(model).items()}
    if saved != expected:
        other = sorted({*saved.items()} ^ {*expected.items()})[0][0]
        raise UserError(f"it belongs to another model: {other} differs")


def _restore(
    model: torch.nn.Module, optimizers: Mapping[str, torch.optim.Optimizer], tensors: dict[str, torch.Tensor]
) -> None:
    parameters = _trained(model)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[f"model/{name}"])
    for optimizer in optimizers.values():
        optimizer.state.clear()
    for key, value in tensors.items():
        kind, _, rest = key.partition("/")
        if kind in optimizers:
            name, _, moment = rest.rpartition("/")
            parameter = parameters[name]
            # copied, since what safetensors gives is memory of the file
            optimizers[kind].state[parameter][moment] = value.to(parameter.device, copy=True)
    torch.set_rng_state(tensors["rng/cpu"])
    if "rng/cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["rng/cuda"])
