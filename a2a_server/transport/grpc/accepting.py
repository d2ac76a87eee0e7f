"""Accept many calls at once. grpc.aio accepts one at a time, which costs a task and two thread switches per call.

1. `core_of` looks whether this grpc.aio has everything that is needed here, none of which is public. Where anything is
   missing or different, calls are accepted as grpc.aio accepts them.
2. `Acceptor` asks gRPC's core for several calls of each method in advance, and for one more with each that arrives.
3. grpc.aio's own loop goes on beside that and gets its share of the calls.

Calls that are accepted here do not pass grpc.aio's interceptors. So the door does without an `Acceptor` where it has
any, and where `is_wrapped` says that somebody else may have added some. `transport.accept_ahead = 0` switches it off.
This is the only file that uses private names of grpc (docs/benchmarks.md has the gain).
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
from a2a_server.transport.grpc.servicer import Context, Handler, Streaming, Unary, refuse_call

_grpc: Final[Any] = import_module("grpc._cython.cygrpc")

_FUNCTIONS: Final = {
    "_handle_rpc": ("method_name", "method_resolver", "interceptors", "rpc_state", "loop", "concurrency_exceeded"),
    "_schedule_rpc_coro": ("rpc_coro", "rpc_state", "loop", "method_name"),
}
_CLASSES: Final = ("AioServer", "_MethodResolver", "_RequestCallError")
_METHODS: Final = ("_request_registered_call", "add_registered_method_handlers", "is_running")


def is_wrapped() -> bool:
    """Whether `grpc.aio.server` has been replaced, as OpenTelemetry's instrumentation does to add interceptors."""
    try:
        original = import_module("grpc.aio._server").server
    except (ImportError, AttributeError):
        return True
    return original is not grpc.aio.server


def core_of(server: grpc.aio.Server) -> Any:  # noqa: ANN401 - gRPC's, and without a type
    """Return what `Acceptor` works with, or None where this grpc.aio lacks anything that it needs."""
    core = getattr(server, "_server", None)
    known = (
        all(inspect.isclass(getattr(_grpc, name, None)) for name in _CLASSES)
        and all(_parameters(name) == parameters for name, parameters in _FUNCTIONS.items())
        and isinstance(core, _grpc.AioServer)
        and all(hasattr(core, name) for name in _METHODS)
    )
    return core if known else None


def _parameters(name: str) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(getattr(_grpc, name)).parameters)
    except (AttributeError, TypeError, ValueError):
        return ()


class Acceptor:
    """Serves handlers by the full names of their methods, and bounds the calls that are open at once."""

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
        """Ask for calls, once the server has been started."""
        for name in self._names:
            for _ in range(self._ahead):
                self._keep(self._accept(name))

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task and hold it until it is done; the loop alone would not."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, name: str) -> None:
        """Accept one call after another until the server stops."""
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
        """The same handler for the calls that grpc.aio's own loop accepts, counted as well."""
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
            await refuse_call(context, A2AError(Reason.OVERLOADED, text, retry_after=1), "1.0.1")
        self._open += 1
