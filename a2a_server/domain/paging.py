"""Opaque page cursors, bound to the caller and the filters they were issued for (spec: LIST-04, LIST-15)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """What a list asks for; every member that is set narrows the result (LIST-02, LIST-03)."""

    context_id: str = ""
    state: int = 0
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the order of lists: status time newest first, then task id, greatest first (LIST-05, LIST-06)."""

    status_ms: int
    task_id: str
