"""Families where the question is which variables are shared."""

from __future__ import annotations

from hargo.data.embedded.family import Draw, code, family
from hargo.data.embedded.program import Sketch


@family("reduction", weight=3)
def total(d: Draw, racy: bool) -> Sketch:
    """All iterations add to S (and perhaps T). Race-free if and only if each of them is reduced."""
    add = d.pick("A[I]", "A[I] * B[I]", "A[I] * A[I]", "A[I] - 1", "2 * A[I]")
    if not d.hard:
        clause, second = ("" if racy else "reduction(+:S)"), d.pick("", "B[I] = A[I] + T", "B[I] = I")
    else:
        second = d.pick("T += B[I]", "T += I", "T += A[I] * 2")
        clause = d.pick("reduction(+:S)", "reduction(+:T)")
        if not racy:
            clause = d.pick("reduction(+:S, T)", "reduction(+:S) reduction(+:T)", "reduction(+:T, S)")
        if d.rng.random() < 0.3:
            clause, second = f"private(U) {clause}", "U = B[I]\n    T += U"
    return Sketch(
        code("""
        omp parallel for CLAUSE ?
          for I in 0..N-1
            S += ADD
            SECOND
        """)
        .replace("CLAUSE", clause)
        .replace("ADD", add)
        .replace("SECOND", second),
        d.n,
        print_after="S",
    )


@family("reduction", weight=3)
def operators(d: Draw, racy: bool) -> Sketch:
    """Reductions with other operators, with a distractor reduction on a scalar that nobody adds to."""
    operator, update = d.rng.choice([("*", "S *= {}"), ("-", "S -= {}"), ("+", "S += {}")])
    value = d.pick("A[I]", "B[I]", "2", "A[I] + B[I]") if operator != "*" else d.pick("2", "A[I]", "3")
    clause = f"reduction({operator}:S)"
    if racy:
        clause = d.pick(f"reduction({operator}:T)", "firstprivate(T)") if d.hard else ""
    return Sketch(
        code(f"""
        omp parallel for {clause} ?
          for I in 0..N-1
            {update.format(value)}
            C[I] = {d.pick("I", "A[I] + 1", "B[I] * 2")}{" + T" if "T" in clause else d.pick("", " + T")}
        """),
        d.n,
        print_after="S",
    )


@family("reduction", weight=3)
def maximum(d: Draw, racy: bool) -> Sketch:
    """Largest element: a max reduction, or a critical section around the comparison *and* the assignment.
    A critical section around the assignment alone leaves the comparison reading while others write."""
    if not d.hard or d.rng.random() < 0.4:
        clause = "reduction(max:S)"
        if racy:
            clause = d.pick("reduction(max:T)", "firstprivate(T)") if d.hard else ""
        lines = ["if A[I] > S", "  S = A[I]"]
    else:
        clause = ""
        inside, outside = (
            ["omp critical", "  if A[I] > S", "    S = A[I]"],
            ["if A[I] > S", "  omp critical", "    S = A[I]"],
        )
        lines = outside if racy else inside
    extra = (
        [f"B[I] = A[I]{' + T' if 'T' in clause else d.pick('', ' * 2', ' + T')}"]
        if "T" in clause or d.rng.random() < 0.4
        else []
    )
    body = "\n".join("    " + line for line in lines + extra)
    return Sketch(f"omp parallel for {clause} ?\n  for I in 0..N-1\n{body}", d.n, print_after="S")


@family("reduction", weight=3)
def histogram(d: Draw, racy: bool) -> Sketch:
    """Counts in a short array: many iterations share a bin. Reduced as an array, or atomic, or a race."""
    bins = d.rng.choice([4, 8, 10, 16])
    update = f"H[I % {bins}] += {d.pick('1', 'A[I]', 'I', 'B[I]')}"
    other = f"W[0] + {d.pick('I', 'B[I]')}" if d.hard else ""
    if racy:
        clause = f"reduction(+:W[:{bins}])" if other and d.rng.random() < 0.7 else ""
        lines = [update]
    else:
        clause = f"reduction(+:H[:{bins}])" if d.rng.random() < 0.6 else ""
        lines = [update] if clause else ["omp atomic", "  " + update]
    if other:
        lines.append(f"C[I] = {other}")
    body = "\n".join("    " + line for line in lines)
    return Sketch(f"omp parallel for {clause} ?\n  for I in 0..N-1\n{body}", d.n, short=bins, print_after="H[1]")


