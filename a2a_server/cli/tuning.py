"""What a server process asks of the interpreter and of the system; measured in docs/benchmarks.md."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_YOUNG, _MIDDLE, _OLD = 20_000, 20, 100
"""Collections of the garbage collector: what calls leave behind has no cycles, so that looking often finds nothing."""


@contextmanager
def patient_threads() -> Iterator[None]:
    """Threads that start meanwhile do not preempt the event loop when they wake.

    gRPC's poller and SQLite's commits wake for every call. On a core that they share with the loop each of them would
    push it aside, take the interpreter's lock, and give both back: a tenth to a third of the cost of a call.
    """
    policy = getattr(os, "SCHED_BATCH", None)
    if policy is None:  # not Linux
        yield
        return
    before = os.sched_getscheduler(0)
    with suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(0))
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, before, os.sched_param(0))


def collect_seldom() -> None:
    """Leave alone what the start has built, and look for cycles less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
