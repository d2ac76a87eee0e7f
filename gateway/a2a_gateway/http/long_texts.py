"""Long JSON texts, written in a thread so that the event loop goes on meanwhile (spec: DOOR-04, RPLY-06).

1. What is short is written at once, by whoever needs it: to hand it to a thread would cost more.
2. What is long is written by one thread, one text after another. So a few clients who ask for long texts wait for each
   other, while everybody else is served.
3. The codec is Python, so the thread lets the event loop go on every few milliseconds.
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
"""Messages of more bytes are long. As many bytes of empty objects are written within 35 ms."""

_Key = tuple[Codec, type[Message], bytes]


class LongTexts:
    """Writes each text once for all who are sending it at the same time."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "long-texts")
        self._texts: WeakValueDictionary[_Key, SharedText] = WeakValueDictionary()

    async def of(self, codec: Codec, kind: type[Message], wire: bytes) -> SharedText:
        """The JSON of a serialised message."""
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
