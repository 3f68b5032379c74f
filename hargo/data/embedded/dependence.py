"""Families where the question is whether two iterations touch one element.

The labels follow from the index sets: a loop is racy if and only if some element is written in one
iteration and read or written in another. Each docstring says why the twins differ.
"""

from __future__ import annotations

from hargo.data.embedded.family import Draw, code, family
from hargo.data.embedded.program import Sketch


@family("dependence")
def flow(d: Draw, racy: bool) -> str:
    """Reads k elements behind the one it writes. Racy unless nothing that is read is ever written:
    another array, or a distance h that leaves the whole reading range 0..n-1-h below h."""
    k, n = d.k, d.n
    if d.rng.random() < 0.25:
        h = n // 2 - d.number(1, n // 5) if racy else n // 2 + d.number(0, n // 5)
        low, read = str(h), f"A[I-{h}]"
    else:
        low = str(k)
        read = f"A[I-{k}]" if racy else d.pick(f"B[I-{k}]", "A[I]", f"A[I] + B[I-{k}]")
    return code(f"""
        omp parallel for ?
          for I in {low}..N-1
            A[I] = {read.replace("-", " - ")}{d.offset()}
            {d.noise()}
        """)


@family("dependence")
def anti(d: Draw, racy: bool) -> str:
    """Reads k elements ahead of the one it writes. Racy unless the elements ahead are of another array
    or the loop ends before the first element it reads (h >= length of the loop)."""
    k, n = d.k, d.n
    if d.rng.random() < 0.25:
        last = n // 2 - 1
        h = last + 1 - d.number(1, n // 4) if racy else last + 1
        high, read = str(last), f"A[I + {h}]"
    else:
        high = f"N-{k + 1}"
        read = f"A[I + {k}]" if racy else d.pick(f"B[I + {k}]", "A[I]", f"A[I] + B[I + {k}]")
    return code(f"""
        omp parallel for ?
          for I in 0..{high}
            A[I] = {read}{d.offset()}
            {d.noise()}
        """)


@family("dependence")
def target(d: Draw, racy: bool) -> str:
    """Where an iteration writes: racy where two iterations share a target, that is where the index is
    constant, a remainder or a quotient; one-to-one indices (reversed, doubled, shifted) are not."""
    n, high = d.n, "N-1"
    if racy:
        index = d.pick("I / 2", f"I % {d.pick('2', '4', '5', '8')}", "0", str(d.number(1, 9)), "I / 4")
    else:
        index = d.pick(f"{n - 1} - I", "I", "2 * I", "2 * I + 1", f"I + {d.k}")
        if index.startswith("2"):
            high = str(n // 2 - 1)
        elif index.startswith("I +"):
            high = f"N-{d.k + 1}"
    return code(f"""
        omp parallel for ?
          for I in 0..{high}
            A[{index}] = {d.value()}
            {d.noise()}
        """)


@family("dependence")
def step(d: Draw, racy: bool) -> str:
    """Loops with step s: iterations write elements s apart, so a read o elements away meets another
    iteration's write if and only if s divides o."""
    s = d.number(2, 4)
    far = s * d.number(1, 2) if racy else d.rng.choice([o for o in range(1, 2 * s) if o % s])
    if d.rng.random() < 0.5:
        bounds, read = f"{2 * s}..N-1", f"A[I - {far}]"
    else:
        bounds, read = f"0..N-{2 * s + 1}", f"A[I + {far}]"
    return code(f"""
        omp parallel for ?
          for I in {bounds} step {s}
            A[I] = {read}{d.offset()}
            {d.noise()}
        """)


@family("dependence")
def doubled(d: Draw, racy: bool) -> str:
    """Elements 2i and 2i+1 belong to iteration i. Staying inside the pair is free of conflicts, taking an
    element of the next pair, or writing A[i] while A[2i] is read, is not."""
    pairs = [("2 * I", "2 * I + 2"), ("2 * I + 1", "2 * I + 3"), ("I", "2 * I"), ("2 * I + 2", "2 * I")]
    free = [("2 * I", "2 * I + 1"), ("2 * I + 1", "2 * I"), ("2 * I", "2 * I + 3"), ("2 * I + 1", "2 * I + 2")]
    write, read = d.rng.choice(pairs if racy else free)
    return code(f"""
        omp parallel for ?
          for I in 0..{d.n // 2 - 2}
            A[{write}] = A[{read}]{d.offset()}
            {d.noise()}
        """)


@family("dependence")
def two_statements(d: Draw, racy: bool) -> str:
    """The first statement writes B[i], the second reads B: at i it meets its own iteration only, at i±k
    another one. An array that no statement writes may be read anywhere."""
    k = d.k
    shift = d.pick(f"I - {k}", f"I + {k}")
    read = f"B[{shift}]" if racy else d.pick("B[I]", f"C[{shift}]", f"B[I] + C[{shift}]")
    lines = [f"B[I] = {d.pick('C[I] * 2', 'I', 'C[I] + 1', 'B[I] + 1', 'C[I] - I')}", f"A[I] = {read}{d.offset()}"]
    d.rng.shuffle(lines)
    return code(f"""
        omp parallel for ?
          for I in {k}..N-{k + 1}
            {lines[0]}
            {lines[1]}
            {d.noise()}
        """)


@family("dependence")
def pivot(d: Draw, racy: bool) -> str:
    """Every iteration reads one fixed element m. Racy if and only if the loop also writes it."""
    m = d.number(0, 9)
    name, low = ("A", d.number(0, m)) if racy else d.rng.choice([("A", m + 1), ("B", d.number(0, m))])
    return code(f"""
        omp parallel for ?
          for I in {low}..N-1
            A[I] = {d.pick("", "A[I] - ", "C[I] + ", "2 * ")}{name}[{m}]
            {d.noise()}
        """)


@family("dependence")
def indirect(d: Draw, racy: bool) -> str:
    """Access through an index array. Its values are all different (identity, reversal, rotation) or repeat
    (quotient, remainder); repeated targets are fine only where the update is atomic."""
    repeat = d.pick("I / 2", f"I % {d.pick('3', '4', '8', '10')}", "I / 3", str(d.number(0, 9)))
    unique = d.pick("I", f"{d.n - 1} - I", f"(I + {d.number(1, 9)}) % {d.n}")
    atomic = not racy and d.rng.random() < 0.3
    return code(f"""
        for I in 0..N-1
          P[I] = {repeat if racy or atomic else unique}
        omp parallel for ?
          for I in 0..N-1
            {"omp atomic" if atomic else ""}
            {"  " if atomic else ""}A[P[I]] += {d.pick("B[I]", "1", "I", "B[I] * 2")}
        """)


def _shifts(d: Draw) -> tuple[str, str, str]:
    """M indexed at (i, j), at the neighbour along i and at the neighbour along j."""
    sign = d.pick("-", "+")
    return "M[I][J]", f"M[I {sign} 1][J]", f"M[I][J {sign} 1]"


@family("matrix", small=True)
def outer_loop(d: Draw, racy: bool) -> str:
    """The loop over i is parallel: the neighbour along i belongs to another thread, the one along j does not."""
    own, along_i, along_j = _shifts(d)
    read = d.pick(along_i, along_i, f"{along_i} + {along_j}") if racy else d.pick(along_j, along_j, own)
    return code(f"""
        omp parallel for inner(J) ?
          for I in 1..N-2
            for J in 1..N-2
              {own} = {read}{d.pick("", " + 1", " * 2", " + Q[I][J]")}
        """)


@family("matrix", small=True)
def inner_loop(d: Draw, racy: bool) -> str:
    """Only the loop over j is parallel: the neighbour along j belongs to another thread, while steps of i
    are separated by the barrier at the end of each inner loop."""
    own, along_i, along_j = _shifts(d)
    read = d.pick(along_j, along_j, f"{along_i} + {along_j}") if racy else d.pick(along_i, along_i, own)
    return code(f"""
        for I in 1..N-2
          omp parallel for ?
            for J in 1..N-2
              {own} = {read}{d.pick("", " + 1", " * 2", " + Q[I][J]")}
        """)


@family("matrix", small=True)
def collapse(d: Draw, racy: bool) -> str:
    """collapse(2) spreads both loops: any neighbour of the written matrix is in another iteration. Without
    it the neighbour along j is in the same iteration; another matrix may be read anywhere."""
    own, along_i, along_j = _shifts(d)
    other = d.pick(along_i, along_j).replace("M", "Q")
    if racy:
        clause, read = d.rng.choice([("collapse(2)", along_j), ("collapse(2)", along_i), ("inner(J)", along_i)])
    else:
        clause, read = d.rng.choice([("collapse(2)", other), ("collapse(2)", own), ("inner(J)", along_j)])
    return code(f"""
        omp parallel for {clause} ?
          for I in 1..N-2
            for J in 1..N-2
              {own} = {read}{d.pick("", " + 1", " * 2", " - 1")}
        """)


@family("matrix", small=True)
def triangle(d: Draw, racy: bool) -> str:
    """The inner loop covers j > i or j < i. Writing row i, or mirroring one triangle into the other, touches
    elements of iteration i only; adding to element j, or mirroring the full square, meets other rows."""
    inner = d.pick("I+1..N-1", "0..I-1")
    if d.rng.random() < 0.5:
        body = f"A[{'J' if racy else 'I'}] += M[I][J]{d.pick('', ' * B[J]', ' * 2', ' + 1')}"
    else:
        inner = "0..N-1" if racy else inner
        body = f"M[I][J] = M[J][I]{d.pick('', ' + 1', ' * 2', ' + Q[I][J]')}"
    return code(f"""
        omp parallel for inner(J) ?
          for I in 0..N-1
            for J in {inner}
              {body}
        """)


@family("dependence")
def simd(d: Draw, racy: bool) -> str:
    """SIMD lanes run up to safelen iterations together: a dependence at distance k is kept if and only if
    safelen <= k. Without safelen any distance is broken; another array has no dependence."""
    lengths = [2, 4, 8, 16]
    k = d.rng.choice(lengths)
    longer, shorter = [m for m in lengths if m > k], [m for m in lengths if m <= k]
    if racy:
        clause = f"safelen({d.rng.choice(longer)})" if longer and d.rng.random() < 0.7 else ""
        read = "A"
    else:
        free = f"safelen({d.rng.choice(lengths)})"
        clause, read = d.rng.choice([(f"safelen({d.rng.choice(shorter)})", "A"), ("", "B"), (free, "B")])
    return code(f"""
        omp simd {clause}
          for I in {k}..N-1
            A[I] = {read}[I - {k}]{d.offset()}
            {d.noise()}
        """)


@family("dependence")
def guarded(d: Draw, racy: bool) -> Sketch:
    """A shared scalar or element is written under a condition: by one iteration only (i == m) or by many."""
    m = d.number(0, 15)
    condition = d.pick(f"I > {m}", f"I % {d.number(2, 5)} == 0", f"I != {m}", f"I < {m + 3}") if racy else f"I == {m}"
    place = d.pick("S", "S", f"B[{d.number(0, 9)}]")
    return Sketch(
        code(f"""
        omp parallel for ?
          for I in 0..N-1
            A[I] = {d.pick("C[I]", "I", "A[I] + 1", "C[I] * 2")}
            if {condition}
              {place} = {d.pick("I", "A[I]", "C[I] + 1")}
        """),
        d.n,
        print_after=place if place == "S" else None,
    )
