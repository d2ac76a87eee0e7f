"""What a server process asks of the system's scheduler and of the garbage collector."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

RARELY = (100_000, 50, 100)
"""Allocations between collections of the youngest objects; the others follow in the old proportion, or later."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for cycles a hundredth as often, and never among what the start has made.

    A call leaves no cycles behind, so that collections find nothing; but what they look through grows with every task
    in memory. `docs/benchmarks.md` says what that cost.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def patient_threads() -> Iterator[None]:
    """Threads that start meanwhile run under SCHED_BATCH: gRPC's poller, SQLite's commits; both wake for every call.

    On a core that they share with the loop this took 11 % off a send in memory, 27 % off a streamed event and 31 % off
    a send on SQLite. The policy keeps a thread from preempting others when it wakes; that this is why was not shown.
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
