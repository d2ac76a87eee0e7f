"""Push configs in memory, and the webhooks they are owed (spec: PAID-01, PAID-02, PAID-03)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import islice

from a2a_server.adapters.memory.rows import ConfigRow, TaskRow
from a2a_server.ports.entry import MESSAGE
from a2a_server.ports.hooks import Account, Debt, Rooms, Setback, Which
from a2a_server.ports.write import Write

_Place = tuple[int, int]
"""When a config is due, and its serial number."""


class Debts:
    """Which configs are owed something. A config is served one debt at a time, and the longest unserved goes first."""

    def __init__(self) -> None:
        self._hosts: dict[str, list[_Place]] = {}
        """Of each host those that are due, in order; hosts take turns in the order of this dict."""
        self._due: dict[int, tuple[TaskRow, ConfigRow]] = {}
        self._parked: dict[int, tuple[TaskRow, ConfigRow]] = {}

    def owe(self, row: TaskRow, write: Write) -> bool:
        numbers = [entry.number for entry in write.entries if entry.kind != MESSAGE]
        owed = {number: write.trace_of(number) for number in numbers} if write.traces else dict.fromkeys(numbers)
        payable = False
        for config in (row.configs or {}).values() if numbers else ():
            config.owed.update(owed)
            if config.parked_ms is None:
                payable = True
                if config.due_ms is None:
                    self._set_due(row, config, config.served_ms)
        return payable

    # -- when configs are due

    def _set_due(self, row: TaskRow, config: ConfigRow, due_ms: int | None) -> None:
        if config.due_ms is not None:
            line = self._hosts[config.host]
            del line[bisect_left(line, (config.due_ms, config.serial))]
            if not line:
                del self._hosts[config.host]
            del self._due[config.serial]
        config.due_ms = due_ms
        if due_ms is not None:
            insort(self._hosts.setdefault(config.host, []), (due_ms, config.serial))
            self._due[config.serial] = row, config

    def _begin_anew(self, row: TaskRow, config: ConfigRow) -> None:
        """Forget what has failed; what is owed is due, unless an attempt is under way."""
        config.attempts, config.failing_ms, config.parked_ms, config.why = 0, None, None, ""
        self._parked.pop(config.serial, None)
        if config.claimed_until_ms is None:
            self._set_due(row, config, config.served_ms if config.owed else None)

    def moved(self, row: TaskRow, config: ConfigRow, host: str) -> None:
        """A config was replaced; whoever tries the old one has no claim on the new one."""
        self._set_due(row, config, None)
        config.host, config.claimed_until_ms = host, None
        self._begin_anew(row, config)

    def forget(self, row: TaskRow, config: ConfigRow) -> None:
        """A config was deleted."""
        self._set_due(row, config, None)
        self._parked.pop(config.serial, None)

    # -- claims

    def next(self) -> int | None:
        return min((line[0][0] for line in self._hosts.values()), default=None)

    def claim(self, now_ms: int, until_ms: int, limit: int, rooms: Rooms) -> Sequence[Debt]:
        debts: list[Debt] = []
        for host in list(self._hosts):
            if len(debts) == limit:
                break
            self._hosts[host] = self._hosts.pop(host)  # the next time, the others come first
            debts += self._claim_of(host, now_ms, until_ms, min(limit - len(debts), rooms.of(host)))
        return debts

    def _claim_of(self, host: str, now_ms: int, until_ms: int, limit: int) -> Iterator[Debt]:
        line = self._hosts[host]
        due = line[: max(0, min(limit, bisect_left(line, (now_ms + 1, 0))))]
        for _, serial in due:
            row, config = self._due[serial]
            self._set_due(row, config, until_ms)
            config.claimed_until_ms, config.served_ms = until_ms, now_ms
            number, trace = next(iter(config.owed.items()))
            failed = config.attempts, until_ms, host, config.failing_ms
            yield Debt(row.scope, row.task_id, number, config.hook, *failed, trace)

    def settle(self, row: TaskRow | None, debt: Debt, setback: Setback | None) -> bool:
        config = (row.configs or {}).get(debt.hook.config.id) if row is not None else None
        if row is None or config is None or config.claimed_until_ms != debt.until_ms or debt.number not in config.owed:
            return False
        config.claimed_until_ms = None
        if setback is not None:
            self._put_off(row, config, setback)
            return True
        del config.owed[debt.number]
        config.delivered += 1
        self._begin_anew(row, config)
        return True

    def _put_off(self, row: TaskRow, config: ConfigRow, setback: Setback) -> None:
        self._set_due(row, config, setback.retry_ms)
        if setback.retry_ms is None:
            config.parked_ms = setback.now_ms
            self._parked[config.serial] = row, config
        if setback.tried:
            config.attempts += 1
            config.failed += 1
            config.why = setback.why
            config.failing_ms = setback.now_ms if config.failing_ms is None else config.failing_ms

    # -- what operators do

    def accounts(self, row: TaskRow | None, which: Which, limit: int) -> Sequence[Account]:
        return [_account(*place) for place in islice(self._found(row, which), limit)]

    def retry(self, row: TaskRow | None, which: Which) -> int:
        found = [place for place in self._found(row, which) if place[1].owed or place[1].parked_ms is not None]
        for place in found:
            self._begin_anew(*place)
        return sum(bool(config.owed) for _, config in found)

    def drop(self, row: TaskRow | None, which: Which) -> int:
        dropped = 0
        for place, config in list(self._found(row, which)):
            dropped += len(config.owed)
            config.owed.clear()
            config.claimed_until_ms = None
            self._begin_anew(place, config)
        return dropped

    def _found(self, row: TaskRow | None, which: Which) -> Iterator[tuple[TaskRow, ConfigRow]]:
        if not which.task_id:
            due = [] if which.parked else sorted(self._due.values(), key=lambda place: place[1].due_ms or 0)
            yield from due
            yield from self._parked.values()
        elif row is not None:
            for config_id, config in sorted((row.configs or {}).items()):
                if which.config_id in ("", config_id) and (config.parked_ms is not None or not which.parked):
                    yield row, config


def _account(row: TaskRow, config: ConfigRow) -> Account:
    made = config.hook.config
    return Account(
        scope=row.scope,
        task_id=row.task_id,
        config_id=made.id,
        url=made.url,
        version=config.version,
        owed=len(config.owed),
        first=next(iter(config.owed), None),
        delivered=config.delivered,
        failed=config.failed,
        attempts=config.attempts,
        due_ms=config.due_ms,
        claimed=config.claimed_until_ms is not None,
        failing_ms=config.failing_ms,
        parked_ms=config.parked_ms,
        why=config.why,
    )
