"""How much of one owner may be stored: refuses what there is no room for (spec: LIMT-01, LIMT-02, LIMT-03).

1. The store counts what each owner has. It is asked when an owner sends who could have used up its room since the last
   time: once a second at most, and more rarely the more room there is.
2. New tasks that were accepted since then are counted here, so that no burst gets past the bound.
3. A turn that runs goes on whatever its owner has. It is bounded by the size of its task.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import structlog

from a2a_server.operations.call import Call
from a2a_server.operations.limits import Limits
from a2a_server.ports.clock import Clock
from a2a_server.ports.retention import Holdings
from a2a_server.ports.store import Store, StoredTask
from a2a_server.protocol.errors import A2AError, Reason

logger = structlog.get_logger()

_SOONEST_MS: Final = 1_000
_LATEST_MS: Final = 300_000
"""When the store is asked again, however much or little room there is."""
_TASKS_PER_MS: Final = 10
_BYTES_PER_MS: Final = 100 * 1024
"""As fast as no owner uses up its room: 10,000 tasks and 100 MiB a second."""
_SHARE: Final = 20
"""An answer counts so many times as long as it took at least: an owner may have tasks in many tenants."""
_MOST_OWNERS: Final = 10_000
_NEARLY: Final = 0.9
_TELL_AGAIN_MS: Final = 600_000
_UNBOUNDED: Final = 2**62
_DAY: Final = 86_400


@dataclass(slots=True, eq=False)
class OwnerRoom:
    """How much more may be stored of an owner, as the store has said, less the tasks accepted since."""

    tasks: int = _UNBOUNDED
    bytes: int = _UNBOUNDED
    until_ms: int = 0
    """When the store is asked again."""
    told: int = 0
    """What the log has been told: 1 = nearly full, 2 = full."""
    told_until_ms: int = 0
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class StorageQuotas:
    """One per process. With several, each may let in what the others have accepted since it has asked."""

    def __init__(self, store: Store, clock: Clock, limits: Limits, kept: float) -> None:
        """`kept`: the seconds after which finished tasks are removed; 0 = never."""
        self._store = store
        self._clock = clock
        self._bounded = bool(limits.tasks_per_owner or limits.bytes_per_owner)
        self._most_tasks = limits.tasks_per_owner or _UNBOUNDED
        self._most_bytes = limits.bytes_per_owner or _UNBOUNDED
        self._most_of_task = limits.bytes_per_task or _UNBOUNDED
        self._help = "Finished tasks are removed"
        self._help += f" after {_span(kept)}." if kept else " by the operator of this server only."
        self._owners: OrderedDict[tuple[str, str], OwnerRoom] = OrderedDict()

    async def check_new(self, call: Call, *, certain: bool) -> None:
        """Refuse a new task of an owner who has no room. `certain`: whether there will be one if it is not refused."""
        if not self._bounded:
            return
        room = self._known(call) or await self._ask(call)
        if room.tasks <= 0:
            raise self._exceeded("tasks", self._most_tasks, room.tasks)
        if room.bytes <= 0:
            raise self._exceeded("bytes", self._most_bytes, room.bytes)
        room.tasks -= certain

    async def check_more(self, call: Call, record: StoredTask) -> None:
        """Refuse a message to a task that has no room for it, or whose owner has none."""
        most, task = self._most_of_task, record.task
        if record.log_bytes >= most:
            text = (
                f"The log of this task has {record.log_bytes} bytes, and limits.bytes_per_task allows {most}. "
                f"To go on with the conversation, send the message with the context id {task.context_id!r} and without "
                "a task id."
            )
            metadata = {"limit": "limits.bytes_per_task", "taskId": task.id, "contextId": task.context_id}
            raise A2AError(Reason.QUOTA_EXCEEDED, text, metadata=metadata)
        if (error := await self.fault(call)) is not None:
            raise error

    async def fault(self, call: Call) -> A2AError | None:
        """What the owner of a call is to be told who has no room for more bytes."""
        if not self._bounded:
            return None
        room = self._known(call) or await self._ask(call)
        return self._exceeded("bytes", self._most_bytes, room.bytes) if room.bytes <= 0 else None

    def _exceeded(self, what: str, most: int, left: int) -> A2AError:
        limit = f"limits.{what}_per_owner"
        text = f"You have {most - left} {what} stored, and {limit} allows {most}. {self._help}"
        return A2AError(Reason.QUOTA_EXCEEDED, text, metadata={"limit": limit})

    def _known(self, call: Call) -> OwnerRoom | None:
        """What is known of the owner of a call, unless the store is to be asked."""
        room = self._owners.get((call.scope.owner, call.caller.tenant))
        return room if room is not None and self._clock.steady_ms() < room.until_ms else None

    async def _ask(self, call: Call) -> OwnerRoom:
        key = call.scope.owner, call.caller.tenant  # whoever may name any tenant has no more room for naming many
        room = self._owners.setdefault(key, OwnerRoom())
        self._owners.move_to_end(key)
        if len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)
        async with room.asking:  # whoever comes while the store is asked waits for its answer, and does not ask as well
            if self._clock.steady_ms() >= room.until_ms:
                await self._look(key, room)
        return room

    async def _look(self, key: tuple[str, str], room: OwnerRoom) -> None:
        now_ms = self._clock.steady_ms()
        tasks, size = await self._store.holdings(*key)
        room.tasks, room.bytes = self._most_tasks - tasks, self._most_bytes - size
        spent_ms = min(room.tasks // _TASKS_PER_MS, room.bytes // _BYTES_PER_MS)
        took_ms = self._clock.steady_ms() - now_ms
        room.until_ms = now_ms + max(_SOONEST_MS, min(_LATEST_MS, spent_ms), _SHARE * took_ms)
        share = max(tasks / self._most_tasks, size / self._most_bytes)
        if share >= _NEARLY:
            self._tell(key, room, Holdings(tasks, size), full=share >= 1)

    def _tell(self, key: tuple[str, str], room: OwnerRoom, held: Holdings, *, full: bool) -> None:
        level, now_ms = 1 + full, self._clock.steady_ms()
        if level > room.told or now_ms >= room.told_until_ms:
            room.told, room.told_until_ms = level, now_ms + _TELL_AGAIN_MS
            event, (owner, tenant) = ("owner.full" if full else "owner.nearly_full"), key
            logger.warning(event, owner=owner, tenant=tenant, tasks=held.tasks, bytes=held.bytes)


def _span(seconds: float) -> str:
    return f"{seconds / _DAY:g} days" if seconds >= 2 * _DAY else f"{seconds:g} seconds"
