"""The gateway as an aiohttp application (design 5; spec: DOOR-12).

1. aiohttp's router asks `Everything`, which takes every path: what is served where, the `Dispatcher` knows.
2. The request passes through the middlewares of an application that has this one mounted, and then, if pages of other
   origins may call, through ours for CORS.
3. `Everything.handle` tells the connection that a request begins, and turns errors into answers.
4. The `Dispatcher` finds the door: REST, JSON-RPC, an older version, a page. The door makes a call.
5. The answer is a `Reply` or a `StreamReply`. aiohttp lets it write itself (`prepare`, `write_eof`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aiohttp import web
from yarl import URL

from a2a_gateway.dispatcher import Dispatcher, GatewayConfig
from a2a_gateway.http.connection import connection_of
from a2a_gateway.http.cors import Cors
from a2a_gateway.http.stream_slots import StreamSlots
from a2a_gateway.http.streams import StreamReply
from a2a_gateway.upstream import Upstream

STREAM_SLOTS: Final = web.AppKey("STREAM_SLOTS", StreamSlots)


def create_app(upstream: Upstream, config: GatewayConfig) -> web.Application:
    """Make the application that serves REST, JSON-RPC and older versions by calling an upstream.

    Serve it with `http.server.HttpDoor`, which bounds slow clients, with aiohttp's own runner, or mount it in another
    application (`add_subapp`).
    """
    streams, cors = StreamSlots(config.options), Cors(config.options.cors_origins)
    dispatcher = Dispatcher(upstream, config, streams, cors)
    app = web.Application(middlewares=[cors.middleware] if cors.on else ())
    app.router.register_resource(Everything(dispatcher))
    app.cleanup_ctx.append(streams.watch)
    app[STREAM_SLOTS] = streams
    return app


class Everything(web.AbstractResource):
    """Takes every path, also the `*` of OPTIONS."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self.route = web.ResourceRoute("*", self.handle, self, expect_handler=_read_later)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, and tell its connection when it begins and ends; a stream tells its end itself."""
        if (connection := connection_of(request)) is None:
            return await self.answer(request)
        connection.begin()
        answer = await self.answer(request)
        if not isinstance(answer, StreamReply):
            connection.end(request.content)
        if connection.ends:
            answer.force_close()
        return answer

    async def answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self.dispatcher(request)
        except ConnectionError:  # the client's: nobody is there to be told
            raise
        except Exception as error:  # noqa: BLE001 - every error has a shape
            return self.dispatcher.refused(request, error)

    @property
    def canonical(self) -> str:
        return self.dispatcher.prefix or "/"

    def add_prefix(self, prefix: str) -> None:
        self.dispatcher.prefix = prefix + self.dispatcher.prefix

    async def resolve(self, request: web.Request) -> tuple[web.UrlMappingMatchInfo, set[str]]:
        return web.UrlMappingMatchInfo({}, self.route), {"*"}

    def raw_match(self, path: str) -> bool:
        return path == self.canonical

    def get_info(self) -> Any:  # noqa: ANN401 - aiohttp's own type is private
        return {"path": self.canonical}

    def url_for(self, **_: str) -> URL:
        return URL(self.canonical)

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[web.AbstractRoute]:
        return iter((self.route,))


async def _read_later(request: web.Request) -> None:
    """Leave `Expect: 100-continue` to whoever reads the body: it may not be wanted."""
