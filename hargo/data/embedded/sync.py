"""Families where the question is whether something keeps two accesses apart."""

from __future__ import annotations

from hargo.data.embedded.family import Draw, family
from hargo.data.embedded.program import Sketch


def _lines(depth: int, *lines: str) -> str:
    """The lines that are not empty, indented by `depth` levels."""
    return "\n".join("  " * depth + line for line in lines if line)


@family("barrier", weight=3)
def nowait(d: Draw, racy: bool) -> str:
    """Two worksharing loops, the second reads what the first wrote. Without the barrier between them this is
    safe only where the second reads another array, or where both have the same bounds and the same static
    schedule and element i is used in iteration i (then the same thread runs both)."""
    shift = d.pick(f"A[{d.n - 1} - I]", "A[I / 2]", f"A[{d.number(0, 9)}]")
    value = d.value().replace("B", "D")
    if not d.hard:
        first, middle, read = "nowait" if racy else "", "", shift
    elif racy:
        first, middle, read = d.rng.choice(
            [
                ("nowait schedule(static)", "", shift),
                ("nowait schedule(dynamic)", "", "A[I]"),
            ]
        )
    else:
        first, middle, read = d.rng.choice(
            [
                ("nowait", "omp barrier", shift),
                ("nowait", "", d.pick("C[I]", f"C[{d.n - 1} - I]", "C[I / 2]")),
                ("nowait schedule(static)", "", "A[I]"),
            ]
        )
    plain = "schedule" not in first
    second = "" if plain else ("schedule(static)" if "static" in first else "schedule(dynamic)")
    opening = d.pick("", "num_threads(4)", "default(shared)")
    return _lines(
        0,
        f"omp parallel {opening}",
        f"  omp for {first.replace('nowait', 'nowait ') if first else ''} {'?' if plain and not first else ''}",
        "    for I in 0..N-1",
        f"      A[I] = {value}",
        f"  {middle}" if middle else "",
        f"  omp for {second}",
        "    for I in 0..N-1",
        f"      B[I] = {read}{d.pick('', ' + 1', ' * 2', ' + I')}",
    )


@family("barrier", weight=3)
def exchange(d: Draw, racy: bool) -> Sketch:
    """Each thread writes its element, then reads another thread's: a barrier must stand between the two."""
    t = d.rng.choice([2, 4, 8])
    write = f"A[X] = {d.pick('X', 'X + 1', 'B[X]', '2 * X')}"
    read = f"C[X] = A[{d.pick(f'{t - 1} - X', '0', str(t - 1))}]{d.pick('', ' + 1', ' * 2')}"
    own = f"C[X] = A[X]{d.pick('', ' + 1', ' * 2')}"
    if racy:
        late = d.rng.choice([[write, read, "omp barrier"], ["omp barrier", write, read]])
        body = late if d.hard else [write, read]
    else:
        body = [write, own] if d.hard else [write, "omp barrier", read]
    head = [f"omp parallel private(X) num_threads({t}) ?", "  X = omp_get_thread_num()"]
    return Sketch(_lines(0, *head, *("  " + line for line in body)), d.n)


@family("barrier", weight=3)
def one_thread(d: Draw, racy: bool) -> str:
    """One thread sets S, all threads read it. `single` ends in a barrier; `master` and `single nowait` do
    not and need one, before the loop."""
    if racy:
        kind, after = d.rng.choice([("omp master", ""), ("omp single nowait", "")])
        after = "late" if d.hard else after
    else:
        kind, after = "omp single", ""
        if d.hard:
            kind, after = d.pick("omp master", "omp single nowait"), "omp barrier"
    loop = ["  omp for ?", "    for I in 0..N-1", f"      A[I] = S{d.pick('', ' + I', ' * 2', ' + B[I]')}"]
    barrier = [f"  {after}"] if after.startswith("omp") else []
    tail = ["  omp barrier"] if after == "late" else []
    set_s = f"    S = {d.pick('1', '2', '5', '10', 'B[1]')}"
    return _lines(
        0, f"omp parallel {d.pick('', 'num_threads(4)', 'default(shared)')}", f"  {kind}", set_s, *barrier, *loop, *tail
    )


