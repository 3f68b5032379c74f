"""Model folders: safetensors weights beside their tokenizer. Every stage reads and writes these."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from hargo.config import Study
from hargo.config.options import ComputeOptions
from hargo.errors import UserError
from hargo.io import atomic_folder, write_errors
from hargo.models.linear import use_onednn
from hargo.models.switches import switch_on

logger = logging.getLogger(__name__)


def pick_device(wanted: str) -> torch.device:
    """`auto` is CUDA where there is one; asking for CUDA where there is none is an error."""
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise UserError("compute.device is 'cuda', but torch finds no CUDA device; use 'auto' or see `hargo doctor`")
    return torch.device("cuda" if available and wanted != "cpu" else "cpu")


def quiet() -> None:
    """No progress bars of transformers: they would fill batch logs."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()


def deterministic(study: Study) -> torch.device:
    """Fix the number of threads and ask for deterministic kernels; returns the device."""
    keep_memory()
    torch.set_num_threads(study.compute.threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # filling fresh memory is a debugging aid that costs a pass over every buffer
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return pick_device(study.compute.device)


def keep_memory() -> None:
    """Have the C library keep freed memory for the next tensor instead of giving it back to the system.

    By default every large tensor is fresh memory, whose first touch costs several times what filling it does.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):  # the numbers are glibc's
        libc.mallopt(-4, 0)  # M_MMAP_MAX: large blocks from the heap too
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: the heap does not shrink


def require(folder: str | Path) -> None:
    """UserError unless `folder` holds a model."""
    if not (Path(folder) / "config.json").is_file():
        raise UserError(f"{folder}: no model here (config.json is missing); run the stage that makes it")


@contextmanager
def readable(folder: str | Path) -> Iterator[None]:
    """UserError of one line for a model folder that is damaged or lacks a file."""
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{folder}: cannot be read as a model ({first}); run the stage that makes it") from None


def load_tokenizer(folder: str | Path, **options: Any) -> Any:
    """The tokenizer in a local folder; `options` go to transformers, for a hub id or a GGUF file."""
    from transformers import AutoTokenizer

    if options:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **options)
    else:
        require(folder)
        with readable(folder):
            tokenizer = AutoTokenizer.from_pretrained(str(folder))
    if tokenizer.eos_token_id is None:
        raise UserError(f"{folder}: the tokenizer has no end-of-sequence token, which every answer must end with")
    if tokenizer.pad_token_id is None:
        # padding is masked by position, so that any id serves
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_model(folder: str | Path, device: torch.device, compute: ComputeOptions | None = None) -> Any:
    """The causal language model in a local folder, in float32 and evaluation mode (no dropout).

    Weights in a 16-bit type would swallow the small updates of RL; `compute.precision` is that of matrix products
    alone.
    """
    from transformers import AutoModelForCausalLM

    quiet()
    require(folder)
    with readable(folder):
        model: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, local_files_only=True)
    model = model.to(device).eval()
    use_onednn(model)
    if compute is not None:
        switch_on(model, compute)
    return model


def save_model(folder: str | Path, model: Any, tokenizer: Any) -> None:
    """Write model and tokenizer as one folder that appears whole or not at all."""
    quiet()
    with atomic_folder(folder) as temporary:
        with write_errors(temporary):
            model.save_pretrained(temporary, safe_serialization=True)
        tokenizer.save_pretrained(temporary)


def room_of(model: Any) -> int | None:
    """Tokens that fit into the model's context; None where its configuration sets no bound."""
    room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return None if room is None else int(room)


def check_context(model: Any, longest: int, what: str) -> None:
    """UserError where `longest` tokens are more than the model has positions for."""
    room = getattr(model.config, "max_position_embeddings", None)
    if room is not None and longest > room:
        raise UserError(
            f"{what}: prompt and answer take up to {longest} tokens, the model has room for {room}; "
            "set max_prompt_tokens or max_new_tokens lower"
        )


def stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Every id that ends an answer: the tokenizer's and all of the generation configuration's."""
    ids = {tokenizer.eos_token_id}
    configured = model.generation_config.eos_token_id
    if configured is not None:
        ids.update(configured if isinstance(configured, list) else [configured])
    return sorted(ids)
