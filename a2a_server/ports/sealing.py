"""Content that a store keeps sealed: what callers and agents have said, and the place of each value (spec: SECR-03).

1. A store seals content where it writes a row and opens it where it reads one. Everything that look-ups need stays
   readable: ids, owner, tenant, context id, state, times, numbers, and the kind of an event.
2. A sealed value is bound to its place. In another row, task or scope it cannot be opened.
3. Without keys the store has `UNSEALED`, which leaves values as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from a2a_server.domain.scope import Scope
from a2a_server.ports.records import Receipt, Write
from a2a_server.ports.store import StoreRefused

SETTING = "store_keys"

PLAIN = ""
"""Stands for values that are not sealed, where others have the id of their key."""

EVENT = "event"
"""The kind of a place whose values keep their first byte readable, because it tells what happened."""

Place = tuple[str | int, ...]
"""Where a value belongs: its kind, then what it is found by."""


def head_place(scope: Scope, task_id: str) -> Place:
    return "head", scope.tenant, scope.owner, task_id


def artifacts_place(task_id: str) -> Place:
    return "artifacts", task_id


def agent_state_place(task_id: str) -> Place:
    return "agent state", task_id


def event_place(task_id: str, number: int) -> Place:
    return EVENT, task_id, number


def turn_place(task_id: str, number: int) -> Place:
    return "turn", task_id, number


def context_place(scope: Scope, context_id: str, name: str) -> Place:
    return "context", scope.tenant, scope.owner, context_id, name


def fingerprint_place(scope: Scope, key: str) -> Place:
    return "fingerprint", scope.tenant, scope.owner, key


def reply_place(scope: Scope, key: str) -> Place:
    return "reply", scope.tenant, scope.owner, key


def config_place(task_id: str, config_id: str) -> Place:
    return "config", task_id, config_id


class ContentSealing(Protocol):
    """Seals under one key, and opens what was sealed under any that it knows. Opening raises `StoreDamaged`."""

    first: str
    """The id of the key that seals, or `PLAIN`."""

    def begin(self, used: Collection[str]) -> None:
        """Take up work on a store that has content under these keys. Raises `StoreRefused` if one is unknown.

        From then on a value that is not sealed counts as damaged, unless `PLAIN` is among them.
        """
        ...

    def key_of(self, value: bytes) -> str:
        """The id of the key that a value is sealed with, or `PLAIN`. The first bytes are enough."""
        ...

    def seal(self, value: bytes, place: Place) -> bytes:
        """Seal a value for its place. An empty value stays empty, and the first byte of an event stays in front."""
        ...

    def open(self, value: bytes, place: Place) -> bytes:
        """Return the value again."""
        ...

    def sealed(self, write: Write) -> Write:
        """A copy with sealed contents, except in `remember` and `configs`: their places are known to the store."""
        ...

    def sealed_receipt(self, scope: Scope, receipt: Receipt) -> Receipt:
        """A copy with sealed fingerprint and reply. A fingerprint would tell those who guess what was sent."""
        ...

    def opened_receipt(self, scope: Scope, receipt: Receipt) -> Receipt:
        """The receipt again."""
        ...


class Unsealed:
    """Leaves everything as it is."""

    first = PLAIN

    def begin(self, used: Collection[str]) -> None:
        if sealed := sorted({*used} - {PLAIN}):
            raise StoreRefused(
                f"the store has content that is sealed with the key {sealed[0]!r}, and {SETTING} is empty. "
                "Set it to the keys that the store was used with"
            )

    def key_of(self, value: bytes) -> str:
        return PLAIN

    def seal(self, value: bytes, place: Place) -> bytes:
        return value

    def open(self, value: bytes, place: Place) -> bytes:
        return value

    def sealed(self, write: Write) -> Write:
        return write

    def sealed_receipt(self, scope: Scope, receipt: Receipt) -> Receipt:
        return receipt

    def opened_receipt(self, scope: Scope, receipt: Receipt) -> Receipt:
        return receipt


UNSEALED = Unsealed()


class KeysInUse(NamedTuple):
    """Under which keys a store has content. `PLAIN` stands for content that is not sealed."""

    first: str
    """The key that a server has begun to seal with last."""
    all: Sequence[str]
    left: int
    """How many values `rekey` would rewrite."""


class SealingAdmin(Protocol):
    """Rewrites the content of a store, for an operator.

    Methods raise `StoreRefused`, `StoreUnavailable` or `StoreDamaged`.
    """

    def keys(self) -> KeysInUse:
        """Count what is under which key."""
        ...

    def rekey(self, tell: Callable[[int], None]) -> tuple[int, bool]:
        """Write everything anew under the key that seals now. May be ended at any time, and repeated.

        `tell` is told now and then how many values have been rewritten. Returns that number, and whether the file was
        rebuilt, too, so that nothing of what was overwritten is left in it.
        """
        ...