@family("scope", weight=3)
def temporary(d: Draw, racy: bool) -> str:
    """T (and U) hold a value for the rest of the iteration. Race-free if and only if each is private."""
    first = d.pick("B[I] + 1", "B[I] * 2", "A[I]", "A[I] + B[I]")
    if not d.hard:
        clause, second, use = ("" if racy else d.pick("private(T)", "private(T)", "firstprivate(T)")), "", "T"
        if d.rng.random() < 0.4:
            use, second = "T * U", ""
    else:
        second, use = d.pick("U = C[I]", "U = T + 1", "U = T * 2"), "T + U"
        clause = d.pick("private(T)", "private(U)") if racy else d.pick("private(T, U)", "private(U, T)")
    return code(f"""
        omp parallel for {clause} ?
          for I in 0..N-1
            T = {first}
            {second}
            A[I] = {use}{d.pick("", " + 1", " - I", " * 2")}
        """)


@family("scope")
def index_scalar(d: Draw, racy: bool) -> str:
    """An integer X is computed and used as an index. Shared it is overwritten by other iterations."""
    n = d.n
    index = d.pick(f"{n - 1} - I", f"(I + {d.k}) % {n}", "I / 2", f"I % {d.number(3, 9)}")
    if not d.hard:
        clause, second, read = ("" if racy else "private(X)"), "", "B[X]"
    else:
        second, read = f"Y = {d.pick('X / 2', 'I / 2', 'X')}", "B[X] + B[Y]"
        clause = d.pick("private(X)", "private(Y)", "") if racy else d.pick("private(X, Y)", "private(Y, X)")
    return code(f"""
        omp parallel for {clause} ?
          for I in 0..N-1
            X = {index}
            {second}
            A[I] = {read}{d.pick("", " + 1", " * 2", " + I")}
        """)


@family("scope", languages=("c",), small=True)
def inner_index(d: Draw, racy: bool) -> Sketch:
    """The index of a nested C loop, declared outside, is shared unless it is listed as private. (In Fortran
    it is private by default.) A private scalar stands by as a distractor."""
    if d.hard:
        clause = "private(T)" if racy else d.pick("private(T, J)", "private(J, T)")
    else:
        clause = "" if racy else "private(J)"
    value = d.pick("M[I][J] + 1", "I + J", "M[I][J] * 2", "B[J]", "Q[I][J]")
    lines = ["T = " + value, "M[I][J] = T"] if "T" in clause else ["M[I][J] = " + value]
    body = "\n".join("      " + line for line in lines)
    text = f"omp parallel for {clause} ?\n  for I in 0..N-1\n    for J in 0..N-1\n{body}"
    return Sketch(text, d.n, shared_index=True)


@family("scope", weight=3)
def last_value(d: Draw, racy: bool) -> Sketch:
    """S leaves the loop with the last iteration's value: lastprivate, or all iterations write one variable."""
    lines = [f"S = {d.pick('A[I]', 'I', 'A[I] * 2', 'A[I] + I')}"]
    clause = "" if racy else "lastprivate(S)"
    if d.hard:
        lines += [f"T = {d.pick('B[I]', 'S + 1', 'I * 3')}", "B[I] = T + S"]
        clause = d.pick("lastprivate(S, T)", "private(T) lastprivate(S)")
        if racy:
            clause = d.pick("lastprivate(T)", "private(T)")
    else:
        lines += [f"B[I] = S{d.pick('', ' + 1', ' * 2')}"]
    body = "\n".join("    " + line for line in lines)
    return Sketch(f"omp parallel for {clause} ?\n  for I in 0..N-1\n{body}", d.n, print_after="S")