@family("barrier")
def thread_number(d: Draw, racy: bool) -> Sketch:
    """Each thread updates an element chosen by its number: different elements for different numbers, unless
    the number itself is shared or several numbers share an element."""
    t = d.rng.choice([2, 4, 8])
    index = d.pick("X", "X", "X + 1", "2 * X", f"{t - 1} - X")
    clause = "private(X)"
    if racy and not d.hard:
        clause = ""
    elif racy and d.rng.random() < 0.4:
        clause = "private(T)"
    elif racy:
        index = d.pick("X / 2", "X % 2" if t > 2 else "X / 2", "0", str(t - 1))
    if clause == "private(X)" and d.hard and d.rng.random() < 0.4:
        clause = d.pick("private(X, T)", "private(T, X)")
    value = "T" if "T" in clause else d.pick("X", "1", "X + 1")
    body = ["X = omp_get_thread_num()", "T = X * 2" if "T" in clause else "", f"A[{index}] += {value}"]
    head = f"omp parallel {clause} num_threads({t}) ?"
    return Sketch(_lines(0, head, *("  " + line for line in body if line)), d.n)


@family("exclusion", weight=3)
def critical(d: Draw, racy: bool) -> Sketch:
    """Two updates in critical sections. Sections of one name exclude each other, sections of different names
    do not; what matters is whether one variable is updated under two names or outside."""
    one, two = d.rng.sample(["first", "second", "add", "upd", "sec1", "sec2"], 2)
    same = d.pick("", f" ({one})")
    names: tuple[str | None, str | None]
    wide = [((same, same), "S"), ((f" ({one})", f" ({two})"), "T"), ((same, None), "C[I]")]
    if racy:
        names, place = d.rng.choice([((f" ({one})", f" ({two})"), "S"), (("", f" ({two})"), "S"), ((same, None), "S")])
    else:
        names, place = d.rng.choice(wide)
    if not d.hard:
        names, place = ((None, None) if racy else (same, same)), d.pick("S", "T")
    updates = [f"S += {d.pick('A[I]', 'I', '1', 'A[I] * 2')}", f"{place} += {d.pick('B[I]', '2', 'B[I] + 1', 'I')}"]
    lines = []
    for name, update in zip(names, updates, strict=True):
        lines += [update] if name is None else [f"omp critical{name}", "  " + update]
    return Sketch(
        _lines(0, "omp parallel for ?", "  for I in 0..N-1", *("    " + x for x in lines)), d.n, print_after="S"
    )


@family("exclusion", weight=3)
def atomic(d: Draw, racy: bool) -> Sketch:
    """Every update of S is atomic, or one is not, or S is read plainly while others update it."""
    update = f"S += {d.pick('A[I]', '1', 'I', 'A[I] * 2')}"
    if not d.hard:
        lines = [update] if racy else ["omp atomic", "  " + update]
        lines = [*lines, d.pick("B[I] = A[I] + 1", "B[I] = I")]
    elif d.rng.random() < 0.5:
        lines = [
            "omp atomic",
            "  " + update,
            f"B[I] = {'S' if racy else d.pick('T', 'A[I]')}{d.pick('', ' + 1', ' * 2')}",
        ]
    else:
        second = f"T += {d.pick('1', 'B[I]', 'I')}"
        guard = "omp atomic" if not racy else ""
        lines = ["omp atomic", "  " + update, guard, ("  " if guard else "") + second]
        if d.rng.random() < 0.5:
            lines = [*lines[2:], *lines[:2]]
    text = _lines(0, "omp parallel for ?", "  for I in 0..N-1", *("    " + x for x in lines if x))
    return Sketch(text, d.n, print_after="S")


