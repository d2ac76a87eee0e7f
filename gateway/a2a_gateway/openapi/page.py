"""`GET /openapi.json`: the routes of this gateway, as the upstream's agent serves them (spec: DOOR-03)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import orjson
from aiohttp import web
from google.rpc import code_pb2

from a2a_gateway.calls import Calls
from a2a_gateway.errors import failure_of
from a2a_gateway.http.replies import Reply
from a2a_gateway.openapi.document import Addition, document
from a2a_gateway.routing.table import Table
from a2a_gateway.upstream import CallContext
from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.protocol.errors import A2AError, StatusError
from a2a_server.protocol.names import JSON

_UNTOLD = frozenset(
    (
        *(code_pb2.UNIMPLEMENTED, code_pb2.NOT_FOUND, code_pb2.FAILED_PRECONDITION),
        *(code_pb2.UNAUTHENTICATED, code_pb2.PERMISSION_DENIED),
    )
)
"""What servers say that tell no card over gRPC, or not to a gateway; whatever else it is may be over soon."""
_GET_CARD = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"].methods_by_name["GetAgentCard"]


class OpenApiPage:
    """Describes the routes; anew only when the card has changed."""

    def __init__(self, calls: Calls, table: Table, more: Sequence[Addition] = ()) -> None:
        self._calls = calls
        self._table = table
        self._more = more
        self._described = lru_cache(maxsize=4)(self._describe)
        self._fields = [("Cache-Control", f"public, max-age={calls.options.card_max_age}")]
        if calls.proxies.vary:  # it says where it is served
            self._fields.append(("Vary", ", ".join(calls.proxies.vary)))

    async def __call__(self, request: web.BaseRequest) -> Reply:
        base = self._calls.proxies.base(request) or self._calls.cards.base
        card = await self._card()
        return Reply(self._described(card, base), JSON, () if card is None else self._fields)

    async def _card(self) -> bytes | None:
        """The card, serialised; None if the upstream tells none, so that the routes are described without one."""
        try:
            answer = await self._calls.upstream.unary(_GET_CARD, discovery_pb2.GetAgentCardRequest(), CallContext({}))
        except (A2AError, StatusError) as error:
            if failure_of(error).code not in _UNTOLD:
                raise
            return None
        return answer.message.SerializeToString(deterministic=True)

    def _describe(self, card: bytes | None, base: str) -> bytes:
        told = document(
            self._table,
            card=None if card is None else pb.AgentCard.FromString(card),
            server=base,
            codes=self._calls.profile.codes,
            more=self._more,
        )
        return orjson.dumps(told)
