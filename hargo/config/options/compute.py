"""How jobs compute, and where fetched files are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveInt

from hargo.config.options.base import Options


class ComputeOptions(Options):
    """Part of the study because floating-point sums depend on it."""

    threads: PositiveInt = Field(2, description="CPU threads of each training and evaluation job.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where available.")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="Precision of matrix products; weights, losses and sums stay float32. On CPUs bfloat16 is slower.",
    )
    compile: bool = Field(
        False, description="Compile the operations between matrix products in training. Needs a C++ compiler on CPUs."
    )
    gradient_checkpointing: bool = Field(
        False, description="Recompute activations in the backward pass: less memory, more time, the same results."
    )
    fused_adamw: bool = Field(True, description="Use one kernel for the whole optimiser step.")


class PrefetchOptions(Options):
    """Where files fetched from the network are kept."""

    cache: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        Path("results/cache"), strict=False, description="Folder shared by all studies."
    )
