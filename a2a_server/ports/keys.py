"""API keys in the store: made, listed and revoked by operators while servers run (spec: GATE-08)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable


class StoredKey(NamedTuple):
    """An API key, as far as it is stored: not the key, but its hash. Times are milliseconds since 1970."""

    key_id: str
    """Part of the key, so that one that has leaked can be found and revoked."""
    digest: bytes
    owner: str
    tenant: str
    scopes: frozenset[str] | None
    """None = everything."""
    extended_card: bool
    name: str
    made_ms: int
    expires_ms: int | None = None
    used_ms: int | None = None
    """The last use, some seconds late."""
    revoked_ms: int | None = None


@runtime_checkable
class KeyStore(Protocol):
    """What a server does with keys."""

    async def keys_after(self, change: int, limit: int) -> Sequence[tuple[int, StoredKey]]:
        """Return keys that were made or revoked after a change, in the order of their last changes, with its number."""
        ...

    async def note_use(self, used: Mapping[str, int]) -> None:
        """Note when keys were used last, by their ids."""
        ...


class KeyAdmin(Protocol):
    """What operators do with keys, while servers use the store. Calls block."""

    def make(self, key: StoredKey) -> None: ...

    def keys(self, owner: str, limit: int) -> Sequence[StoredKey]:
        """Return the newest keys, of one owner or of all, newest first."""
        ...

    def revoke(self, key_id: str, now_ms: int) -> StoredKey | None:
        """Revoke a key for good, and return it; None if there is none. It stays listed."""
        ...
