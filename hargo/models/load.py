"""Model folders: safetensors weights beside their tokenizer. Every stage reads and writes these."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch

from hargo.errors import UserError
from hargo.io import atomic_folder

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


def load_tokenizer(folder: str | Path, **options: Any) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder), **options)
    if tokenizer.eos_token_id is None:
        raise UserError(f"{folder}: the tokenizer has no end-of-sequence token, which every answer must end with")
    if tokenizer.pad_token_id is None:
        # padding is masked by position, so that any id serves
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_model(folder: str | Path, device: torch.device, dtype: str = "float32") -> Any:
    """The causal language model in a local folder, in evaluation mode (no dropout)."""
    from transformers import AutoModelForCausalLM

    quiet()
    if not (Path(folder) / "config.json").is_file():
        raise UserError(f"{folder}: no model here (config.json is missing); run the stage that makes it")
    model: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=getattr(torch, dtype), local_files_only=True)
    return model.to(device).eval()


def save_model(folder: str | Path, model: Any, tokenizer: Any) -> None:
    """Write model and tokenizer as one folder that appears whole or not at all."""
    quiet()
    with atomic_folder(folder) as temporary:
        model.save_pretrained(temporary, safe_serialization=True)
        tokenizer.save_pretrained(temporary)


def stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Every id that ends an answer: the tokenizer's and all of the generation configuration's."""
    ids = {tokenizer.eos_token_id}
    configured = model.generation_config.eos_token_id
    if configured is not None:
        ids.update(configured if isinstance(configured, list) else [configured])
    return sorted(ids)
