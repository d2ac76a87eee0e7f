"""Copies of a store in memory, as a server finds it after its predecessor's death; of a compiled one, too.

Compiled, a class whose `__init__` takes arguments is not copied as others are, and a frozen one not at all: here is
said how. Records are shared, because nobody changes them.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import is_dataclass
from typing import Any

from a2a_server.adapters.memory.tasks import TaskRow
from a2a_server.ports import records
from tests.support.house import MemoryStore

READ_ONLY = {"bytes", "number"}


def members(row: TaskRow) -> dict[str, Any]:
    kinds = {name: type(member).__name__ for name, member in vars(TaskRow).items()}
    data = {name for name, kind in kinds.items() if kind in {"getset_descriptor", "member_descriptor"}} - READ_ONLY
    return {name: getattr(row, name) for name in sorted(data)}


def rebuilt(told: dict[str, Any]) -> TaskRow:
    row = TaskRow(told["scope"], told["task_id"], told["head"])
    for name, value in told.items():
        setattr(row, name, value)
    return row


HOW: dict[type, Any] = {TaskRow: lambda row: (rebuilt, (members(row),))}
for kind in vars(records).values():
    if isinstance(kind, type) and is_dataclass(kind):
        HOW[kind] = lambda _: "itself"


@contextmanager
def registered() -> Iterator[None]:
    """Say how for as long as a copy takes: `pickle`, which other tests use, would ask as well."""
    copyreg.dispatch_table.update(HOW)
    try:
        yield
    finally:
        for kind in HOW:
            del copyreg.dispatch_table[kind]


def copy_of(store: MemoryStore) -> MemoryStore:
    with registered():
        return deepcopy(store)
