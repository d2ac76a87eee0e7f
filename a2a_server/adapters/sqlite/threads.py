"""How the store's threads behave beside the event loop (spec: DURA-07)."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def work_in_the_background() -> None:
    """Let the calling thread not interrupt others when it wakes.

    A thread that has waited for the disk is given the processor as soon as the disk is done; on a core that it shares
    with the event loop it pushes the loop aside. As a batch thread it waits for the loop to pause. With server and
    threads on one core that took a fifth to a third off a send. The command line asks the same for all threads that
    start with the server; this holds for a store in anybody's process, and for threads that start later.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it, and then it is only slower
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # 0 is the calling thread