@family("scope", weight=3)
def own_copy(d: Draw, racy: bool) -> str:
    """T starts with the value from before the loop and is changed in it: each thread needs its own copy
    (firstprivate). A scalar that is only read may be shared."""
    change = d.pick("T += I", "T += 1", "T = T * 2", "T = B[I] - T", "T += B[I]")
    if not d.hard:
        clause = "" if racy else "firstprivate(T)"
    elif racy:
        clause = "firstprivate(U)"
    else:
        change, clause = d.rng.choice([("", "firstprivate(U)"), ("", ""), (change, "firstprivate(T, U)")])
    return code(f"""
        omp parallel for {clause} ?
          for I in 0..N-1
            {change}
            A[I] = T{" * U" if "U" in clause else d.pick("", " + B[I]", " + 1", " * U")}
            {d.noise()}
        """)


@family("scope")
def thread_copy(d: Draw, racy: bool) -> str:
    """Global scalars: one that is threadprivate may be overwritten by every thread, the other only read.
    In the plain variant nothing is threadprivate where it matters."""
    if not d.hard:
        work = d.pick("S = B[I]\n    A[I] = S + 1", "S = I * 2\n    A[I] = S + B[I]", "S += B[I]\n    A[I] = S")
        loop = f"omp parallel for ?\n  for I in 0..N-1\n    {work}"
        return loop if racy else f"omp threadprivate(S)\n{loop}"
    mine, other = ("T", "S") if racy else ("S", "T")
    listed = mine if racy or d.rng.random() < 0.7 else "S, T"
    lines = d.pick(
        f"S = B[I]\n    A[I] = S + {other if not racy else mine}",
        f"S = I * 2\n    A[I] = S{d.pick('', ' + B[I]')} - T",
        "S += B[I]\n    A[I] = I * T",
    )
    clause = d.pick("", f"copyin({mine})")
    return f"omp threadprivate({listed})\nomp parallel for {clause} ?\n  for I in 0..N-1\n    {lines}"


@family("scope", weight=3)
def scratch(d: Draw, racy: bool) -> Sketch:
    """A short scratch array is filled and used in each iteration: it must be private as a whole."""
    size = d.rng.choice([4, 5, 8, 10])
    if d.hard:
        clause = "private(T)" if racy else d.pick("private(W, T)", "private(T, W)")
        use = f"T = W[0]\n    A[I] = T + W[{size - 1}]"
    else:
        clause = "" if racy else d.pick("private(W)", "private(W)", "firstprivate(W)")
        use = f"A[I] = W[{d.number(0, size - 1)}]"
    return Sketch(
        f"omp parallel for inner(J) {clause} ?\n  for I in 0..N-1\n    for J in 0..{size - 1}\n"
        f"      W[J] = {d.pick('B[I] + J', 'I + J', 'B[I] * J', 'B[I]')}\n    {use}{d.pick('', ' + 1', ' * 2')}",
        d.n,
        short=size,
    )


@family("scope")
def helper(d: Draw, racy: bool) -> Sketch:
    """A function keeps its working variable on the stack (one per call) or statically (one for all)."""
    x, t, w = d.rng.sample(["v", "x", "t", "h", "q", "w"], 3)
    first, last = d.pick(f"{x} * 2", f"{x} + 1", f"{x} * {x}"), d.pick(f"{t} + 1", f"{t} * 3", f"{t} - {x}")
    c = f"TYPE F(TYPE {x}) {{\n  {'static ' if racy else ''}TYPE {t};\n  {t} = {first};\n  return {last};\n}}"
    if d.rng.random() < 0.5:
        kind = "TYPE, save ::" if racy else "TYPE ::"
        declared = f"TYPE :: {x}, {w}\n  {kind} {t}"
    else:
        declared = f"TYPE :: {x}, {w}\n  TYPE :: {t}{' = 0' if racy else ''}"
    f = f"function F({x}) result({w})\n  {declared}\n  {t} = {first}\n  {w} = {last}\nend function"
    text = code(f"""
        omp parallel for ?
          for I in 0..N-1
            A[I] = F(B[I]){d.pick("", " + 1", " + C[I]", " * 2")}
            {d.noise()}
        """)
    return Sketch(text, d.n, functions=(c, f))
