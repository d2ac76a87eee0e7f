"""Credentials that were checked before, by their hashes, and checks that are under way (spec: GATE-01)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from a2a_server.domain.scope import Shares
from a2a_server.ports.authenticator import Caller
from a2a_server.protocol.errors import A2AError, Reason

_MOST: Final = 10_000


class Verdict(NamedTuple):
    """Whose a credential is, and until when that counts. No caller = it proves nothing."""

    caller: Caller | None
    until: float


class VerdictCache:
    """Keeps a bounded number of verdicts. The one that was used the longest ago leaves first."""

    def __init__(self) -> None:
        self._verdicts: OrderedDict[bytes, Verdict] = OrderedDict()

    def get(self, digest: bytes, now: float) -> Verdict | None:
        found = self._verdicts.get(digest)
        if found is None:
            return None
        if found.until <= now:
            del self._verdicts[digest]
            return None
        self._verdicts.move_to_end(digest)
        return found

    def put(self, digest: bytes, verdict: Verdict) -> Verdict:
        self._verdicts[digest] = verdict
        if len(self._verdicts) > _MOST:
            self._verdicts.popitem(last=False)
        return verdict

    def clear(self) -> None:
        self._verdicts.clear()


class SharedChecks:
    """Checks credentials that are not in the cache, once for all calls that present the same one.

    The number of checks at a time is bounded, and each address has its share of it. So somebody who guesses can
    neither flood an identity provider nor keep others from being checked.
    """

    def __init__(self, places: Shares, full: str) -> None:
        """`full` is the error's text when there is no room for another check."""
        self._places = places
        self._full = full
        self._tasks: dict[bytes, asyncio.Task[Verdict]] = {}

    async def verdict(self, digest: bytes, peer: str, check: Callable[[], Coroutine[Any, Any, Verdict]]) -> Verdict:
        """Wait for the check. A call that is canceled meanwhile does not cancel it for others."""
        task = self._tasks.get(digest)
        if task is None:
            places = self._places
            if not places.room(peer) or places.taken >= 2 * places.places:
                raise A2AError(Reason.UNAVAILABLE, self._full, retry_after=1)
            places.take(peer)
            task = self._tasks[digest] = asyncio.create_task(check())
            task.add_done_callback(lambda done: self._done(digest, peer, done))
        return await asyncio.shield(task)

    def close(self) -> None:
        for task in [*self._tasks.values()]:
            task.cancel()

    def _done(self, digest: bytes, peer: str, task: asyncio.Task[Verdict]) -> None:
        del self._tasks[digest]
        self._places.leave(peer)
        if not task.cancelled():
            task.exception()  # asyncio would complain if nobody waits for it any more
