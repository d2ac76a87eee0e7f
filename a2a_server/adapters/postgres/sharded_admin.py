"""What operators see and change when the store is several databases: each database's own, put together (spec: SCAL-05).

API keys are in the home, where `PostgresKeyAdmin` works on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from a2a_server.adapters.postgres.administration import PostgresPushAdmin, visit
from a2a_server.adapters.postgres.kept_admin import PostgresKeptAdmin
from a2a_server.adapters.postgres.shard_map import ShardOptions, check_still, held_on
from a2a_server.domain.scope import Scope
from a2a_server.ports.push import ConfigFilter, ConfigStatus
from a2a_server.ports.retention import Chosen, Deadlines, Holdings, Removed
from a2a_server.ports.sealing import UNSEALED, ContentSealing

_WITHOUT_END = 2**63


class ShardedPushAdmin:
    def __init__(self, shards: Sequence[ShardOptions], sealing: ContentSealing = UNSEALED) -> None:
        self._admins = [PostgresPushAdmin(shard.options, sealing) for shard in shards]

    def status(self, wanted: ConfigFilter, limit: int) -> Sequence[ConfigStatus]:
        found = [one for admin in self._admins for one in admin.status(wanted, limit)]
        return sorted(found, key=_order)[:limit]

    def retry(self, wanted: ConfigFilter) -> int:
        return sum(admin.retry(wanted) for admin in self._admins)

    def drop(self, wanted: ConfigFilter) -> int:
        return sum(admin.drop(wanted) for admin in self._admins)


def _order(status: ConfigStatus) -> tuple[int, int]:
    """First those that are due, by time, then those that are parked."""
    if status.due_ms is not None:
        return 0, status.due_ms
    return 1, _WITHOUT_END if status.parked_ms is None else status.parked_ms


class ShardedKeptAdmin:
    def __init__(self, shards: Sequence[ShardOptions], sealing: ContentSealing = UNSEALED) -> None:
        self._shards = shards
        self._admins = [PostgresKeptAdmin(shard.options, sealing) for shard in shards]

    def remove(
        self, wanted: Chosen | Deadlines, agree: Callable[[Removed, int], bool], tell: Callable[[Removed], None]
    ) -> Removed:
        """Count in all databases, ask once, and remove from one after the other."""
        for shard in self._shards:
            check_still(visit(shard.options, held_on), shard.name)
        plans: list[tuple[Removed, int]] = []

        def count(expected: Removed, busy: int) -> bool:
            plans.append((expected, busy))
            return False

        for admin in self._admins:
            admin.remove(wanted, count, lambda _: None)
        removed = Removed()
        if agree(reduce(Removed.plus, (expected for expected, _ in plans)), sum(busy for _, busy in plans)):
            for admin in self._admins:
                removed = removed.plus(admin.remove(wanted, _yes, partial(_tell_sum, tell, removed)))
        return removed

    def usage(self, owner: str | None, limit: int) -> Sequence[tuple[Scope, Holdings]]:
        found = [one for admin in self._admins for one in admin.usage(owner, limit)]
        return sorted(found, key=lambda one: (-one[1].bytes, one[0].owner, one[0].tenant))[:limit]

    def rebuild(self) -> None:
        self._admins[0].rebuild()


def _tell_sum(tell: Callable[[Removed], None], before: Removed, removed: Removed) -> None:
    tell(before.plus(removed))


def _yes(_expected: Removed, _busy: int) -> bool:
    return True
