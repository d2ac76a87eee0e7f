"""The life of a task: its states, and which state may follow which (spec: STAT-01, STAT-02, "Task states")."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from a2a_proto import a2a_pb2 as pb

SUBMITTED: Final = int(pb.TASK_STATE_SUBMITTED)
WORKING: Final = int(pb.TASK_STATE_WORKING)
INPUT: Final = int(pb.TASK_STATE_INPUT_REQUIRED)
AUTH: Final = int(pb.TASK_STATE_AUTH_REQUIRED)
COMPLETED: Final = int(pb.TASK_STATE_COMPLETED)
FAILED: Final = int(pb.TASK_STATE_FAILED)
CANCELED: Final = int(pb.TASK_STATE_CANCELED)
REJECTED: Final = int(pb.TASK_STATE_REJECTED)

ACTIVE: Final = frozenset({SUBMITTED, WORKING})
INTERRUPTED: Final = frozenset({INPUT, AUTH})
TERMINAL: Final = frozenset({COMPLETED, FAILED, CANCELED, REJECTED})
STOPPING: Final = INTERRUPTED | TERMINAL
"""The states that end a turn: the task is finished, or waits for the client (BLK-02, CONF-07)."""

_COLUMNS = (SUBMITTED, WORKING, INPUT, AUTH, COMPLETED, FAILED, CANCELED, REJECTED)

# STAT-02, row by row. WORKING may repeat (progress), and so may INPUT and AUTH (a new question). No state goes back to
# SUBMITTED. A new task cannot be CANCELED, because there was nothing to cancel.
_ROWS: Mapping[int | None, str] = {
    #          SUBM WORK INPT AUTH COMP FAIL CANC REJE
    None:      "Y    Y    Y    Y    Y    Y    -    Y",
    SUBMITTED: "-    Y    Y    Y    Y    Y    Y    Y",
    WORKING:   "-    Y    Y    Y    Y    Y    Y    Y",
    INPUT:     "-    Y    Y    Y    Y    Y    Y    Y",
    AUTH:      "-    Y    Y    Y    Y    Y    Y    Y",
    COMPLETED: "-    -    -    -    -    -    -    -",
    FAILED:    "-    -    -    -    -    -    -    -",
    CANCELED:  "-    -    -    -    -    -    -    -",
    REJECTED:  "-    -    -    -    -    -    -    -",
}  # fmt: skip


def _moves(row: str) -> frozenset[int]:
    return frozenset(state for state, mark in zip(_COLUMNS, row.split(), strict=True) if mark == "Y")


MOVES: Final[Mapping[int | None, frozenset[int]]] = MappingProxyType({old: _moves(row) for old, row in _ROWS.items()})
"""Old state (None = a new task) → the states that may follow."""

_NOWHERE: frozenset[int] = frozenset()


def may_move(old: int | None, new: int) -> bool:
    """Whether the table allows this change. From an unknown state none is allowed."""
    return new in MOVES.get(old, _NOWHERE)
