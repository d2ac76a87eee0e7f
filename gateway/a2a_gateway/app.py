"""The gateway as an aiohttp application (design 5; spec: DOOR-12).

1. aiohttp's router has one resource, `CatchAllResource`, which matches every path.
2. The request passes through the middlewares of the application that mounts this one, if there is one. Then it passes
   through our CORS middleware, if web pages of other origins may call.
3. `CatchAllResource.handle` tells the connection that a request begins, and turns errors into answers.
4. The `Dispatcher` finds out what serves the path: REST, JSON-RPC, an older version or a page. That makes the call.
5. The answer is a `Reply` or a `StreamReply`. aiohttp calls its `prepare` and `write_eof`, which write it.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from a2a_gateway.dispatcher import Dispatcher, GatewayConfig
from a2a_gateway.http.cors import Cors
from a2a_gateway.http.replies import CatchAllResource
from a2a_gateway.http.stream_slots import StreamSlots
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
    app.router.register_resource(CatchAllResource(dispatcher))
    app.cleanup_ctx.append(streams.watch)
    app[STREAM_SLOTS] = streams
    return app
