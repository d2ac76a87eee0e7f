"""Tasks in memory, and the sorted lists of them (spec: LIST-05, LIST-11). Rows hold bytes, shared with no caller."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.memory.push import ConfigRow
from a2a_server.domain.lifecycle import INTERRUPTED
from a2a_server.domain.paging import Position, TaskFilter
from a2a_server.domain.reducer import fold
from a2a_server.domain.scope import Scope
from a2a_server.ports.records import ARTIFACT, StoredTurn, TaskHead, Write
from a2a_server.ports.store import StoredTask


@dataclass(slots=True, eq=False)
class TaskRow:
    """One task."""

    scope: Scope
    task_id: str
    head: TaskHead
    wires: list[bytes] = field(default_factory=list)
    """The log: entry n is at index n - 1 - dropped."""
    dropped: int = 0
    """How many of the first entries are no longer kept."""
    artifacts: bytes = b""
    shelved: int = 0
    """Entries up to this number change nothing about `artifacts`."""
    epoch: int = 0
    session: str = ""
    """The one that took the right to write last."""
    turns: dict[int, StoredTurn] | None = None
    """None when there are none, as in most tasks; that saves memory and garbage collection."""
    state: bytes = b""
    configs: dict[str, ConfigRow] | None = None
    """None as above."""
    serial: int = 0
    """Which task of the store it is."""
    log_bytes: int = 0
    counted: int = 0
    """With how many bytes it is among its owner's holdings."""

    @property
    def number(self) -> int:
        return self.dropped + len(self.wires)

    def drop_log(self) -> int:
        """Keep the task without its log. Returns how many entries that were."""
        self.artifacts = pb.Task(artifacts=self.task(artifacts=True).artifacts).SerializeToString()
        count, self.dropped, self.shelved = len(self.wires), self.number, self.number
        self.wires, self.log_bytes = [], 0
        return count

    def take(self, write: Write) -> None:
        """Store everything of a write that is not in an index."""
        self.wires += [entry.wire for entry in write.entries]
        self.log_bytes += sum([len(entry.wire) for entry in write.entries])
        self.epoch = write.epoch
        if write.artifacts is not None:
            self.artifacts, self.shelved = write.artifacts, self.number
        elif self.shelved == write.expected and not any(entry.kind == ARTIFACT for entry in write.entries):
            self.shelved = self.number
        if write.claim is not None:
            self.session = write.claim
        if write.state is not None:
            self.state = write.state
        if write.begin or write.end:
            self._take_turns(write)

    def _take_turns(self, write: Write) -> None:
        turns = self.turns or {}
        for turn in write.begin:
            turns[turn.number] = turn
        for number in write.end:
            turns.pop(number, None)
        self.turns = turns or None

    @property
    def bytes(self) -> int:
        """How much of it is stored."""
        configs = sum([len(config.wire) for config in self.configs.values()]) if self.configs else 0
        return len(self.head.task) + len(self.artifacts) + len(self.state) + self.log_bytes + configs

    def size(self, *, artifacts: bool) -> int:
        """Bytes of what `task` is made of."""
        size = len(self.head.task)
        if artifacts:
            size += len(self.artifacts)
            if self.shelved < self.number:
                size += sum(map(len, self.wires[self.shelved :]))
        return size

    def task(self, *, artifacts: bool) -> pb.Task:
        """The task with everything that was written."""
        if not artifacts:
            return pb.Task.FromString(self.head.task)
        # Joined, the bytes of both parse as the whole message.
        task = pb.Task.FromString(self.head.task + self.artifacts)
        if self.shelved == self.number:
            return task
        tail = (pb.StreamResponse.FromString(wire) for wire in self.wires[self.shelved :])
        fold(task, (event for event in tail if event.HasField("artifact_update")))  # the head is always current
        return task

    def record(self) -> StoredTask:
        working = self.session if self.turns else ""
        task = self.task(artifacts=True)
        return StoredTask(task, self.number, self.epoch, self.state, self.log_bytes, working)


