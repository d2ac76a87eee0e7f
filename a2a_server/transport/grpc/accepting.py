"""Takes calls as they come, where grpc.aio takes one, and asks its core for the next (docs/benchmarks.md has the gain).

To ask takes a task, a wait and two changes of threads, for every call and one after another. Here many calls of each
method have been asked for in advance, so that the core hands over at once all that has arrived.

What this needs of grpc.aio is not public. Where any of it is missing or looks different, it is left alone, and calls
are taken as grpc.aio takes them. Its own loop goes on beside ours and gets its share of the calls.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import aclosing
from importlib import import_module
from typing import Any, Final, cast

import grpc

from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.transport.grpc import peer
from a2a_server.transport.grpc.peer import Context, Handler, Streaming, Unary

_grpc: Final[Any] = import_module("grpc._cython.cygrpc")

_FUNCTIONS: Final = {
    "_handle_rpc": ("method_name", "method_resolver", "interceptors", "rpc_state", "loop", "concurrency_exceeded"),
    "_schedule_rpc_coro": ("rpc_coro", "rpc_state", "loop", "method_name"),
}
_CLASSES: Final = ("AioServer", "_MethodResolver", "_RequestCallError")


def core_of(server: grpc.aio.Server) -> Any:  # noqa: ANN401 - gRPC's, and without a type
    """What `Acceptor` works with; None where this grpc.aio is not built as it has to be."""
    core = getattr(server, "_server", None)
    known = (
        all(inspect.isclass(getattr(_grpc, name, None)) for name in _CLASSES)
        and all(_parameters(name) == parameters for name, parameters in _FUNCTIONS.items())
        and isinstance(core, _grpc.AioServer)
        and hasattr(core, "_request_registered_call")
    )
    return core if known else None


def _parameters(name: str) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(getattr(_grpc, name)).parameters)
    except (AttributeError, TypeError, ValueError):
        return ()


class Acceptor:
    """Serves handlers, by their methods' full names, with a bound on all open calls together."""

    def __init__(self, core: Any, handlers: Mapping[str, Handler], *, ahead: int, most: int) -> None:  # noqa: ANN401 - as above
        self._core = core
        self._ahead = ahead
        self._most = most
        self._open = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._names = tuple(handlers)
        self._resolver = _grpc._MethodResolver([], dict(handlers))  # noqa: SLF001 - see above
        core.add_registered_method_handlers({name: self._counted(handler) for name, handler in handlers.items()})

    def start(self) -> None:
        """Ask for calls; the server has been started."""
        for name in self._names:
            for _ in range(self._ahead):
                self._keep(self._accept(name))

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start what the loop would otherwise forget."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, name: str) -> None:
        """Take one call after another, until the server stops."""
        core, method, loop = self._core, name.encode(), asyncio.get_running_loop()
        while core.is_running():
            try:
                state = await core._request_registered_call(method)  # noqa: SLF001 - see above
            except _grpc._RequestCallError:  # noqa: SLF001 - the server stops, or the call was canceled early
                continue
            full = self._open >= self._most
            call = _grpc._handle_rpc(name, self._resolver, (), state, loop, full)  # noqa: SLF001 - see above
            task = self._keep(_grpc._schedule_rpc_coro(call, state, loop, name))  # noqa: SLF001 - see above
            if not full:
                self._open += 1
                task.add_done_callback(self._ended)

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._open -= 1

    def _counted(self, handler: Handler) -> Handler:
        """The same handler, for calls that grpc.aio takes by itself."""
        if handler.response_streaming:
            streaming = self._counted_stream(cast("Streaming", handler.unary_stream))
            return grpc.unary_stream_rpc_method_handler(cast("Any", streaming))
        unary = self._counted_unary(cast("Unary", handler.unary_unary))
        return grpc.unary_unary_rpc_method_handler(cast("Any", unary))

    def _counted_unary(self, handler: Unary) -> Unary:
        async def handle(raw: bytes, context: Context) -> bytes:
            await self._enter(context)
            try:
                return await handler(raw, context)
            finally:
                self._open -= 1

        return handle

    def _counted_stream(self, handler: Streaming) -> Streaming:
        async def handle(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            await self._enter(context)
            try:
                async with aclosing(cast("Any", handler(raw, context))) as items:
                    async for item in items:
                        yield item
            finally:
                self._open -= 1

        return handle

    async def _enter(self, context: Context) -> None:
        if self._open >= self._most:
            text = f"The server has {self._most} calls open, the most it may have."
            await peer.refuse(context, A2AError(Reason.OVERLOADED, text, retry_after=1), "1.0.1")
        self._open += 1
