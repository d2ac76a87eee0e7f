"""A streaming call while it lasts: what the operation yields, as the call's client is to get it (spec: RPLY-02)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

from google.protobuf.message import Message

from a2a_server.operations.call import Call, Entries, StreamOperation
from a2a_server.transport import replay
from a2a_server.transport.failing import fail
from a2a_server.transport.streams import OpenStream, OpenStreams


async def items(  # noqa: PLR0913, PLR0917 - all that a stream is made of
    rpc: str, operation: StreamOperation, streams: OpenStreams, call: Call, request: Message, place: OpenStream
) -> AsyncIterator[Entries]:
    """Batches, while there is a place for the stream. They stay here while the door writes them."""
    if place.take is not None and not call.numbers:  # which have to be put in first
        call = call._replace(take=place.take)
    try:
        with streams.admit(place):
            async with aclosing(cast("Any", operation(call, request))) as batches:
                async for entries in batches:
                    place.sending()
                    yield replay.numbered(entries) if call.numbers else entries
                    place.sent()
                    del entries  # it may take long until there are more
    except Exception as error:  # noqa: BLE001 - nothing unexpected may reach a client
        fail(rpc, error)
