"""Group commit: writes of several tasks that wait together are one statement, and one commit (spec: DURA-01, DURA-07).

While a group is on its way to the disk, the next one gathers. A group that fails for its own reasons is stored write by
write, so that one task's bad write fails alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from a2a_server.ports.records import Write
from a2a_server.ports.store import StaleWrite, StoreUnavailable

_GROUP: Final = 128
_GROUP_BYTES: Final = 8 * 2**20
_WAITING: Final = 20_000
"""Most writes that wait. This is only reached when the database hangs, because every caller awaits its write."""

Verdict = bool | Exception
"""Whether a webhook has become due, or why the write was not stored."""

Commit = Callable[[Sequence[Write]], Awaitable[Sequence[Verdict]]]


class _Waiting(NamedTuple):
    write: Write
    future: asyncio.Future[bool]


class Groups:
    """The writes of one kind. One group at a time is under way."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: deque[_Waiting] = deque()
        self._runner: asyncio.Task[None] | None = None

    async def do(self, write: Write) -> bool:
        if len(self._waiting) >= _WAITING:
            raise StoreUnavailable(f"{_WAITING} writes wait for the database")
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(write, future))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run(), name="postgres writes")
        return await future

    async def drain(self) -> None:
        """Wait until everything that was accepted is done."""
        if self._runner is not None:
            await self._runner

    async def _run(self) -> None:
        while group := self._take():
            for waiting, verdict in zip(group, await self._store([one.write for one in group]), strict=True):
                if waiting.future.done():
                    continue  # the caller was canceled
                if isinstance(verdict, Exception):
                    waiting.future.set_exception(verdict)
                else:
                    waiting.future.set_result(verdict)
        self._runner = None

    def _take(self) -> list[_Waiting]:
        """The next group. It has at most one write of each task; the second one waits for the next group."""
        group: dict[str, _Waiting] = {}
        later: list[_Waiting] = []
        room = _GROUP_BYTES
        while self._waiting and len(group) < _GROUP and room > 0:
            one = self._waiting.popleft()
            if one.write.task_id in group:
                later.append(one)
            else:
                group[one.write.task_id] = one
                room -= _size(one.write)
        self._waiting.extendleft(reversed(later))
        return list(group.values())

    async def _store(self, writes: Sequence[Write]) -> Sequence[Verdict]:
        try:
            return await self._commit(writes)
        except StoreUnavailable as error:
            return [StoreUnavailable(*error.args) for _ in writes]
        except Exception as error:  # noqa: BLE001 - nothing may end the runner
            if len(writes) == 1:
                return [error]
        return [verdict for write in writes for verdict in await self._store([write])]


def _size(write: Write) -> int:
    head = len(write.head.task) if write.head else 0
    return head + len(write.artifacts or b"") + sum(len(entry.wire) for entry in write.entries)


def stale(write: Write) -> StaleWrite:
    return StaleWrite(write.task_id)
