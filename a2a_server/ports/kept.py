"""What stores keep beside logs: heads, leases, turns and receipts (spec: DURA-02, ONCE-01)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple


class Head(NamedTuple):
    """The task without artifacts, and the keys that lists are ordered and filtered by."""

    task: bytes
    context_id: str
    state: int
    status_ms: int


new_head: Final[Callable[[tuple[bytes, str, int, int]], Head]] = partial(tuple.__new__, Head)
"""A head made of all its members at once; the call of a class takes three times as long."""


class Lease(NamedTuple):
    """The right to write a task, held by one replica until a time."""

    replica: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A message that is being answered or waits for its turn; `request` is opaque to the store."""

    number: int
    request: bytes


@dataclass(frozen=True, slots=True)
class Once:
    """The receipt of a send, found again by its idempotency key (ONCE-01)."""

    key: str
    fingerprint: bytes
    task_id: str
    """Reserved for the task the send creates; the task may not exist (yet), when the answer is a direct message."""
    expires_ms: int
    reply: bytes = b""
    """The direct message that answered the send, once there is one."""
