"""Which library computes a product of matrices in float32 on the CPU: torch's own, MKL, or oneDNN, by measurement.

Which one is faster depends on the processor's maker, on the instructions that it has and on the shape: MKL uses at
most AVX2 on AMD's processors, oneDNN takes longer to start and less time per row. The choice is made from the table
below and from nothing else, so that it is the same in every run on a machine.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch

from hargo.machine import processor


class Speed(NamedTuple):
    """GFLOP/s of one thread: rows [rows, deep] times a matrix [wide, deep] transposed.

    mkl: as torch does it; onednn: by oneDNN; packed: by oneDNN with the matrix laid out for it beforehand
    """

    rows: int
    deep: int
    wide: int
    mkl: float
    onednn: float
    packed: float


#: processor -> where its figures are from
MACHINES = {
    "AMD AVX512": "an EPYC of the Zen 4 generation",
    # the Zen 3's are the first three, without a figure of their own for a matrix laid out beforehand
    "AMD AVX2": "a Zen 3 and on a Zen 4 held to AVX2",
}

#: processor -> figures of the shapes of the demo's model (160 and 448 wide) and of SmolLM2-135M's. A Zen 5, whose
#: vectors are twice as wide, was measured at 470 GFLOP/s by oneDNN and 215 by MKL over SmolLM2's forward pass
MEASURED = {
    "AMD AVX512": (
        Speed(1, 160, 448, 10.2, 5.5, 6.6),
        Speed(8, 160, 448, 41.3, 26.1, 36.8),
        Speed(64, 160, 448, 77.2, 75.0, 85.5),
        Speed(1200, 160, 448, 77.4, 89.9, 95.1),
        Speed(1, 576, 1536, 23.6, 26.6, 24.3),
        Speed(8, 576, 1536, 57.3, 61.9, 83.3),
        Speed(64, 576, 1536, 87.0, 94.5, 101.2),
        Speed(1200, 576, 1536, 88.5, 100.5, 97.3),
        Speed(1, 1536, 576, 17.9, 17.4, 17.8),
        Speed(8, 1536, 576, 43.4, 48.5, 65.8),
        Speed(64, 1536, 576, 80.0, 86.0, 92.1),
        Speed(1200, 1536, 576, 93.8, 104.4, 108.0),
        Speed(1, 576, 49152, 5.7, 7.3, 7.4),
        Speed(8, 576, 49152, 23.9, 34.5, 58.3),
        Speed(32, 576, 49152, 55.7, 72.9, 96.5),
        Speed(256, 576, 49152, 60.2, 87.3, 87.3),
    ),
    "AMD AVX2": (
        Speed(1200, 576, 1536, 70.6, 65.1, 65.1),
        Speed(1200, 160, 448, 51.1, 61.5, 61.5),
        Speed(32, 576, 49152, 28.2, 41.4, 41.4),
        Speed(1, 160, 448, 13.1, 7.5, 7.9),
        Speed(8, 160, 448, 44.8, 28.9, 41.6),
        Speed(64, 160, 448, 83.7, 72.1, 87.1),
        Speed(1, 576, 1536, 20.6, 22.5, 19.4),
        Speed(8, 576, 1536, 48.1, 43.4, 63.0),
        Speed(64, 576, 1536, 78.5, 80.2, 83.6),
        Speed(1, 1536, 576, 27.6, 26.1, 23.8),
        Speed(8, 1536, 576, 57.6, 52.7, 73.9),
        Speed(64, 1536, 576, 92.8, 95.8, 95.7),
        Speed(1, 576, 49152, 5.3, 6.7, 7.2),
        Speed(8, 576, 49152, 20.2, 23.9, 37.1),
        Speed(256, 576, 49152, 74.1, 85.2, 90.1),
    ),
}


def has_onednn() -> bool:
    return hasattr(torch.ops.mkldnn, "_linear_pointwise")


@lru_cache(maxsize=4096)
def by_onednn(kind: str, rows: int, deep: int, wide: int, packed: bool = False) -> bool:
    """Whether oneDNN was faster at the measured shape that is nearest: in ratios, as speeds depend on them.

    kind: of processor, see `hargo.machine.processor`; torch's own where that has not been measured
    """
    if kind not in MEASURED:
        return False

    def distance(speed: Speed) -> float:
        return math.dist(*([math.log(max(1, size)) for size in shape] for shape in (speed[:3], (rows, deep, wide))))

    near = min(MEASURED[kind], key=distance)
    return (near.packed if packed else near.onednn) > near.mkl


def kernels() -> str:
    """What computes products of float32 matrices on this processor, in words, for `hargo doctor` and `run.json`."""
    kind = processor()
    if not has_onednn():
        return f"torch's own, since torch is built without oneDNN ({kind})"
    if kind not in MEASURED:
        return f"torch's own, since nothing else was measured on this kind of processor ({kind})"
    return f"oneDNN or torch's own by shape ({kind}, measured on {MACHINES[kind]})"