@family("exclusion")
def locks(d: Draw, racy: bool) -> Sketch:
    """Two updates under locks: one lock for one variable. Racy where the same variable is updated under
    different locks or after the lock was released."""
    if racy:
        second, place, early = d.rng.choice([("O", "S", False), ("G", "S", True)])
    else:
        second, place, early = d.rng.choice([("G", "S", False), ("O", "T", False), ("G", "T", False)])
    first = f"S += {d.pick('A[I]', 'I', '1')}"
    last = f"{place} += {d.pick('B[I]', '2', 'B[I] * 2')}"
    body = ["call omp_set_lock(G)", first, "call omp_unset_lock(G)"]
    if early:
        body += [last] if d.rng.random() < 0.5 else []
        body = body if body[-1] == last else [last, *body]
    elif second == "G" and d.rng.random() < 0.4:
        body = ["call omp_set_lock(G)", first, last, "call omp_unset_lock(G)"]
    else:
        body += [f"call omp_set_lock({second})", last, f"call omp_unset_lock({second})"]
    used = [x for x in "GO" if any(f"({x})" in line for line in body)]
    head = [f"call omp_init_lock({x})" for x in used]
    loop = ["omp parallel for ?", "  for I in 0..N-1", *("    " + line for line in body)]
    return Sketch(_lines(0, *head, *loop), d.n, print_after="S")


@family("exclusion", weight=3)
def ordered(d: Draw, racy: bool) -> Sketch:
    """An ordered block runs in the order of the iterations, one at a time: what carries from one iteration
    to the next must be inside it, and the loop must say `ordered`."""
    scalar = d.rng.random() < 0.5
    carried = f"S += {d.pick('A[I]', 'I', 'A[I] + 1')}" if scalar else f"A[I] = A[I - {d.k}]{d.offset()}"
    local = d.pick("B[I] = I", "B[I] = B[I] + 1", "B[I] = B[I] * 2")
    inside, outside = (local, carried) if racy else (carried, local)
    lines = ["omp ordered", "  " + inside, outside] if d.rng.random() < 0.5 else [outside, "omp ordered", "  " + inside]
    word = " ordered"
    if not d.hard:
        lines = [carried] if racy else ["omp ordered", "  " + carried]
        word = d.pick("", " ordered") if racy else word
    text = _lines(0, f"omp parallel for{word} ?", f"  for I in {d.k}..N-1", *("    " + line for line in lines))
    return Sketch(text, d.n, print_after="S" if scalar else None)


@family("tasks")
def sections(d: Draw, racy: bool) -> Sketch:
    """Two sections run at the same time: racy where one uses what the other writes. With halves of one
    array, where the halves overlap."""
    if d.hard:
        h = d.n // 2
        over = h - d.number(1, 4) if racy else h + d.number(0, 2)
        lines = [
            "omp parallel sections inner(I) inner(J) ?",
            "  omp section",
            f"    for I in 0..{h - 1}",
            f"      A[I] = {d.value()}",
            "  omp section",
            f"    for J in {over}..N-1",
            f"      A[J] = {d.pick('J', '1', '2 * J', 'B[J]')}",
        ]
        return Sketch(_lines(0, *lines), d.n)
    second = d.pick("T = S + 1", "S = 4", "S += 2", "T = S * 2") if racy else d.pick("T = U + 1", "T = 4", "T = U * 2")
    parts = [f"S = {d.pick('1', '3', 'U', 'U + 2')}", second]
    d.rng.shuffle(parts)
    lines = ["omp parallel sections ?", "  omp section", "    " + parts[0], "  omp section", "    " + parts[1]]
    return Sketch(_lines(0, *lines), d.n, print_after="S")


@family("tasks", weight=3)
def task_depend(d: Draw, racy: bool) -> Sketch:
    """The second task uses what the first writes. They are ordered if and only if both name that variable
    in a depend clause and at least one of the two says out or inout."""
    writer, reader = d.pick("out", "inout"), d.pick("in", "inout")
    use = d.pick("T = S + 1", "T = S * 2", "S += 2", "T = S")
    wrong = [
        (f"depend({writer}: S)", ""),
        ("", f"depend({reader}: S)"),
        (f"depend({writer}: S)", f"depend({reader}: T)"),
        (f"depend({writer}: T)", f"depend({reader}: S)"),
    ]
    right = [(f"depend({writer}: S)", f"depend({reader}: S)")]
    first, second = d.rng.choice(wrong if racy else right)
    if racy and not d.hard:
        first, second = d.rng.choice([("", ""), ("", ""), *wrong[:2]])
    if "T" in first + second:
        use = d.pick("T = S + 1", "T = S * 2", "T = S")
    if not racy and d.hard:
        first, second = d.rng.choice(wrong)
        use = d.pick("T = U + 1", "T = U", "T = 2 * U")
    lines = [
        "omp parallel",
        "  omp single",
        f"    omp task {first}",
        f"      S = {d.pick('1', '3', '7', 'U', 'U + 1')}",
        f"    omp task {second}",
        f"      {use}",
    ]
    return Sketch(_lines(0, *lines), d.n, print_after=d.pick("S", "T") if "T" in use else "S")


