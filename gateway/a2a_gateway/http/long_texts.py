"""Writes long JSON texts in a thread, so that they do not block the event loop (spec: DOOR-04, RPLY-06).

Short texts are written at once, because a thread switch would cost more. One thread writes the long texts, one after
another: clients that ask for long texts wait for each other, and all other clients are served meanwhile. The codec is
Python code, so the interpreter switches back to the event loop every few milliseconds.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from weakref import WeakValueDictionary

from google.protobuf.message import Message

from a2a_gateway.http.backlog import SharedText
from a2a_server.protocol.codec import Codec

LONG: Final = 64 * 1024
"""Messages with more bytes than this are long. This many bytes of empty objects take 35 ms to write."""

_Key = tuple[Codec, type[Message], bytes]


class LongTexts:
    """Writes each text once for all streams that send it at the same time."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "long-texts")
        self._texts: WeakValueDictionary[_Key, SharedText] = WeakValueDictionary()

    async def of(self, codec: Codec, kind: type[Message], wire: bytes) -> SharedText:
        """Return the JSON of a serialised message."""
        key = codec, kind, wire
        if (text := self._texts.get(key)) is not None:
            return text
        if (json := codec.kept(kind, wire)) is not None:
            text = self._texts[key] = SharedText(json, len(wire))
            return text
        text = await asyncio.get_running_loop().run_in_executor(self._thread, self._written, key)
        text.json = codec.keep(kind, wire, text.json)
        return text

    def _written(self, key: _Key) -> SharedText:
        codec, kind, wire = key
        if (text := self._texts.get(key)) is None:  # or another call has had it written meanwhile
            text = self._texts[key] = SharedText(codec.written(kind, wire), len(wire))
        return text
