"""The three doors of the scripted agent on real ports, in a thread of their own. Their JSON is protobuf's own."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import grpc
from aiohttp import web
from google.protobuf import any_pb2, json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from a2a_proto import a2a_pb2 as pb
from tests.e2e.client_command.scripted_agent import Cut, Refusal, ScriptedAgent, ScriptedCall

SERVICE = pb.DESCRIPTOR.services_by_name["A2AService"]
STREAMS = {"SendStreamingMessage", "SubscribeToTask"}
CODES = {  # reason: gRPC, JSON-RPC, HTTP, as the specification's table says
    "TASK_NOT_FOUND": (5, -32001, 404),
    "TASK_NOT_CANCELABLE": (9, -32002, 400),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (9, -32003, 400),
    "UNSUPPORTED_OPERATION": (9, -32004, 400),
    "CONTENT_TYPE_NOT_SUPPORTED": (3, -32005, 400),
    "INVALID_AGENT_RESPONSE": (13, -32006, 500),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": (9, -32007, 400),
    "EXTENSION_SUPPORT_REQUIRED": (9, -32008, 400),
    "VERSION_NOT_SUPPORTED": (9, -32009, 400),
    "INVALID_PARAMS": (3, -32602, 400),
    "INTERNAL": (13, -32603, 500),
    "UNAVAILABLE": (14, -32603, 503),
    "UNAUTHENTICATED": (16, -32050, 401),
    "PERMISSION_DENIED": (7, -32051, 403),
}
A2A_ERRORS = list(CODES)[:9]
ROUTES = (
    ("POST", r"/message:send", "SendMessage"),
    ("POST", r"/message:stream", "SendStreamingMessage"),
    ("GET", r"/tasks", "ListTasks"),
    ("GET", r"/tasks/(?P<id>[^/:]+)", "GetTask"),
    ("POST", r"/tasks/(?P<id>[^/:]+):cancel", "CancelTask"),
    ("GET", r"/tasks/(?P<id>[^/:]+):subscribe", "SubscribeToTask"),
    ("POST", r"/tasks/(?P<task_id>[^/:]+)/pushNotificationConfigs", "CreateTaskPushNotificationConfig"),
    ("GET", r"/tasks/(?P<task_id>[^/:]+)/pushNotificationConfigs", "ListTaskPushNotificationConfigs"),
    ("GET", r"/tasks/(?P<task_id>[^/:]+)/pushNotificationConfigs/(?P<id>[^/:]+)", "GetTaskPushNotificationConfig"),
    (
        "DELETE",
        r"/tasks/(?P<task_id>[^/:]+)/pushNotificationConfigs/(?P<id>[^/:]+)",
        "DeleteTaskPushNotificationConfig",
    ),
    ("GET", r"/extendedAgentCard", "GetExtendedAgentCard"),
)


def info_of(refusal: Refusal) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(reason=refusal.reason, domain="a2a-protocol.org")


def details_of(refusal: Refusal) -> list[Any]:
    packed = any_pb2.Any()
    packed.Pack(info_of(refusal))
    return [json_format.MessageToDict(packed)]


def text_of(message: Message) -> str:
    return json_format.MessageToJson(message, indent=None, always_print_fields_with_no_presence=False)


class HttpDoor:
    """REST below /rest (with a tenant before the path, if the URL has one), JSON-RPC at /rpc, cards at /cards."""

    def __init__(self, agent: ScriptedAgent, cards: dict[str, bytes]) -> None:
        self.agent, self.cards = agent, cards
        self.pages: dict[str, Callable[[web.Request], Any]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def __call__(self, request: Any) -> web.StreamResponse:
        path = request.path
        self.asked.append((path, {name.lower(): value for name, value in request.headers.items()}))
        if path in self.pages:
            answer: web.StreamResponse = await self.pages[path](request)
            return answer
        if path in self.cards:
            return web.Response(body=self.cards[path], content_type="application/json")
        if path == "/rpc":
            return await self._jsonrpc(request)
        if path.startswith("/rest"):
            return await self._rest(request)
        return web.Response(status=404, text="nothing here")

    async def _rest(self, request: web.Request) -> web.StreamResponse:
        for verb, pattern, rpc in ROUTES:
            found = re.fullmatch(r"/rest(?:/(?P<tenant>t-[a-z]+))?" + pattern, request.path)
            if found and verb == request.method:
                message = GetMessageClass(SERVICE.methods_by_name[rpc].input_type)()
                if body := await request.read():
                    json_format.Parse(body, message, ignore_unknown_fields=True)
                names = {field.name for field in message.DESCRIPTOR.fields}
                told = {json_format_name(name): value for name, value in request.query.items()}
                told = {name: value for name, value in told.items() if name in names}
                json_format.ParseDict({**told, **{k: v for k, v in found.groupdict().items() if v}}, message)
                return await self._rest_answer(request, self._call(request, rpc, "HTTP+JSON", message))
        return web.Response(status=404)

    async def _rest_answer(self, request: web.Request, call: ScriptedCall) -> web.StreamResponse:
        try:
            if call.rpc in STREAMS:
                return await self._stream(request, call, text_of)
            return web.Response(text=text_of(await self.agent.answer(call)), content_type="application/a2a+json")
        except Refusal as refusal:
            status, _, http = CODES[refusal.reason]
            error = {"code": http, "status": grpc_name(status), "message": str(refusal), "details": details_of(refusal)}
            return web.json_response({"error": error}, status=http)

    async def _jsonrpc(self, request: web.Request) -> web.StreamResponse:
        told = await request.json()
        message = GetMessageClass(SERVICE.methods_by_name[told["method"]].input_type)()
        json_format.ParseDict(told.get("params") or {}, message, ignore_unknown_fields=True)
        call = self._call(request, told["method"], "JSONRPC", message)

        def envelope(result: Message) -> str:
            return json.dumps({"jsonrpc": "2.0", "id": told["id"], "result": json.loads(text_of(result))})

        try:
            if call.rpc in STREAMS:
                return await self._stream(request, call, envelope)
            return web.Response(text=envelope(await self.agent.answer(call)), content_type="application/json")
        except Refusal as refusal:
            if refusal.reason in {"UNAUTHENTICATED", "PERMISSION_DENIED", "UNAVAILABLE"}:
                return web.Response(status=CODES[refusal.reason][2])
            error = {"code": CODES[refusal.reason][1], "message": str(refusal), "data": details_of(refusal)}
            return web.json_response({"jsonrpc": "2.0", "id": told["id"], "error": error})

    async def _stream(
        self, request: web.Request, call: ScriptedCall, write: Callable[[Message], str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            async for event in self.agent.events(call):
                if not response.prepared:
                    await response.prepare(request)
                await response.write(f"data: {write(event)}\n\n".encode())
        except Cut:
            assert request.transport is not None
            request.transport.close()
        return response

    @staticmethod
    def _call(request: web.Request, rpc: str, binding: str, message: Message) -> ScriptedCall:
        headers = {name.lower(): value for name, value in request.headers.items()}
        return ScriptedCall(rpc, binding, message, headers, dict(request.query))


def json_format_name(name: str) -> str:
    """camelCase as snake_case."""
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)


def grpc_name(number: int) -> str:
    return next(code.name for code in grpc.StatusCode if code.value[0] == number)


class GrpcDoor(grpc.GenericRpcHandler):
    """Every RPC of the service, by its name."""

    def __init__(self, agent: ScriptedAgent) -> None:
        self.agent = agent

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        rpc = details.method.rpartition("/")[2]
        kind = GetMessageClass(SERVICE.methods_by_name[rpc].input_type)

        def call_of(message: Message, context: Any) -> ScriptedCall:
            headers = dict(context.invocation_metadata())
            return ScriptedCall(rpc, "GRPC", message, headers, {})

        async def unary(message: Message, context: Any) -> Any:
            try:
                return await self.agent.answer(call_of(message, context))
            except Refusal as refusal:
                return await self._abort(context, refusal)

        async def stream(message: Message, context: Any) -> AsyncIterator[Message]:
            try:
                async for event in self.agent.events(call_of(message, context)):
                    yield event
            except Refusal as refusal:
                await self._abort(context, refusal)
            except Cut:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection breaks")

        def write(message: Message) -> bytes:
            return message.SerializeToString()

        if rpc in STREAMS:
            return grpc.unary_stream_rpc_method_handler(stream, kind.FromString, write)
        return grpc.unary_unary_rpc_method_handler(unary, kind.FromString, write)

    @staticmethod
    async def _abort(context: Any, refusal: Refusal) -> Any:
        status = status_pb2.Status(code=CODES[refusal.reason][0], message=str(refusal))
        status.details.add().Pack(info_of(refusal))
        await context.abort_with_status(rpc_status.to_status(status))


class ScriptedServer:
    """Both doors, and the cards that lead to them."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.agent = ScriptedAgent()
        self.cards: dict[str, bytes] = {}
        self.http = HttpDoor(self.agent, self.cards)
        self.origin, self.grpc = "", ""
        self._tls = tls
        self._opened, self._loop = threading.Event(), asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._opened.wait(30)
        self.card("/.well-known/agent-card.json")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        self._loop.close()

    async def _serve(self) -> None:
        runner = web.ServerRunner(web.Server(self.http, handler_cancellation=True), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        server = grpc.aio.server(handlers=[GrpcDoor(self.agent)])
        self.grpc = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        self.origin = f"{'https' if self._tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        self._opened.set()
        await self._stop.wait()
        await server.stop(0)
        await runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def urls(self) -> dict[str, str]:
        return {"JSONRPC": f"{self.origin}/rpc", "HTTP+JSON": f"{self.origin}/rest", "GRPC": self.grpc}

    def card(self, path: str, *bindings: str, **changes: Any) -> str:
        """Publish a card, with these interfaces in this order; return its URL. `changes` are members of its JSON."""
        urls = self.urls()
        interfaces = [
            {"url": urls[name], "protocolBinding": name, "protocolVersion": "1.0"} for name in bindings or urls
        ]
        document = {
            "name": "Scripted",
            "description": "Does what it is told.",
            "version": "7.1",
            "supportedInterfaces": interfaces,
            "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "obey", "name": "Obey", "description": "Does it.", "tags": ["test"]}],
        }
        self.cards[path] = json.dumps({**document, **changes}).encode()
        return f"{self.origin}{path}"
