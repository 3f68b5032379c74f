"""Progress of a long command: a bar on a terminal, plain lines in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: seconds between two plain lines; a log that is followed with `tail -f` should move, not flood
EVERY = 10.0


@contextmanager
def progress(label: str, total: int, start: int = 0) -> Iterator[Callable[..., None]]:
    """Yield `advance(**figures)`, to be called once per step with the figures worth showing.

    On a terminal this draws one rich bar. Otherwise it prints a line for the first step, the last step
    and at most one every `EVERY` seconds in between. `start` is the number of steps already done (resume).

    >>> with progress("sft", total=2) as advance:
    ...     advance(loss=1.5)
    ...     advance(loss=1.25)
    sft 1/2  loss 1.5
    sft 2/2  loss 1.25
    """
    if sys.stdout.isatty():
        with _bar(label, total, start) as advance:
            yield advance
        return
    done, last = start, float("-inf")

    def advance(**figures: float) -> None:
        nonlocal done, last
        done += 1
        now = time.monotonic()
        if done >= total or now - last >= EVERY:
            last = now
            print(f"{label} {done}/{total}  {_shown(figures)}".rstrip(), flush=True)

    yield advance


@contextmanager
def _bar(label: str, total: int, start: int) -> Iterator[Callable[..., None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns) as bar:
        task = bar.add_task(label, total=total, completed=start, figures="")

        def advance(**figures: float) -> None:
            bar.update(task, advance=1, figures=_shown(figures))

        yield advance


def _shown(figures: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
