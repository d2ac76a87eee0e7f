"""What several servers ask of the store that they share (spec: DURA-03, DURA-04, SCAL-03).

1. Each server has a *session* and keeps it alive. The store's own clock says when it is over, so that the clocks of the
   servers do not matter.
2. A task's open turns belong to a session. When it is over, others take them over with `Store.claim`.
3. A server that is asked something about a turn of another session sends that session a *letter*, and gets one back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol


class Letter(NamedTuple):
    """A message from one session to another. The store does not look into `body`."""

    to: str
    id: str
    """The same in a question and in its answer."""
    body: bytes


class Replicas(Protocol):
    """What a store offers that several servers can use at once. As in `Store`, methods raise `StoreUnavailable`."""

    async def beat(self, session: str, seconds: float, address: str = "") -> bool:
        """Keep a session alive for so long from now; the first call begins it. False if it was over already.

        `address` is where the others reach its server, if they do. It stays the same.
        """
        ...

    async def lives(self, session: str) -> bool:
        """Whether a session has begun and is not over."""
        ...

    async def addresses(self) -> Collection[str]:
        """Where the servers of all sessions that are not over are reached, as far as they have said so."""
        ...

    async def end_session(self, session: str) -> None:
        """End it now, so that others take over what it leaves. Letters to it are gone."""
        ...

    async def numbers(self, task_ids: Collection[str]) -> Mapping[str, int]:
        """The number of the last entry of each of these tasks. Those that do not exist are left out."""
        ...

    async def post(self, letter: Letter) -> None:
        """Leave a letter for a session. One to a session that is over is lost."""
        ...

    async def collect(self, session: str, limit: int) -> Sequence[Letter]:
        """Take letters out, the oldest first. Each is handed out once."""
        ...