@family("tasks", weight=3)
def task_wait(d: Draw, racy: bool) -> Sketch:
    """Tasks set S and T, their parent adds them up: after a taskwait or a taskgroup, or too early."""
    tasks = ["omp task", f"  S = {d.pick('1', '3', 'V + 1')}", "omp task", f"  T = {d.pick('2', '5', 'V * 2')}"]
    use = d.pick("U = S + T", "U = S * T", "U = T - S")
    if racy:
        wait_first = ["omp taskwait", *tasks, use]
        split = [*tasks[:2], "omp taskwait", *tasks[2:], use]
        body = d.rng.choice([[*tasks, use, "omp taskwait"], wait_first, split]) if d.hard else [*tasks, use]
    else:
        group = ["omp taskgroup", *("  " + line for line in tasks), use]
        split = [*tasks[:2], "omp taskwait", *tasks[2:], "omp taskwait", use]
        early = [*tasks[:2], "omp taskwait", *tasks[2:], "U = S + V"]
        body = d.rng.choice([group, split, early]) if d.hard else [*tasks, "omp taskwait", use]
    return Sketch(_lines(0, "omp parallel", "  omp single", *("    " + line for line in body)), d.n, print_after="U")


@family("tasks")
def task_loop(d: Draw, racy: bool) -> Sketch:
    """One task per iteration. Tasks that write their own element are independent; a common scalar needs an
    atomic, and a neighbour's element is written by another task."""
    if racy:
        lines = d.rng.choice([[f"S += {d.pick('A[I]', 'I', '1')}"], [f"A[I] = A[I - 1]{d.offset()}"], ["S = A[I]"]])
    else:
        lines = d.rng.choice(
            [
                ["omp atomic", f"  S += {d.pick('A[I]', 'I', '1')}"],
                [f"A[I] = B[I - 1]{d.offset()}"],
                [f"A[I] = {d.value()}"],
            ]
        )
    head = ["omp parallel", "  omp single", "    for I in 1..N-1", "      omp task firstprivate(I)"]
    missing = d.language == "c" and racy and d.rng.random() < 0.3
    if missing:  # in C the loop variable, declared outside, is shared by the tasks while the loop moves it on
        lines, head[-1] = [f"A[I] = {d.value()}"], "      omp task"
    uses_s = "S" in "".join(lines)
    text = _lines(0, *head, *("        " + line for line in lines))
    return Sketch(text, d.n, print_after="S" if uses_s else None, shared_index=missing)


@family("tasks")
def taskloop(d: Draw, racy: bool) -> str:
    """A loop cut into tasks: as in a parallel loop, iterations must not share elements or temporaries."""
    extra = d.pick("", f"grainsize({d.rng.choice([2, 4, 8, 16])})", f"num_tasks({d.rng.choice([2, 4, 8])})")
    if racy:
        lines = d.rng.choice([[f"A[I] = A[I - {d.k}] + 1"], ["T = B[I]", "A[I] = T * 2"], ["A[0] += B[I]"]])
    else:
        free = [f"A[I] = B[I - {d.k}] + 1", "A[I] = B[I] * T", f"A[I] = {d.value()}"]
        lines = d.rng.choice([[line] for line in free] + [["omp atomic", "  A[0] += B[I]"]])
    head = ["omp parallel", "  omp single", f"    omp taskloop {extra}", f"      for I in {d.k}..N-1"]
    return _lines(0, *head, *("        " + line for line in lines))
