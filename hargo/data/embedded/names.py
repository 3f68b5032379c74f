"""Names, sizes and types that kernels are written with.

Each pool has a part shared by training and evaluation, a part for training only and a part for evaluation
only; sizes are disjoint altogether. No name is a Fortran intrinsic, a C keyword or a word about the label.
"""

from __future__ import annotations

import random
from typing import NamedTuple


class Pool(NamedTuple):
    shared: list[str]
    train: list[str]
    eval: list[str]


def _pool(shared: str, train: str, evaluation: str) -> Pool:
    return Pool(shared.split(), train.split(), evaluation.split())


ARRAYS = _pool(
    "a b c x y z data buf",
    "vec arr out src val u v w field grid temp work a1 x1 b2 y2",
    "b1 y1 x2 c2 vec1 arr2 buf1 row col input output",
)
MATRICES = _pool("m mat a2 tab", "w2 plane matrix table g2 board", "sheet mesh block lattice")
INDICES = _pool("idx map", "ind perm pos order", "lookup target slot")
SCALARS = _pool(
    "s t tmp total r",
    "res best value cur factor s1 t2",
    "s2 t1 tmp1 res2 local scale",
)
INTEGERS = _pool("id k", "tid me pos0 off at", "who rank where0")
LOOPS = _pool("i j k", "l ii jj", "ix iy iz")
LOCKS = _pool("lck lock", "guard l1 l2", "mutex gate door")
FUNCTIONS = _pool("f g", "update apply func compute", "kernel0 step transform")
SIZES = _pool("n", "len nx cnt size0", "total0 dim extent")

TRAIN_SIZES = [20, 24, 32, 40, 48, 50, 60, 64, 80, 100, 120, 128, 150, 200, 250, 256, 300, 500, 512, 1000, 1024]
EVAL_SIZES = [28, 36, 44, 56, 70, 90, 96, 110, 140, 160, 180, 220, 240, 320, 400, 600, 640, 800]

#: role letter in the pseudo-code -> pool its name is drawn from
ROLES: dict[str, Pool] = {
    **dict.fromkeys("ABCD", ARRAYS),
    **dict.fromkeys("HW", ARRAYS),
    **dict.fromkeys("MQ", MATRICES),
    "P": INDICES,
    **dict.fromkeys("STUV", SCALARS),
    **dict.fromkeys("XYZ", INTEGERS),
    **dict.fromkeys("IJL", LOOPS),
    **dict.fromkeys("GO", LOCKS),
    "F": FUNCTIONS,
    "N": SIZES,
}

#: (C type, printf format, Fortran type); kernels of one draw have one element type
TYPES = [
    ("int", "%d", "integer"),
    ("long", "%ld", "integer(8)"),
    ("float", "%f", "real"),
    ("double", "%f", "double precision"),
    ("double", "%f", "real(8)"),
]


def draw_names(rng: random.Random, roles: list[str], evaluation: bool) -> dict[str, str]:
    """A distinct name for every role; loop variables are mostly the usual i, j, k."""
    names: dict[str, str] = {}
    for role in roles:
        pool = ROLES[role]
        own = pool.eval if evaluation else pool.train
        plain = 0.8 if role in "IJL" or evaluation else 0.6
        while True:
            name = rng.choice(pool.shared if rng.random() < plain else own)
            if name not in names.values():
                break
        names[role] = name
    return names


def draw_size(rng: random.Random, evaluation: bool, small: bool) -> int:
    """An even array length; `small` for matrices."""
    sizes = EVAL_SIZES if evaluation else TRAIN_SIZES
    return rng.choice([size for size in sizes if size <= 100] if small else sizes)
