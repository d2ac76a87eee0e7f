"""Accept many calls at once, wait for the message of each, and bound those that are open (spec: LIMT-01, DOOR-07).

grpc.aio accepts one call at a time, which costs a task and two thread switches per call. And it calls a handler of one
message when the message has come, so that nobody can end the call before. So `Places` registers each RPC as one whose
requests are a stream, which is the same on the wire: its handler is called at once, and reads the message itself.

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
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from importlib import import_module
from inspect import isasyncgenfunction
from itertools import islice
from typing import Any, Final, cast

import grpc
from google.protobuf.message import DecodeError

from a2a_server.domain.scope import Shares
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import SMALL
from a2a_server.transport.grpc.servicer import Context, Handler, refuse_call
from a2a_server.transport.grpc_options import GrpcOptions

_CODES: Final = "1.0.1"
_SERVICES: Final = ""
_UNARY: Final[Any] = grpc.stream_unary_rpc_method_handler
_STREAM: Final[Any] = grpc.stream_stream_rpc_method_handler

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
    """Serves handlers by the full names of their methods."""

    def __init__(self, core: Any, handlers: Mapping[str, Handler], *, ahead: int) -> None:  # noqa: ANN401 - as above
        self._core = core
        self._ahead = ahead
        self._tasks: set[asyncio.Task[None]] = set()
        self._names = tuple(handlers)
        self._resolver = _grpc._MethodResolver([], dict(handlers))  # noqa: SLF001 - see above
        core.add_registered_method_handlers(dict(handlers))

    def start(self) -> None:
        """Ask for calls, once the server has been started."""
        for name in self._names:
            for _ in range(self._ahead):
                self._keep(self._accept(name))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task and hold it until it is done; the loop alone would not."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, name: str) -> None:
        """Accept one call after another until the server stops."""
        core, method, loop = self._core, name.encode(), asyncio.get_running_loop()
        full = False  # `Places` decides that
        while core.is_running():
            try:
                state = await core._request_registered_call(method)  # noqa: SLF001 - see above
            except _grpc._RequestCallError:  # noqa: SLF001 - the server stops, or the call was canceled early
                continue
            call = _grpc._handle_rpc(name, self._resolver, (), state, loop, full)  # noqa: SLF001 - see above
            self._keep(_grpc._schedule_rpc_coro(call, state, loop, name))  # noqa: SLF001 - see above


class Places:
    """The calls of one door: those that wait for their message, and those that have a place.

    1. A call without its message has no place yet. It ends when the message does not come in time. When there are too
       many of them, the oldest end: honest clients send the message together with the call.
    2. With the message it takes a place until it is over. Calls of the services share `max_concurrent_calls`.
    3. Calls of health and reflection take none of these: each of their methods has places of its own for each address.
    """

    def __init__(self, options: GrpcOptions) -> None:
        self._options = options
        self._waiting: dict[Context, float] = {}
        """Since when; the oldest stands first."""
        self._taken: Counter[str] = Counter()
        self._farewells: set[asyncio.Task[None]] = set()
        self._unread = Shares(options.max_unsent_bytes)  # a task that sends is done when the client has read

    def bounded(self, handler: Handler, helper: str = "") -> Handler:
        """The same handler with these bounds. `helper` is the method's name if it is one of health or reflection."""
        if handler.request_streaming:
            make, behavior = _STREAM, self._helped(cast("Any", handler).stream_stream, helper)
        elif handler.response_streaming:
            yields = isasyncgenfunction(handler.unary_stream)  # Health/Watch writes to the context instead
            make, wrap = _STREAM, self._streamed if yields else self._answered
            behavior = wrap(handler.unary_stream, helper)
        else:
            make, behavior = _UNARY, self._answered(handler.unary_unary, helper)
        return cast("Handler", make(behavior, handler.request_deserializer, handler.response_serializer))

    def _answered(self, handler: Any, helper: str) -> Any:  # noqa: ANN401 - gRPC's, of any messages
        async def handle(_: object, context: Context) -> object:
            request = await self._message(context)
            if request is None:
                return None
            place = await self._take(context, helper)
            try:
                answer = await handler(request, context)
            finally:
                self._release(place)
            if isinstance(answer, bytes) and len(answer) > SMALL:
                let_go = self._hold(context, len(answer))
                if let_go is None:
                    answer = None  # while the refusal is sent
                    await self._refuse_unread(context)
                cast("asyncio.Task[None]", asyncio.current_task()).add_done_callback(lambda _: let_go and let_go())
            return answer

        return handle

    def _streamed(self, handler: Any, helper: str) -> Any:  # noqa: ANN401 - as above
        async def handle(_: object, context: Context) -> AsyncIterator[object]:
            request = await self._message(context)
            if request is None:
                return
            place = await self._take(context, helper)
            # When a call is canceled, nobody closes its generator in time.
            cast("asyncio.Task[None]", asyncio.current_task()).add_done_callback(lambda _: self._release(place))
            async with aclosing(handler(request, context)) as items:
                async for item in items:
                    is_large = isinstance(item, bytes) and len(item) > SMALL
                    let_go = self._hold(context, len(item)) if is_large else None
                    if is_large and let_go is None:
                        item = None  # noqa: PLW2901 - as above
                        await self._refuse_unread(context)
                    try:
                        yield item
                    finally:
                        if let_go is not None:
                            let_go()

        return handle

    def _helped(self, handler: Any, helper: str) -> Any:  # noqa: ANN401 - as above
        async def handle(requests: object, context: Context) -> AsyncIterator[object]:
            place = await self._take(context, helper)
            cast("asyncio.Task[None]", asyncio.current_task()).add_done_callback(lambda _: self._release(place))
            async with aclosing(handler(requests, context)) as items:
                async for item in items:
                    yield item

        return handle

    def _hold(self, context: Context, size: int) -> Callable[[], None] | None:
        """Count an answer as unread; return what lets go of it, None if there is no room. One alone always fits."""
        address, memory = context.peer().rpartition(":")[0], 2 * size  # gRPC keeps it, and so does Python
        if self._unread.taken and memory > self._unread.room(address):
            return None
        self._unread.take(address, memory)
        return lambda: self._unread.leave(address, memory)

    async def _refuse_unread(self, context: Context) -> None:
        text = f"Clients leave too much unread: {self._unread.places} bytes (transport.max_unsent_bytes)."
        await refuse_call(context, A2AError(Reason.OVERLOADED, f"{text} Try again later.", retry_after=1), _CODES)

    async def _message(self, context: Context) -> object:
        """Read the message; None if the call has been ended meanwhile."""
        if len(self._waiting) >= self._options.max_concurrent_calls:
            self._make_room()
        self._waiting[context] = time.monotonic()
        try:
            message: object = await context.read()
        finally:
            waited = self._waiting.pop(context, 0.0)
        if message is not grpc.aio.EOF:
            return message
        if waited and not context.cancelled():
            await refuse_call(context, A2AError(Reason.INVALID_PARAMS, "The call has no message."), _CODES)
        return None

    async def _take(self, context: Context, helper: str) -> str:
        place, most, whose = _SERVICES, self._options.max_concurrent_calls, "The server has"
        if helper:
            place = f"{helper} {context.peer().rpartition(':')[0]}"
            most, whose = self._options.max_concurrent_streams, "This address has"
        if self._taken[place] >= most:
            text = f"{whose} {most} calls open, the most it may have."
            await refuse_call(context, A2AError(Reason.OVERLOADED, text, retry_after=1), _CODES)
        self._taken[place] += 1
        return place

    def _release(self, place: str) -> None:
        self._taken[place] -= 1
        if not self._taken[place]:
            del self._taken[place]  # addresses come and go

    async def keep(self) -> None:
        """End calls whose message does not come, for as long as this runs."""
        patience = self._options.message_timeout
        while True:
            await asyncio.sleep(patience / 4)
            line = time.monotonic() - patience
            text = f"The message did not arrive within {patience:g} seconds."
            for context in [context for context, since in self._waiting.items() if since < line]:
                self._end(context, A2AError(Reason.REQUEST_TIMEOUT, text))

    def _make_room(self) -> None:
        """End the oldest calls without a message; several at once, so that this is not done for each new one."""
        text = "The server has too many calls open that wait for their message."
        for context in list(islice(self._waiting, len(self._waiting) // 8 + 1)):
            self._end(context, A2AError(Reason.OVERLOADED, text, retry_after=1))

    def _end(self, context: Context, error: A2AError) -> None:
        del self._waiting[context]
        farewell = asyncio.get_running_loop().create_task(_refuse(context, error))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)


async def _refuse(context: Context, error: A2AError) -> None:
    with suppress(Exception):  # the client may be gone, and abort raises by design
        await refuse_call(context, error, _CODES)


def silence_broken_input() -> None:
    """Keep it out of the log where grpc.aio and its tasks report errors."""
    for name in (_grpc.__name__, "asyncio"):
        logging.getLogger(name).addFilter(_is_no_broken_input)


def _is_no_broken_input(record: logging.LogRecord) -> bool:
    """Leave out what gRPC logs when a client sends what is no UTF-8 or no message, or is gone when its answer comes.

    Anybody can cause any number of them, and the first kind would show the value, which may be a credential.
    """
    error = record.exc_info[1] if record.exc_info else None
    undecoded = isinstance(error, UnicodeDecodeError) and str(record.msg).startswith("Invalid encoding")
    return not (undecoded or isinstance(error, DecodeError) or type(error).__name__ == "ExecuteBatchError")
