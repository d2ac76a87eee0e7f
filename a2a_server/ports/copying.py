"""Copying a store into another one: rows in a form that is no database's own (spec: OPER-04, SECR-03).

1. A row is a tuple of the columns below. Text, numbers, bytes and NULL are the same everywhere; truth is 0 or 1, and a
   list is JSON. Content is copied as it is: sealed content stays sealed, with the same keys.
2. The source is read while nobody writes to it. The target is empty, and gets all or nothing.
3. Then the target is read, too. As many rows must be there, and a digest of each kind of rows must be the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from a2a_server.ports.store import StoreDamaged

Row = tuple[Any, ...]

_SCOPE: Final = "tenant owner"
_TASK: Final = f"{_SCOPE} task"
COLUMNS: Final = {
    "secrets": "name value",
    "content_keys": "id turn",
    "tasks": f"{_TASK} context_id state status_ms number shelved epoch busy session log_bytes "
    "head artifacts agent_state",
    "events": f"{_TASK} number wire",
    "turns": f"{_TASK} number request",
    "context_states": f"{_SCOPE} context_id name updated_ms value",
    "receipts": f"{_SCOPE} key task expires_ms fingerprint reply",
    "configs": f"{_TASK} id host version schemes due_ms claimed_until_ms failing_ms parked_ms why served_ms pending "
    "delivered skipped failed attempts rejections over wire",
    "debts": f"{_TASK} config number traceparent tracestate",
    "api_keys": "id digest owner tenant scopes extended_card name made_ms expires_ms used_ms revoked_ms change",
}
"""The kinds of rows, in the order in which they are copied, and their columns. Tasks come in the order of creation."""

_MODULUS: Final = 2**256


class CopySource(Protocol):
    """A store that nobody writes to meanwhile."""

    def count(self, kind: str) -> int: ...

    def rows(self, kind: str) -> Iterator[Sequence[Row]]:
        """Yield all rows of a kind, in batches of a few megabytes."""
        ...


class CopyTarget(CopySource, Protocol):
    """An empty store. What is written can be read here, and by others when all has succeeded."""

    def write(self, kind: str, rows: Sequence[Row]) -> None: ...

    def finish(self) -> None:
        """Make what follows from the rows, such as totals."""
        ...


class CopyProgress(NamedTuple):
    """How far a copy has come."""

    kind: str
    rows: int
    """Copied, or compared, so far."""
    all: int
    comparing: bool = False


class Digest:
    """Of rows in any order, except tasks, whose order counts."""

    def __init__(self, kind: str) -> None:
        self._ordered = kind == "tasks"
        self.rows = 0
        self.sum = 0

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.rows += 1
            place = b"%d" % self.rows if self._ordered else b""
            values = [value if isinstance(value, bytes) else repr(value).encode() for value in row]
            front = place + b"".join(b"<%d>" % len(value) for value in values)
            self.sum += int.from_bytes(hashlib.sha256(b"".join((front, *values))).digest())
        self.sum %= _MODULUS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and (self.rows, self.sum) == (other.rows, other.sum)

    __hash__ = None  # type: ignore[assignment]  # it changes


def copy(source: CopySource, target: CopyTarget, tell: Callable[[CopyProgress], None]) -> dict[str, int]:
    """Copy all rows, and compare what has arrived. Returns how many of each kind. Raises `StoreDamaged`."""
    everything = sum(map(source.count, COLUMNS))
    digests = {kind: Digest(kind) for kind in COLUMNS}
    done = 0
    for kind, digest in digests.items():
        for rows in source.rows(kind):
            digest.add(rows)
            target.write(kind, rows)
            done += len(rows)
            tell(CopyProgress(kind, done, everything))
    target.finish()
    _compare(target, digests, tell)
    return {kind: digest.rows for kind, digest in digests.items()}


def _compare(target: CopySource, expected: dict[str, Digest], tell: Callable[[CopyProgress], None]) -> None:
    everything, done = sum(digest.rows for digest in expected.values()), 0
    for kind, digest in expected.items():
        arrived = Digest(kind)
        for rows in target.rows(kind):
            arrived.add(rows)
            done += len(rows)
            tell(CopyProgress(kind, done, everything, comparing=True))
        if arrived != digest:
            raise StoreDamaged(
                f"the copy differs from the store: of {digest.rows} rows of {kind}, {arrived.rows} have arrived, "
                "or not all of them unchanged. Nothing was kept of it"
            )


class RowBatches:
    """Chooses how many rows to read at once: as many as make a few megabytes."""

    _BYTES: Final = 4 * 2**20
    _MOST: Final = 2_000

    def __init__(self) -> None:
        self.next = 16

    def saw(self, rows: Sequence[Row]) -> None:
        size = sum(len(value) for row in rows for value in row if isinstance(value, bytes)) + 100 * len(rows)
        self.next = max(1, min(self._MOST, 4 * self.next, self._BYTES * len(rows) // max(size, 1)))