def fitting(rows: Iterable[TaskRow], room: int, *, artifacts: bool) -> list[pb.Task]:
    """The first tasks, as many as there is room for in bytes, and one at least."""
    tasks: list[pb.Task] = []
    for row in rows:
        room -= row.size(artifacts=artifacts)
        if room < 0 and tasks:
            break
        tasks.append(row.task(artifacts=artifacts))
    return tasks


class TaskIndex:
    """One ascending list of (status time, task id) per combination of filters. Pages are read from its end."""

    def __init__(self) -> None:
        self._scopes: dict[Scope, dict[Filter, list[ListPlace]]] = {}
        self._waiting: dict[int, list[ListPlace]] = {}
        """All tasks in each interrupted state."""

    def put(self, scope: Scope, task_id: str, old: TaskHead | None, new: TaskHead) -> None:
        """Move a task to the place of its new head."""
        lists = self._scopes.get(scope)
        if lists is None:
            lists = self._scopes[scope] = {}
        if old is not None:
            if (old.status_ms, old.state, old.context_id) == (new.status_ms, new.state, new.context_id):
                return
            self.drop(scope, task_id, old)
        place = new.status_ms, task_id
        insert(lists, filters(new), place)
        if new.state in INTERRUPTED:
            insert(self._waiting, (new.state,), place)

    def drop(self, scope: Scope, task_id: str, head: TaskHead) -> None:
        """Take a task out of all lists."""
        place = head.status_ms, task_id
        for key in filters(head):
            remove(self._scopes[scope], key, place)
        if head.state in INTERRUPTED:
            remove(self._waiting, head.state, place)

    def page(self, scope: Scope, wanted: TaskFilter, after: Position | None, limit: int) -> tuple[Sequence[str], int]:
        """Ids of one page, and the number of tasks on all pages."""
        places = self._scopes.get(scope, {}).get((wanted.context_id, wanted.state), [])
        start = 0 if wanted.since_ms is None else bisect_left(places, (wanted.since_ms, ""))
        end = len(places) if after is None else bisect_left(places, (after.status_ms, after.task_id))
        page = places[max(start, end - limit) : end]
        return [task_id for _, task_id in reversed(page)], len(places) - start

    def has_context(self, scope: Scope, context_id: str) -> bool:
        return (context_id, 0) in self._scopes.get(scope, {})

    def before(self, state: int, before_ms: int) -> Iterator[str]:
        """Ids of all tasks in an interrupted state since before a time, oldest first."""
        places = self._waiting.get(state, [])
        return (task_id for _, task_id in islice(places, bisect_left(places, (before_ms, ""))))


_NEAR = 64
"""How far from its end a list is searched first: new tasks belong near the end."""

_Key = TypeVar("_Key")
ListPlace = tuple[int, str]
"""Status time and task id."""
Filter = tuple[str, int]
"""Context and state; empty and 0 mean no filter."""


def filters(head: TaskHead) -> Collection[Filter]:
    """Every filter that a task passes. A task without a context or state is only in lists without that filter."""
    context, state = head.context_id, head.state
    passed = ("", 0), ("", state), (context, 0), (context, state)
    return passed if context and state else set(passed)


def insert(lists: dict[_Key, list[ListPlace]], keys: Iterable[_Key], place: ListPlace) -> None:
    for key in keys:
        places = lists.get(key)
        if places is None:
            lists[key] = [place]
        elif places[-1] < place:  # the usual case
            places.append(place)
        elif len(places) > _NEAR and places[-_NEAR] < place:
            insort(places, place, len(places) - _NEAR)
        else:
            insort(places, place)


def remove(lists: dict[_Key, list[ListPlace]], key: _Key, place: ListPlace) -> None:
    places = lists[key]
    del places[bisect_left(places, place)]
    if not places:
        del lists[key]
