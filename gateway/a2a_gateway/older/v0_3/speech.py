"""One way to speak 0.3, at work: requests that have become those of 1.0 in, answers of 0.3 out (spec: LRPC, LRES)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor

from a2a_gateway.calls import NOTHING, Beside, Calls, Query, Told
from a2a_gateway.http.frames import Frames
from a2a_gateway.http.streams import StreamReply
from a2a_gateway.older.v0_3.respelling import Rules, respell
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.dialects.words import retold
from a2a_server.protocol.errors import A2AError, StatusError


class Ask(NamedTuple):
    """A call of 0.3, having become one of 1.0."""

    request: web.BaseRequest
    query: Query
    method: MethodDescriptor
    message: Any
    beside: Beside = NOTHING
    rules: Rules = ()
    """How its members are called, where that depends on the request."""


new_ask: Final[Callable[[tuple[web.BaseRequest, Query, MethodDescriptor, Any, Beside, Rules]], Ask]] = partial(
    tuple.__new__, Ask
)
"""Made at once, in a third of the time."""

Answering = Callable[["Speech", Ask], Awaitable[Told]]


@dataclass(frozen=True, slots=True, eq=False)
class Speech:
    """One way to speak 0.3, at work."""

    calls: Calls
    rules: Mapping[str, Rules]
    """How members of 1.0 are called here, by the RPC."""
    card: Callable[[pb.AgentCard], bytes]
    """Writes cards."""
    otherwise: Mapping[str, Answering]
    """What answers for RPCs of 1.0 that a plain call would not do for."""

    async def answer(self, ask: Ask) -> Told:
        """Make the call, or the calls, and write the answer."""
        try:
            otherwise = self.otherwise.get(ask.method.name)
            if otherwise is not None:
                return await otherwise(self, ask)
            return await self.calls.unary(ask.request, ask.query, ask.method, ask.message, beside=ask.beside)
        except (A2AError, StatusError) as error:
            raise self._respelled(error, ask) from None

    async def stream(self, ask: Ask, frames: Frames) -> StreamReply:
        request, query, method, message, beside, _ = ask
        try:
            return await self.calls.stream(request, query, method, message, frames=frames, beside=beside)
        except (A2AError, StatusError) as error:
            raise self._respelled(error, ask) from None

    def _respelled(self, error: A2AError | StatusError, ask: Ask) -> A2AError | StatusError:
        rules = ask.rules or self.rules.get(ask.method.name, ())
        words = self.calls.profile.words
        told = error if words is None else retold(error, words)
        return respell(told, rules) if rules else told
