"""Copies of a store in memory, as a server finds it after its predecessor's death; of a compiled one, too.

Compiled, a class whose `__init__` takes arguments is not copied as others are, and a frozen one not at all: here is
said how. Records are shared, because nobody changes them.
"""

from __future__ import annotations

import copyreg
from copy import deepcopy
from dataclasses import is_dataclass
from typing import Any

from a2a_server.adapters.memory.tasks import TaskRow
from a2a_server.ports import records
from tests.support.house import MemoryStore

READ_ONLY = {"number"}


def members(row: TaskRow) -> dict[str, Any]:
    kinds = {name: type(member).__name__ for name, member in vars(TaskRow).items()}
    data = {name for name, kind in kinds.items() if kind in {"getset_descriptor", "member_descriptor"}} - READ_ONLY
    return {name: getattr(row, name) for name in sorted(data)}


def rebuilt(told: dict[str, Any]) -> TaskRow:
    row = TaskRow(told["scope"], told["task_id"], told["head"])
    for name, value in told.items():
        setattr(row, name, value)
    return row


copyreg.pickle(TaskRow, lambda row: (rebuilt, (members(row),)))
for kind in vars(records).values():
    if isinstance(kind, type) and is_dataclass(kind):
        copyreg.pickle(kind, lambda _: "itself")


def copy_of(store: MemoryStore) -> MemoryStore:
    return deepcopy(store)
