"""The store in memory (spec: RECV-01). No method suspends, so the event loop is the transaction."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.memory.push import ConfigRow, Deliveries
from a2a_server.adapters.memory.tasks import TaskIndex, TaskRow
from a2a_server.domain.lifecycle import TERMINAL
from a2a_server.domain.scope import Scope
from a2a_server.domain.webhooks import site_of
from a2a_server.ports.push import ClaimLimits, Delivery, FailedAttempt, PushConfig
from a2a_server.ports.records import Entry, Lease, Receipt, StoredTurn, Write
from a2a_server.ports.store import Claimed, Repeated, StaleWrite, StoredTask, TaskPage, TaskQuery


class MemoryStore:
    def __init__(self) -> None:
        self._secret = os.urandom(32)
        self._tasks: dict[str, TaskRow] = {}
        self._index = TaskIndex()
        self._turning: dict[str, TaskRow] = {}
        """Tasks with turns."""
        self._receipts: dict[tuple[Scope, str], Receipt] = {}
        self._deliveries = Deliveries()
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
            row = self._tasks[write.task_id] = TaskRow(write.scope, write.task_id, head)
            self._index.put(write.scope, write.task_id, None, head)
        elif head is not None:
            self._index.put(write.scope, write.task_id, row.head, head)
            row.head = head
        row.take(write)
        if row.turns:
            self._turning[row.task_id] = row
        else:
            self._turning.pop(row.task_id, None)
        for hook in write.configs:
            self._put(row, hook)
        if write.receipt is not None:
            self._receipts[write.scope, write.receipt.key] = write.receipt
        return write.notify and bool(row.configs) and self._deliveries.add(row.configs or {}, write)

    def _check(self, write: Write, row: TaskRow | None) -> None:
        if write.receipt is not None:
            found = self._living(write.scope, write.receipt.key, write.now_ms)
            if found and (write.expected or found.task_id != write.task_id):
                raise Repeated(found)
        number, epoch = (0, 0) if row is None else (len(row.wires), row.epoch)
        if write.expected != number or write.epoch != epoch + (write.claim is not None):
            raise StaleWrite(write.task_id)
        if row is not None and row.scope != write.scope:
            raise StaleWrite(write.task_id)

    async def load(self, scope: Scope, task_id: str) -> StoredTask | None:
        row = self._row(scope, task_id)
        return row.record() if row else None

    async def entries(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        row = self._tasks.get(task_id)
        wires = row.wires[after : after + limit] if row else []
        return [Entry(n, wire) for n, wire in enumerate(wires, after + 1)]

    async def page(self, query: TaskQuery) -> TaskPage:
        ids, total = self._index.page(query.scope, query.filter, query.after, query.limit + 1)
        tasks: list[pb.Task] = []
        room, artifacts = query.max_bytes, query.include_artifacts
        for row in map(self._tasks.__getitem__, ids):
            room -= row.size(artifacts=artifacts)
            if room < 0 and tasks:
                return TaskPage(tasks, total, more=True)
            tasks.append(row.task(artifacts=artifacts))
        return TaskPage(tasks[: query.limit], total, more=len(ids) > query.limit)

    async def has_context(self, scope: Scope, context_id: str) -> bool:
        return self._index.has_context(scope, context_id)

    async def waiting_since(self, state: int, before_ms: int, limit: int) -> Sequence[tuple[Scope, str]]:
        waiting: list[tuple[Scope, str]] = []
        for task_id in self._index.before(state, before_ms):
            if len(waiting) == limit:
                break
            if task_id not in self._turning:
                waiting.append((self._tasks[task_id].scope, task_id))
        return waiting

    # -- leases

    async def claim(self, lease: Lease, lapsed_before_ms: int, limit: int) -> Sequence[Claimed]:
        lapsed = [row for row in self._turning.values() if _until(row) < lapsed_before_ms]
        lapsed.sort(key=_until)
        for row in lapsed[:limit]:
            row.epoch += 1
            row.lease = lease
        return [Claimed(row.scope, row.task_id, row.epoch, _turns(row)) for row in lapsed[:limit]]

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

    async def count_configs(self, owner: str, host: str, limit: int) -> int:
        return self._deliveries.count((owner, host), limit, lambda task: self._tasks[task].head.state in TERMINAL)

    async def delete_config(self, scope: Scope, task_id: str, config_id: str) -> bool:
        row = self._row(scope, task_id)
        if row is None:
            return False
        if row.configs and (config := row.configs.pop(config_id, None)) is not None:
            self._deliveries.forget(config)
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
        configs = self._tasks[delivery.task_id].configs or {}
        return self._deliveries.finish(configs.get(delivery.hook.config.id), delivery, failure)


def _until(row: TaskRow) -> int:
    return row.lease.until_ms if row.lease else 0


def _turns(row: TaskRow) -> list[StoredTurn]:
    turns = row.turns or {}
    return [turns[number] for number in sorted(turns)]
