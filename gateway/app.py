"""The gateway put together: which door a request's path leads to (design 5; spec: DOOR-03, DOOR-07)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import orjson
from aiohttp import web
from google.protobuf.descriptor import ServiceDescriptor

from a2a_server.errors import A2AError, ErrorCodes, Reason
from gateway import accept
from gateway.calls import Calls
from gateway.cards import Cards
from gateway.codec import V1
from gateway.cors import Cors
from gateway.headers import HeaderMap
from gateway.jsonrpc import JsonRpc
from gateway.openapi.page import OpenApiPage
from gateway.options import Options
from gateway.proxies import Proxies
from gateway.readers import Readers
from gateway.replies import Answering, Reply
from gateway.rest import Rest
from gateway.routes import Table, Unknown, WrongVerb
from gateway.upstream import Upstream
from generated import a2a_pb2, discovery_pb2

A2A: Final = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
DISCOVERY: Final = discovery_pb2.DESCRIPTOR.services_by_name["Discovery"]

Page = Callable[[web.BaseRequest], Awaitable[Reply]]

_GET = ("GET", "HEAD", "OPTIONS")
_POST = ("OPTIONS", "POST")


class Gateway:
    """Answers HTTP requests by calling an upstream."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        base: str,
        options: Options | None = None,
        codes: ErrorCodes = "1.0.1",
        services: Sequence[ServiceDescriptor] = (A2A,),
    ) -> None:
        options = options or Options()
        self.readers = Readers(options)
        self._upstream = upstream
        self._calls = Calls(
            upstream=upstream,
            options=options,
            codec=V1,
            codes=codes,
            header_map=HeaderMap(options.forward_headers, options.forward_well_known),
            proxies=Proxies(options.trusted_proxies),
            readers=self.readers,
            cards=Cards(base=base, max_age=options.card_max_age, others=options.upstream_doors),
            cors=Cors(options.cors_origins),
        )
        self._table = Table.of([*services, DISCOVERY])
        self._rest = Rest(self._calls, self._table)
        self._jsonrpc = JsonRpc.of(self._calls, services)
        self._cors = self._calls.cors
        self._pages: dict[str, Page] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/openapi.json": OpenApiPage(self._calls, self._table),
        }

    async def start(self) -> None:
        """Begin to look after streams."""
        self.readers.start()

    async def stop(self) -> None:
        await self.readers.close()

    async def __call__(self, request: web.BaseRequest) -> Answering:
        """Answer one request."""
        path, _, query = request.raw_path.partition("?")
        if not path.startswith("/"):  # the absolute form, as proxies send it
            path = request.rel_url.raw_path or "/"
        if request.method == "OPTIONS":
            return self._options(request, path)
        if path == "/":
            return await self._root(request, query)
        if (page := self._pages.get(path)) is not None:
            response: Answering = await self._page(request, page)
        else:
            response = await self._rest(request, path, query)
        self._cors.mark(request, response)
        return response

    async def _root(self, request: web.BaseRequest, query: str) -> Answering:
        if request.method != "POST":
            return self._wrong_verb(request, _POST)
        response = await self._jsonrpc(request, query)
        self._cors.mark(request, response)
        return response

    async def _page(self, request: web.BaseRequest, page: Page) -> Reply:
        return await page(request) if request.method in _GET else self._wrong_verb(request, _GET)

    def _wrong_verb(self, request: web.BaseRequest, verbs: Sequence[str]) -> Reply:
        return self._rest.refusal(request, WrongVerb(verbs))

    def _options(self, request: web.BaseRequest, path: str) -> Reply:
        try:
            return self._cors.preflight(request, self._verbs(path))
        except (A2AError, Unknown) as error:
            return self._rest.refusal(request, error)

    def _verbs(self, path: str) -> Sequence[str]:
        if path == "/":
            return _POST
        if path in self._pages:
            return _GET
        try:
            self._table.match("OPTIONS", path)
        except WrongVerb as known:
            return known.allow
        return ()

    async def _healthz(self, request: web.BaseRequest) -> Reply:
        """Alive: the process answers."""
        del request
        return _told({"status": "alive"})

    async def _readyz(self, request: web.BaseRequest) -> Reply:
        """Ready: calls would be served now."""
        if await self._upstream.ready():
            return _told({"status": "ready"})
        error = A2AError(Reason.UNAVAILABLE, "Calls would not be served now.", retry_after=1)
        return self._rest.refusal(request, error)


def _told(value: object) -> Reply:
    return Reply(orjson.dumps(value), accept.JSON)
