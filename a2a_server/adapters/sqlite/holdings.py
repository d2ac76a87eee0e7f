"""How much of each owner is stored: counted by the transactions that change it (spec: LIMT-02, KEPT-01).

`task_sizes`, a view, says what counts of a task. Whatever changes that is measured before and after, in the same
transaction, so that a crash leaves the counts right.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from a2a_server.adapters.sqlite.schema import queries
from a2a_server.ports.retention import Holdings

_SQL = queries("holdings.sql")

ENTER = _SQL["enter"]
"""The statement that counts a task that is new, or new in its state."""
FEW = 600
"""Rows that are added up on the event loop: those of about a hundred tenants."""


class TaskSize(NamedTuple):
    """How much of a task is stored, and where it is counted."""

    scope: int
    state: int
    bytes: int


def size_of(connection: sqlite3.Connection, task: int) -> TaskSize:
    return TaskSize(*connection.execute(_SQL["size"], (task,)).fetchone())


def leave(connection: sqlite3.Connection, size: TaskSize) -> None:
    """Count a task no more where it was."""
    connection.execute(_SQL["leave"], (size.bytes, size.scope, size.state))


def change(connection: sqlite3.Connection, task: int, before: TaskSize, state: int) -> None:
    """Count what has become of a task that may be in another state now."""
    if state != before.state:
        leave(connection, before)
        connection.execute(ENTER, (task,))
    elif growth := size_of(connection, task).bytes - before.bytes:
        grow(connection, growth, before.scope, before.state)


def grow(connection: sqlite3.Connection, growth: int, scope: int, state: int) -> None:
    """Count more bytes of a scope's tasks in a state; with the state 0, of its contexts."""
    connection.execute(_SQL["grow"], (growth, scope, state))


@contextmanager
def measured(connection: sqlite3.Connection, task: int) -> Iterator[None]:
    """Count what the block changes of a task. Its state stays."""
    before = size_of(connection, task)
    yield
    change(connection, task, before, before.state)


@contextmanager
def context_measured(connection: sqlite3.Connection, task: int) -> Iterator[None]:
    """Count what the block changes of the state of the task's context."""
    before = connection.execute(_SQL["size_of_context"], (task,)).fetchone()[1]
    yield
    scope, after = connection.execute(_SQL["size_of_context"], (task,)).fetchone()
    grow_contexts(connection, scope, after - before)


def grow_contexts(connection: sqlite3.Connection, scope: int, growth: int) -> None:
    connection.execute(_SQL["grow_contexts"], (scope, growth))


def held(connection: sqlite3.Connection, owner: str, limit: int = -1) -> tuple[Holdings, bool]:
    """What is stored of an owner in all tenants, and whether that is all: no more rows than the limit are added up."""
    tasks, size, rows = connection.execute(_SQL["held"], (owner, limit)).fetchone()
    return Holdings(tasks, size), rows != limit


def held_in_tenant(connection: sqlite3.Connection, owner: str, tenant: str) -> Holdings:
    return Holdings(*connection.execute(_SQL["held_in_tenant"], (tenant, owner)).fetchone())
