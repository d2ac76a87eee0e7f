"""Push configs in memory, and the webhooks they are owed (spec: PAID-01, PAID-02)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from a2a_server.adapters.memory.rows import ConfigRow, TaskRow
from a2a_server.ports.store import Debt, Write


class Debts:
    """Which configs are owed something. A config is served one debt at a time, and the longest unserved goes first."""

    def __init__(self) -> None:
        self._owing: dict[tuple[str, str], tuple[TaskRow, ConfigRow]] = {}

    def owe(self, row: TaskRow, write: Write) -> None:
        numbers = [entry.number for entry in write.entries if not entry.event.HasField("message")]
        if not numbers or not row.configs:
            return
        for config_id, config in row.configs.items():
            if not config.owed:
                config.due_ms = config.served_ms
                self._owing[row.task_id, config_id] = row, config
            config.owed.update(dict.fromkeys(numbers))

    def claim(self, now_ms: int, until_ms: int, limit: int) -> Sequence[Debt]:
        due = [place for place in self._owing.values() if place[1].due_ms <= now_ms]
        due.sort(key=lambda place: place[1].due_ms)
        return list(_claimed(due[:limit], now_ms, until_ms))

    def settle(self, debt: Debt, retry_at_ms: int | None) -> bool:
        key = debt.task_id, debt.hook.config.id
        _, config = self._owing.get(key, (None, None))
        if config is None or config.claimed_until_ms != debt.until_ms or next(iter(config.owed)) != debt.number:
            return False
        config.claimed_until_ms = None
        if retry_at_ms is not None:
            config.due_ms = retry_at_ms
            return True
        del config.owed[debt.number]
        config.attempts, config.due_ms = 0, config.served_ms
        if not config.owed:
            del self._owing[key]
        return True

    def forget(self, task_id: str, config_id: str) -> None:
        self._owing.pop((task_id, config_id), None)


def _claimed(places: Sequence[tuple[TaskRow, ConfigRow]], now_ms: int, until_ms: int) -> Iterator[Debt]:
    for row, config in places:
        yield Debt(row.scope, row.task_id, next(iter(config.owed)), config.hook, config.attempts, until_ms)
        config.attempts += 1
        config.due_ms = config.claimed_until_ms = until_ms
        config.served_ms = now_ms
