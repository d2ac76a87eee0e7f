"""JSON texts of messages that were written before, within bounds (design: §5: an event is encoded once)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

Key = tuple[type, bytes]

_OVERHEAD: Final = 300
"""What Python keeps for an entry besides its two texts, roughly."""
_LARGEST_SHARE: Final = 8


class Memo:
    """Forgets what was not asked for the longest when `room` bytes are full; what would take an eighth is not kept."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._size = 0

    def get(self, key: Key) -> bytes | None:
        text = self._kept.get(key)
        if text is not None:
            self._kept.move_to_end(key)
        return text

    def put(self, key: Key, text: bytes) -> None:
        size = _size(key, text)
        if size > self._room // _LARGEST_SHARE:
            return
        if (old := self._kept.pop(key, None)) is not None:
            self._size -= _size(key, old)
        self._kept[key] = text
        self._size += size
        while self._size > self._room:
            self._size -= _size(*self._kept.popitem(last=False))

    @property
    def size(self) -> int:
        """How many bytes are in use."""
        return self._size


def _size(key: Key, text: bytes) -> int:
    return len(key[1]) + len(text) + _OVERHEAD
