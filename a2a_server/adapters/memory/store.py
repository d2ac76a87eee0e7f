"""The store in memory (spec: RECV-01). No method suspends, so the event loop is the transaction."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import count

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.memory.push import ConfigRow, Deliveries
from a2a_server.adapters.memory.tasks import TaskIndex, TaskRow, fitting
from a2a_server.domain.events import last_messages
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.domain.paging import TaskFilter
from a2a_server.domain.scope import Scope
from a2a_server.domain.webhooks import site_of
from a2a_server.ports.agent import ContextMemory
from a2a_server.ports.push import ClaimLimits, Delivery, FailedAttempt, PushConfig
from a2a_server.ports.records import Entry, Receipt, StoredTurn, Write
from a2a_server.ports.replicas import Letter
from a2a_server.ports.retention import Deadlines, Holdings, Removed
from a2a_server.ports.store import (
    Claimed,
    ContextQuery,
    Repeated,
    StaleWrite,
    StoredTask,
    TaskPage,
    TaskQuery,
)

_NOTHING = Holdings(0, 0)
_AT_ONCE = 64
"""Tasks that are looked at in one step of a sweep."""


class MemoryStore:
    """Tasks of one server, or in tests of several in one process."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sessions: dict[str, float] = {}
        self._addresses: dict[str, str] = {}
        """When each is over."""
        self._letters: dict[str, list[Letter]] = {}
        self._secret = os.urandom(32)
        self._tasks: dict[str, TaskRow] = {}
        self._index = TaskIndex()
        self._turning: dict[str, TaskRow] = {}
        """Tasks with turns."""
        self._context_states: dict[tuple[Scope, str], dict[str, bytes | None]] = {}
        """The values of each context by their names; None for those that were removed."""
        self._context_times: dict[tuple[Scope, str], int] = {}
        """When each was changed last."""
        self._receipts: dict[tuple[Scope, str], Receipt] = {}
        self._unswept: list[TaskRow] | None = None
        """Tasks that this round of a sweep has yet to look at."""
        self._deliveries = Deliveries()
        self._holdings: dict[str, dict[str, Holdings]] = {}
        """By owner and tenant."""
        self._serials = count(1)

    async def open(self) -> None:
        """Nothing to connect."""

    async def close(self) -> None:
        """Nothing to disconnect. The data stays as long as the object."""

    async def ping(self) -> None:
        """Always there."""

    async def secret(self) -> bytes:
        return self._secret

    def _row(self, scope: Scope, task_id: str) -> TaskRow | None:
        row = self._tasks.get(task_id)
        return row if row is not None and row.scope == scope else None

    # -- tasks

    async def commit(self, write: Write) -> bool:
        row = self._tasks.get(write.task_id)
        self._check(write, row)
        head = write.head
        if row is None:
            assert head is not None  # noqa: S101 - a write that creates has one
            row = self._tasks[write.task_id] = TaskRow(write.scope, write.task_id, head, serial=next(self._serials))
            self._index.put(write.scope, write.task_id, None, head)
            self._grow(write.scope, 0, tasks=1)
        elif head is not None:
            self._index.put(write.scope, write.task_id, row.head, head)
            row.head = head
        row.take(write)
        if write.remember is not None:
            values = self._context_states.setdefault((row.scope, row.head.context_id), {})
            before = _bytes_of(values)
            values.update(write.remember)
            self._grow(row.scope, _bytes_of(values) - before)
            self._context_times[row.scope, row.head.context_id] = row.head.status_ms
        if row.turns:
            self._turning[row.task_id] = row
        else:
            self._turning.pop(row.task_id, None)
        for hook in write.configs:
            self._put(row, hook)
        self._count(row)
        if write.receipt is not None:
            self._receipts[write.scope, write.receipt.key] = write.receipt
        return write.notify and bool(row.configs) and self._deliveries.add(row.configs or {}, write)

    def _check(self, write: Write, row: TaskRow | None) -> None:
        if write.receipt is not None:
            found = self._living(write.scope, write.receipt.key, write.now_ms)
            if found and (write.expected or found.task_id != write.task_id):
                raise Repeated(found)
        number, epoch = (0, 0) if row is None else (row.number, row.epoch)
        if write.expected != number or write.epoch != epoch + (write.claim is not None):
            raise StaleWrite(write.task_id)
        if row is not None and row.scope != write.scope:
            raise StaleWrite(write.task_id)

    async def load(self, scope: Scope, task_id: str) -> StoredTask | None:
        row = self._row(scope, task_id)
        return row.record() if row else None

    async def entries(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        row = self._tasks.get(task_id)
        if row is None:
            return []
        after = max(after, row.dropped)
        wires = row.wires[after - row.dropped : after - row.dropped + limit]
        return [Entry(n, wire) for n, wire in enumerate(wires, after + 1)]

    async def page(self, query: TaskQuery) -> TaskPage:
        ids, total = self._index.page(query.scope, query.filter, query.after, query.limit + 1)
        rows = map(self._tasks.__getitem__, ids[: query.limit])
        tasks = fitting(rows, query.max_bytes, artifacts=query.include_artifacts)
        return TaskPage(tasks, total, more=len(ids) > len(tasks))

    async def has_context(self, scope: Scope, context_id: str) -> bool:
        return self._index.has_context(scope, context_id)

    async def context(self, query: ContextQuery) -> ContextMemory:
        async def tasks() -> Sequence[pb.Task]:
            return self._newest(query, artifacts=True)

        def history() -> Sequence[pb.Message]:
            return last_messages(self._newest(query, artifacts=False), query.limit, query.max_bytes)

        def state() -> Mapping[str, bytes]:
            values = self._context_states.get((query.scope, query.context_id), {})
            return {name: value for name, value in values.items() if value is not None}

        return ContextMemory(history, tasks, state)

    def _newest(self, query: ContextQuery, *, artifacts: bool) -> Sequence[pb.Task]:
        ids, _ = self._index.page(query.scope, TaskFilter(query.context_id), None, query.limit + 1)
        rows = [self._tasks[task_id] for task_id in ids if task_id != query.without]
        rows.sort(key=lambda row: (row.head.status_ms, row.serial), reverse=True)  # ids of one time are in no order
        return fitting(rows[: query.limit], query.max_bytes, artifacts=artifacts)[::-1]

    async def holdings(self, owner: str, tenant: str = "") -> Holdings:
        held = self._holdings.get(owner, {})
        if tenant:
            return held.get(tenant, _NOTHING)
        return Holdings(sum(one.tasks for one in held.values()), sum(one.bytes for one in held.values()))

    def _count(self, row: TaskRow) -> None:
        size = row.bytes
        self._grow(row.scope, size - row.counted)
        row.counted = size

    def _grow(self, scope: Scope, growth: int, *, tasks: int = 0) -> None:
        held = self._holdings.setdefault(scope.owner, {})
        before = held.get(scope.tenant, _NOTHING)
        held[scope.tenant] = Holdings(before.tasks + tasks, before.bytes + growth)

    async def waiting_since(self, state: int, before_ms: int, limit: int) -> Sequence[tuple[Scope, str]]:
        waiting: list[tuple[Scope, str]] = []
        for task_id in self._index.before(state, before_ms):
            if len(waiting) == limit:
                break
            if task_id not in self._turning:
                waiting.append((self._tasks[task_id].scope, task_id))
        return waiting

    # -- sessions, and letters between them

    async def claim(self, session: str, limit: int) -> Sequence[Claimed]:
        left = [row for row in self._turning.values() if row.session != session and not self._lives(row.session)]
        for row in left[:limit]:
            row.epoch += 1
            row.session = session
        return [Claimed(row.scope, row.task_id, row.epoch, _turns(row)) for row in left[:limit]]

    def _lives(self, session: str) -> bool:
        return self._sessions.get(session, 0.0) > self._now()

    async def beat(self, session: str, seconds: float, address: str = "") -> bool:
        if session in self._sessions and not self._lives(session):
            return False
        self._sessions[session] = self._now() + seconds
        self._addresses[session] = address
        return True

    async def lives(self, session: str) -> bool:
        return self._lives(session)

    async def addresses(self) -> Collection[str]:
        return {address for session, address in self._addresses.items() if address and self._lives(session)}

    async def end_session(self, session: str) -> None:
        self._sessions[session] = 0.0
        self._letters.pop(session, None)

    async def numbers(self, task_ids: Collection[str]) -> Mapping[str, int]:
        return {task_id: self._tasks[task_id].number for task_id in task_ids if task_id in self._tasks}

    async def post(self, letter: Letter) -> None:
        if self._lives(letter.to):
            self._letters.setdefault(letter.to, []).append(letter)

    async def collect(self, session: str, limit: int) -> Sequence[Letter]:
        letters = self._letters.pop(session, [])
        if len(letters) > limit:
            self._letters[session] = letters[limit:]
        return letters[:limit]

    # -- receipts

    def _living(self, scope: Scope, key: str, now_ms: int) -> Receipt | None:
        receipt = self._receipts.get((scope, key))
        return receipt if receipt is not None and receipt.expires_ms > now_ms else None

    async def recall(self, scope: Scope, key: str, now_ms: int) -> Receipt | None:
        return self._living(scope, key, now_ms)

    async def reserve(self, scope: Scope, receipt: Receipt, now_ms: int, *, instead_of: str = "") -> Receipt:
        found = self._living(scope, receipt.key, now_ms)
        if found is not None and (found.task_id != instead_of or found.reply or found.task_id in self._tasks):
            return found
        self._receipts[scope, receipt.key] = receipt
        return receipt

    async def answer(self, scope: Scope, key: str, reply: bytes) -> None:
        receipt = self._receipts.get((scope, key))
        if receipt is not None and not receipt.reply:
            self._receipts[scope, key] = replace(receipt, reply=reply)

    # -- push configs and deliveries

    async def put_config(self, scope: Scope, hook: PushConfig) -> bool:
        row = self._row(scope, hook.config.task_id)
        if row is None:
            return False
        self._put(row, hook)
        self._count(row)
        return True

    async def get_config(self, scope: Scope, task_id: str, config_id: str) -> PushConfig | None:
        row = self._row(scope, task_id)
        config = row.configs.get(config_id) if row and row.configs else None
        return config.hook if config else None

    async def configs(self, scope: Scope, task_id: str, after: str, limit: int) -> Sequence[PushConfig] | None:
        row = self._row(scope, task_id)
        if row is None:
            return None
        configs = row.configs or {}
        ids = sorted(config_id for config_id in configs if config_id > after)[:limit]
        return [configs[config_id].hook for config_id in ids]

    async def count_configs(self, owner: str, host: str | None, limit: int) -> int:
        return min(limit, sum(self._deliveries.counts(owner, host, self._is_over)))

    async def count_hosts(self, owner: str, limit: int) -> int:
        return min(limit, sum(count > 0 for count in self._deliveries.counts(owner, None, self._is_over)))

    def _is_over(self, task_id: str) -> bool:
        return self._tasks[task_id].head.state in TERMINAL

    async def delete_config(self, scope: Scope, task_id: str, config_id: str) -> bool:
        row = self._row(scope, task_id)
        if row is None:
            return False
        if row.configs and (config := row.configs.pop(config_id, None)) is not None:
            self._deliveries.forget(config)
            self._count(row)
        return True

    def _put(self, row: TaskRow, hook: PushConfig) -> None:
        wire, schemes, host = hook.config.SerializeToString(), tuple(hook.schemes), site_of(hook.config.url)
        if row.configs is None:
            row.configs = {}
        if known := row.configs.get(hook.config.id):
            known.wire, known.version, known.schemes = wire, hook.version, schemes
            self._deliveries.replaced(known, host)
        else:
            config = ConfigRow(row.scope, row.task_id, next(self._serials), wire, hook.version, schemes, host)
            row.configs[hook.config.id] = config
            self._deliveries.know(config)

    async def next_due(self) -> int | None:
        return self._deliveries.next_due()

    async def claim_deliveries(self, now_ms: int, until_ms: int, limit: int, limits: ClaimLimits) -> Sequence[Delivery]:
        return self._deliveries.claim(now_ms, until_ms, limit, limits)

    async def finish_attempt(self, delivery: Delivery, failure: FailedAttempt | None) -> bool:
        row = self._tasks.get(delivery.task_id)
        config = row.configs.get(delivery.hook.config.id) if row is not None and row.configs else None
        return self._deliveries.finish(config, delivery, failure)

    # -- retention

    async def sweep(self, deadlines: Deadlines) -> Removed | None:
        if self._unswept is None:
            self._unswept = list(self._tasks.values())
            return self._sweep_receipts(deadlines.receipts).plus(self._sweep_contexts(deadlines.contexts))
        if not self._unswept:
            self._unswept = None
            return None
        part = self._unswept[-_AT_ONCE:]
        del self._unswept[-_AT_ONCE:]
        return reduce(Removed.plus, (self._sweep_task(row, deadlines) for row in part))

    async def tidy(self) -> bool:
        return False

    def _sweep_task(self, row: TaskRow, deadlines: Deadlines) -> Removed:
        configs = list((row.configs or {}).items())
        removed = Removed()
        if deadlines.webhooks is not None:
            for config_id, config in configs:
                if config.parked_ms is not None and config.parked_ms < deadlines.webhooks:
                    removed = removed.plus(self._drop_config(row, config_id))
        if row.turns or row.head.state not in TERMINAL:
            return removed
        owing = any(config.due_ms is not None for _, config in configs)
        if _before(row, deadlines.tasks) and not (owing and deadlines.owed):
            return removed.plus(self._remove(row))
        if _before(row, deadlines.events) and not owing:
            events = row.drop_log()
            self._count(row)
            return removed.plus(Removed(events=events))
        return removed

    def _remove(self, row: TaskRow) -> Removed:
        receipts = [key for key, receipt in self._receipts.items() if receipt.task_id == row.task_id]
        for key in receipts:
            del self._receipts[key]
        removed = Removed(1, len(row.wires), receipts=len(receipts))
        for config_id in list(row.configs or {}):
            removed = removed.plus(self._drop_config(row, config_id))
        del self._tasks[row.task_id]
        self._grow(row.scope, -row.counted, tasks=-1)
        self._index.drop(row.scope, row.task_id, row.head)
        return removed

    def _drop_config(self, row: TaskRow, config_id: str) -> Removed:
        config = (row.configs or {}).pop(config_id)
        self._deliveries.forget(config)
        self._count(row)
        return Removed(configs=1, webhooks=len(config.pending))

    def _sweep_receipts(self, before_ms: int | None) -> Removed:
        expired = [key for key, receipt in self._receipts.items() if receipt.expires_ms <= (before_ms or 0)]
        for key in expired:
            del self._receipts[key]
        return Removed(receipts=len(expired))

    def _sweep_contexts(self, before_ms: int | None) -> Removed:
        old = [key for key, at_ms in self._context_times.items() if before_ms is not None and at_ms < before_ms]
        count = 0
        for scope, context_id in old:
            ids, _ = self._index.page(scope, TaskFilter(context_id), None, len(self._tasks))
            tasks = map(self._tasks.__getitem__, ids)
            if all(_before(row, before_ms) and row.head.state in TERMINAL for row in tasks):
                values = self._context_states.pop((scope, context_id))
                del self._context_times[scope, context_id]
                self._grow(scope, -_bytes_of(values))
                count += sum(value is not None for value in values.values())
        return Removed(context_values=count)


def _bytes_of(values: Mapping[str, bytes | None]) -> int:
    return sum(len(value) for value in values.values() if value is not None)


def _before(row: TaskRow, before_ms: int | None) -> bool:
    return before_ms is not None and row.head.status_ms < before_ms


def _turns(row: TaskRow) -> list[StoredTurn]:
    turns = row.turns or {}
    return [turns[number] for number in sorted(turns)]
