"""The official SDK's servers as its documentation puts them together, one door each: one program.

HTTP is Starlette on uvicorn, which chooses uvloop and httptools by itself; its access log, on by default, is off.
"""

from __future__ import annotations

from typing import Any, cast

import click
import grpc
import uvicorn
import uvloop
from a2a.server.request_handlers import GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.types import a2a_pb2_grpc
from starlette.applications import Starlette

from tests.bench.sdk_agent import CARD, handler


async def serve_grpc(port: int, place: str, tasks: int, *, push: bool) -> None:
    server = grpc.aio.server()
    servicer = GrpcHandler(await handler(place, tasks, push=push))
    cast("Any", a2a_pb2_grpc).add_A2AServiceServicer_to_server(servicer, server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


async def serve_http(port: int, place: str, tasks: int, *, legacy: bool, push: bool) -> None:
    found = await handler(place, tasks, push=push)
    routes = [
        *create_agent_card_routes(CARD),
        *create_jsonrpc_routes(found, rpc_url="/", enable_v0_3_compat=legacy),
        *create_rest_routes(found),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes), "127.0.0.1", port, loop="uvloop", http="httptools", log_level="warning"
    )
    await uvicorn.Server(config).serve()


@click.command()
@click.option("--door", type=click.Choice(["grpc", "http"]), default="grpc")
@click.option("--port", type=int, required=True)
@click.option("--store", default="memory:", help="memory: or what SQLAlchemy connects to.")
@click.option("--tasks", default=0, help="How many finished tasks to begin with.")
@click.option("--legacy", is_flag=True, help="Serve JSON-RPC of 0.3 at the same URL.")
@click.option("--push", is_flag=True, help="Send webhooks.")
def main(*, door: str, port: int, store: str, tasks: int, legacy: bool, push: bool) -> None:  # noqa: PLR0913 - the options
    """Serve until killed."""
    if door == "http":
        uvloop.run(serve_http(port, store, tasks, legacy=legacy, push=push))
    else:
        uvloop.run(serve_grpc(port, store, tasks, push=push))


if __name__ == "__main__":
    main()
