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
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from importlib import import_module
from inspect import isasyncgenfunction
from typing import Any, Final, cast

import grpc
from google.protobuf.message import DecodeError

from a2a_server.protocol.errors import A2AError, ErrorCodes, Reason
from a2a_server.protocol.options import SMALL
from a2a_server.transport.grpc.servicer import Context, Handler
from a2a_server.transport.grpc.unread_answers import UnreadAnswers
from a2a_server.transport.grpc.waiting_calls import WaitingCalls, refuse
from a2a_server.transport.grpc_options import GrpcOptions

_CODES: Final = "1.0.1"
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


class _Calls:
    """The calls that have places. Addresses share these as owners do with `Shares`, in one file less per call."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = 0
        self._by_address: dict[str, int] = {}

    def take(self, address: str) -> None:
        own = self._by_address.get(address, 0)
        if self._open >= self._most and own >= max(1, self._most // (len(self._by_address) + (not own))):
            text = f"The server has {self._most} calls open, the most it may have."
            raise A2AError(Reason.OVERLOADED, text, retry_after=1)
        self._by_address[address] = own + 1
        self._open += 1

    def leave(self, address: str) -> None:
        self._open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]  # they come and go


class Places:
    """The calls of one door: those that wait for their message, those that have a place, and large unread answers.

    1. A call without its message has no place yet. It ends when the message does not come in time. When there are too
       many of them, the oldest end: honest clients send the message together with the call.
    2. With the message it takes a place until it is over or refused. Addresses share `max_concurrent_calls`.
    3. Calls of health and reflection take none of these: each of their methods has places of its own.
    """

    def __init__(self, options: GrpcOptions, *, intercepted: bool = False) -> None:
        self._options = options
        self._writes = not intercepted  # interceptors see what is yielded
        self.waiting = WaitingCalls(options)
        self._few = min(self.waiting.few, options.max_concurrent_calls)
        self._services = _Calls(options.max_concurrent_calls)
        self.unread = UnreadAnswers(options.max_unsent_bytes)

    def bounded(self, handler: Handler, codes: ErrorCodes = _CODES, *, is_helper: bool = False) -> Handler:
        """The same handler with these bounds, which refuses calls when it raises an `A2AError`."""
        calls = _Calls(self._options.max_concurrent_streams) if is_helper else self._services
        methods = cast("Any", handler)
        behavior = methods.stream_stream or methods.stream_unary or methods.unary_stream or methods.unary_unary
        make = _STREAM if handler.response_streaming else _UNARY
        if isasyncgenfunction(behavior):
            behavior = self._streamed(behavior, calls, codes, many=handler.request_streaming)
        else:  # Health/Watch among them, which writes to the context
            behavior = self._answered(behavior, calls, codes, many=handler.request_streaming)
        return cast("Handler", make(behavior, handler.request_deserializer, handler.response_serializer))

    def _answered(self, handler: Any, calls: _Calls, codes: ErrorCodes, *, many: bool) -> Any:  # noqa: ANN401 - gRPC's
        async def handle(requests: AsyncIterator[object], context: Context) -> object:
            answer: object = None
            peer = context.peer()
            address = _address_of(peer)
            try:
                request = await self._message(context)
                calls.take(address)
                try:
                    answer = await handler(self._all(request, requests, context) if many else request, context)
                finally:
                    calls.leave(address)
                if isinstance(answer, bytes) and len(answer) > SMALL:
                    _task().add_done_callback(self.unread.hold(peer, len(answer)))  # it is done when gRPC is
            except A2AError as error:
                answer = None  # while the refusal is sent
                await refuse(context, error, codes)
            return answer

        return handle

    def _streamed(self, handler: Any, calls: _Calls, codes: ErrorCodes, *, many: bool) -> Any:  # noqa: ANN401
        async def handle(requests: AsyncIterator[object], context: Context) -> AsyncIterator[object]:
            item: Any = None
            task, peer = _task(), context.peer()  # gRPC crashes when it is asked after the call
            address = _address_of(peer)
            leave: Callable[[object], None] = lambda _: calls.leave(address)  # noqa: E731 - it has a type
            try:
                request = await self._message(context)
                calls.take(address)
                task.add_done_callback(leave)  # when a call is canceled, nobody closes its generator in time
                async with aclosing(
                    handler(self._all(request, requests, context) if many else request, context)
                ) as items:
                    async for item in items:
                        if not isinstance(item, bytes) or len(item) <= SMALL:
                            yield item
                        elif self._writes:
                            await self.unread.write(context, item, peer)
                        else:
                            let_go = self.unread.hold(peer, len(item))
                            try:
                                yield item
                            finally:
                                let_go(task)
            except A2AError as error:
                item = None  # as above
                if task.remove_done_callback(leave):
                    leave(task)
                await refuse(context, error, codes)

        return handle

    async def _all(self, first: object, rest: AsyncIterator[object], context: Context) -> AsyncIterator[object]:
        later = self.waiting.later
        _task().add_done_callback(lambda _: later.pop(context, None))  # as above
        yield first
        while True:
            if len(later) >= self._few:
                self.waiting.grow()
            later[context] = time.monotonic()
            try:
                message = await anext(rest, None)
            except Exception:
                if not context.done():
                    raise
                return  # it has been ended for what it sends
            finally:
                later.pop(context, None)
            if message is None:
                return
            yield message

    async def _message(self, context: Context) -> object:
        waiting = self.waiting.since
        if len(waiting) >= self._few:
            self.waiting.grow()
        waiting[context] = time.monotonic()
        try:
            message: object = await context.read()
        finally:
            waiting.pop(context, None)
        if message is grpc.aio.EOF:
            raise A2AError(Reason.INVALID_PARAMS, "The call has no message.")
        return message


def _task() -> asyncio.Task[Any]:
    return cast("asyncio.Task[Any]", asyncio.current_task())


def _address_of(peer: str) -> str:
    return peer.rpartition(":")[0]


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
