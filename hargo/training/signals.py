"""Requests to stop: SIGTERM and SIGUSR2, which clusters send before a time limit or a preemption."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOP = (signal.SIGTERM, signal.SIGUSR2)


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], str | None]]:
    """Yields a function that names the signal received so far, or None; the step in hand is never cut short.

    Outside the main thread, where Python has no signal handlers, nothing is ever received.
    """
    received: list[str] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(signal.Signals(number).name)

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, note) for number in STOP}
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
