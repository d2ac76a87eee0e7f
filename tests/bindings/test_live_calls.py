"""RPCs whose client streams, added in a scratch proto: through every door (spec: DOOR-14).

An RPC of the next version of the protocol, `SendLiveMessage` with `POST /live`, is one of these. Nothing in the server
or the gateway knows the proto: an operation and the annotation are all there is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import grpc
import pytest
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass

from a2a_server.transport.local import LocalUpstream
from tests.support.door_events import Event, events
from tests.support.door_old import WHERE, Where
from tests.support.doors import OPTIONS, http_door
from tests.support.house import (
    A2AError,
    Call,
    ChannelOptions,
    ChannelUpstream,
    GatewayOptions,
    MemoryStore,
    Reason,
)
from tests.support.world import ByHeader
from tests.support.yielding import Batches, yielding
from tests.unit.gateway.scratch.library import of_source
from tests.unit.transport.doors import Door, eventually, open_door, refused

pytestmark = pytest.mark.only_through("grpc", why="each test opens the doors it needs")

RPCS = """
  rpc SendLiveMessage(stream Said) returns (stream Said) {
    option (google.api.http) = { post: "/live" body: "*" additional_bindings { post: "/{tenant}/live" body: "*" } };
  }
  rpc SumMessages(stream Said) returns (Said) {
    option (google.api.http) = { post: "/sum" body: "*" additional_bindings { put: "/sum/{tenant}" body: "part" } };
  }
"""
TYPES = """
  message Said { string tenant = 1; string text = 2; Part part = 3; int32 number = 4; }
"""
LINES = {"Content-Type": "application/x-ndjson"}
PATIENCE = 10.0


@pytest.fixture
def service(tmp_path: Path) -> ServiceDescriptor:
    return of_source(tmp_path, RPCS, TYPES)


class Item(NamedTuple):
    number: int
    wire: bytes


@dataclass
class Live:
    """The operations, and what has reached them."""

    kind: Any
    asked: list[dict[str, Any]] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is set, the operation asks for no message."""
    free: asyncio.Event = field(default_factory=asyncio.Event)

    def operations(self) -> dict[str, Any]:
        @yielding
        async def live(call: Call, requests: Any) -> Batches:
            self.scopes.append(call.scope.tenant)
            self.begun.set()
            try:
                async for message in requests:
                    self.asked.append(MessageToDict(message))
                    if message.text == "stop":
                        return
                    if message.text == "hold":
                        await self.free.wait()
                    if message.text == "break":
                        raise A2AError(Reason.UNSUPPORTED_OPERATION, "No more.")
                    if message.text != "quiet":
                        yield (Item(0, self.kind(text=f"heard {message.text}").SerializeToString()),)  # type: ignore[misc]
            finally:
                self.over.set()

        async def total(call: Call, requests: Any) -> Any:
            self.scopes.append(call.scope.tenant)
            self.begun.set()
            try:
                async for message in requests:
                    self.asked.append(MessageToDict(message))
                return self.kind(number=sum(one.get("number", 0) for one in self.asked))
            finally:
                self.over.set()

        return {"SendLiveMessage": live, "SumMessages": total}


@dataclass(frozen=True)
class Scene:
    live: Live
    door: Door
    http: aiohttp.ClientSession
    port: int

    def grpc(self, rpc: str) -> Any:
        call = self.door.channel.stream_stream if rpc == "SendLiveMessage" else self.door.channel.stream_unary
        kind = self.live.kind
        return call(
            f"/small.Small/{rpc}",
            request_serializer=kind.SerializeToString,
            response_deserializer=kind.FromString,
        )

    def said(self, **members: Any) -> Any:
        return ParseDict(members, self.live.kind())


@asynccontextmanager
async def served(
    service: ServiceDescriptor, where: Where = "near", options: GatewayOptions = OPTIONS, **parts: Any
) -> AsyncIterator[Scene]:
    live = Live(GetMessageClass(service.methods_by_name["SumMessages"].input_type))
    async with open_door(live.operations(), services=(service,), **parts) as door:
        channel = ChannelUpstream(ChannelOptions(addresses=(str(door.address),)))
        upstream = LocalUpstream(door.pipeline, MemoryStore()) if where == "near" else channel
        try:
            async with (
                http_door(upstream, options, services=(service,)) as http,
                aiohttp.ClientSession(http.base, timeout=aiohttp.ClientTimeout(total=PATIENCE)) as session,
            ):
                yield Scene(live, door, session, http.port)
        finally:
            await channel.close()


class Mouth:
    """A body that is said line by line."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def say(self, **members: Any) -> None:
        self._lines.put_nowait(json.dumps(members).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        self._lines.put_nowait(data)

    def shut(self) -> None:
        self._lines.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (line := await self._lines.get()) is not None:
            yield line


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


async def in_time(work: Any) -> Any:
    return await asyncio.wait_for(work, PATIENCE)


@pytest.mark.req("DOOR-14")
@pytest.mark.parametrize("intercepted", [False, True])
async def test_over_grpc_both_sides_talk(service: ServiceDescriptor, *, intercepted: bool) -> None:
    class Passing(grpc.aio.ServerInterceptor):
        async def intercept_service(self, continuation: Any, details: Any) -> Any:
            return await continuation(details)

    async with served(service, interceptors=[Passing()] if intercepted else []) as scene:
        call = scene.grpc("SendLiveMessage")()
        for text in ("one", "two"):
            await call.write(scene.said(text=text))
            assert (await in_time(call.read())).text == f"heard {text}"
        await call.done_writing()
        assert await in_time(call.read()) is grpc.aio.EOF
        messages = [scene.said(number=number) for number in (1, 2, 3)]
        assert (await scene.grpc("SumMessages")(iter(messages))).number == 6


@pytest.mark.req("DOOR-14")
@pytest.mark.parametrize("where", WHERE)
async def test_over_http_answers_come_while_lines_go_up(service: ServiceDescriptor, where: Where) -> None:
    async with served(service, where) as scene:
        mouth = Mouth()
        mouth.say(text="one")
        async with scene.http.post("/live", data=mouth, headers=LINES) as answer:
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
            found = events(answer.content.iter_any())
            assert (await in_time(anext(found))).data == {"text": "heard one"}
            mouth.raw(b'{"text": "t')
            mouth.raw(b'wo"}\n\n  \r\n{"text":"three"}\r\n')
            assert (await in_time(anext(found))).data == {"text": "heard two"}
            assert (await in_time(anext(found))).data == {"text": "heard three"}
            mouth.raw(b'{"text":"last"}')  # without an end
            mouth.shut()
            assert [event.data for event in [event async for event in found]] == [{"text": "heard last"}]
        async with scene.http.post("/sum", data=lines({"number": 1}), headers=LINES) as again:
            assert await again.json(content_type=None) == {"number": 5 - 4}


@pytest.mark.req("DOOR-14")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/jsonl; charset=utf-8", "application/json", None])
async def test_one_answer_to_many_lines(service: ServiceDescriptor, where: Where, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    skip = ["Content-Type"] if kind is None else []
    async with served(service, where) as scene:
        body = lines({"number": 1}, {"number": 2, "unheardOf": 1}, {"number": 4})
        async with scene.http.post("/sum", data=body, headers=headers, skip_auto_headers=skip) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.headers["Content-Type"] == "application/a2a+json"
            assert await answer.json(content_type=None) == {"number": 7}


@pytest.mark.req("DOOR-14", "REST-05")
@pytest.mark.parametrize("where", WHERE)
async def test_path_and_query_say_the_same_for_every_line(service: ServiceDescriptor, where: Where) -> None:
    async with served(service, where) as scene:
        body = lines({"text": "a"}, {"text": "b", "tenant": "north"})
        async with scene.http.post("/north/live?number=3", data=body, headers=LINES) as answer:
            await answer.read()
        assert scene.live.asked == [{"tenant": "north", "text": text, "number": 3} for text in "ab"]
        assert scene.live.scopes == ["north"]
        scene.live.asked.clear()
        async with scene.http.put("/sum/north", data=lines({"id": "p"}, {"id": "q"}), headers=LINES) as answer:
            assert answer.status == 200
        assert scene.live.asked == [{"tenant": "north", "part": {"id": part}} for part in "pq"]


@pytest.mark.req("DOOR-14", "TENA-04")
@pytest.mark.parametrize("where", WHERE)
async def test_no_message_belongs_to_another_tenant_than_the_first(service: ServiceDescriptor, where: Where) -> None:
    async with served(service, where) as scene:
        body = lines({"text": "quiet", "tenant": "north"}, {"text": "b", "tenant": "south"})
        async with scene.http.post("/live", data=body, headers=LINES) as answer:
            assert answer.status == 400
            assert "tenant" in await answer.text()
        assert [message["text"] for message in scene.live.asked] == ["quiet"]
        messages = [scene.said(tenant="north"), scene.said(tenant="south")]
        refusal = await refused(lambda: scene.grpc("SumMessages")(iter(messages)))
        assert list(refusal.fields) == ["tenant"]


@pytest.mark.req("DOOR-14", "ERRS-05")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("path", ["/live", "/sum"])
@pytest.mark.parametrize(
    ("bad", "fields"),
    [
        (b'{"text":1,"number":"x"}', {"text", "number"}),
        (b'{"text"', {"body"}),
        (b"[1]", {"body"}),
    ],
)
async def test_a_bad_line_is_refused_with_its_number(
    service: ServiceDescriptor, where: Where, path: str, bad: bytes, fields: set[str]
) -> None:
    async with served(service, where) as scene:
        for before in (b"", b'{"text":"quiet"}\n\n'):
            number = before.count(b"\n") + 1
            async with scene.http.post(path, data=before + bad + b"\n", headers=LINES) as answer:
                error = (await answer.json(content_type=None))["error"]
                assert answer.status == 400
            assert error["message"].startswith(f"Line {number}: ")
            (violations,) = [it["fieldViolations"] for it in error["details"] if "fieldViolations" in it]
            assert {fault["field"] for fault in violations} == fields
            assert all(fault["description"].startswith(f"line {number}: ") for fault in violations)


@pytest.mark.req("DOOR-14", "STRM-07")
@pytest.mark.parametrize("where", WHERE)
async def test_a_bad_line_behind_an_answer_is_the_last_event(service: ServiceDescriptor, where: Where) -> None:
    async with served(service, where) as scene:
        mouth = Mouth()
        mouth.say(text="one")
        async with scene.http.post("/live", data=mouth, headers=LINES) as answer:
            found = events(answer.content.iter_any())
            assert (await in_time(anext(found))).data == {"text": "heard one"}
            mouth.raw(b"no json\n")
            (last,) = [event async for event in found]
            assert (last.name, last.data["error"]["code"]) == ("error", 400)
            assert last.data["error"]["message"].startswith("Line 2: ")
            mouth.shut()
        await in_time(scene.live.over.wait())


@pytest.mark.req("DOOR-14", "STRM-07")
@pytest.mark.parametrize("where", WHERE)
async def test_what_the_operation_raises_is_told_as_in_any_stream(service: ServiceDescriptor, where: Where) -> None:
    async with served(service, where) as scene:
        async with scene.http.post("/live", data=lines({"text": "break"}), headers=LINES) as answer:
            assert answer.status == 400
            assert "No more." in await answer.text()
        async with scene.http.post("/live", data=lines({"text": "a"}, {"text": "break"}), headers=LINES) as answer:
            found: list[Event] = [event async for event in events(answer.content.iter_any())]
        assert [event.name for event in found][-1] == "error"
        assert "No more." in str(found[-1].data)


@pytest.mark.req("DOOR-14")
@pytest.mark.parametrize("where", WHERE)
async def test_an_operation_may_end_before_the_body(service: ServiceDescriptor, where: Where) -> None:
    async with served(service, where) as scene:
        mouth = Mouth()
        mouth.say(text="one")
        mouth.say(text="stop")
        async with scene.http.post("/live", data=mouth, headers=LINES) as answer:
            found = [event.data async for event in events(answer.content.iter_any())]
            assert found == [{"text": "heard one"}]
        await eventually(lambda: not [task for task in asyncio.all_tasks() if "ChannelStream" in repr(task)])
        mouth.shut()


@pytest.mark.req("DOOR-14")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("path", ["/live", "/sum"])
async def test_a_client_that_leaves_ends_the_call(service: ServiceDescriptor, where: Where, path: str) -> None:
    async with served(service, where) as scene:
        mouth = Mouth()
        mouth.say(text="quiet")
        asking = asyncio.ensure_future(scene.http.post(path, data=mouth, headers=LINES).__aenter__())
        await in_time(scene.live.begun.wait())
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await in_time(scene.live.over.wait())


@pytest.mark.req("DOOR-14")
@pytest.mark.parametrize("way", ["grpc", *WHERE])
async def test_a_client_that_leaves_amid_the_answers_ends_the_call(service: ServiceDescriptor, way: str) -> None:
    async with served(service, "far" if way == "far" else "near") as scene:
        if way == "grpc":
            call = scene.grpc("SendLiveMessage")()
            await call.write(scene.said(text="one"))
            assert (await in_time(call.read())).text == "heard one"
            call.cancel()
        else:
            mouth = Mouth()
            mouth.say(text="one")
            async with scene.http.post("/live", data=mouth, headers=LINES) as answer:
                assert (await in_time(anext(events(answer.content.iter_any())))).data == {"text": "heard one"}
                assert not scene.live.over.is_set()
                answer.close()
        await in_time(scene.live.over.wait())


class Bound(NamedTuple):
    settings: dict[str, Any]
    body: bytes
    status: int
    text: str


SMALL = [
    Bound({"max_body_bytes": 1000}, lines({"text": "x" * 1000}), 413, "A line may have at most 1000 bytes."),
    Bound({"max_body_bytes": 1000}, b'{"text":"' + b"x" * 200_000, 413, "A line may have at most 1000 bytes."),
    Bound({"max_lines_bytes": 1000}, lines({"text": "quiet"}) * 100, 413, "All lines may have at most 1000 bytes."),
    Bound({"max_unfinished_bytes": 1000}, b'{"text":"' + b"x" * 2000, 429, "Too much is being sent at once"),
    Bound({"max_json_values": 10}, lines({"part": {"ids": [1] * 20}}), 413, "gateway.max_json_values"),
]


@pytest.mark.req("DOOR-14", "DOOR-04")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("bound", SMALL, ids=lambda bound: f"{next(iter(bound.settings))} {len(bound.body)}")
async def test_lines_are_bounded(service: ServiceDescriptor, where: Where, bound: Bound, *, chunked: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield bound.body

    async with served(service, where, replace(OPTIONS, **bound.settings)) as scene:
        data = pieces() if chunked else bound.body
        async with scene.http.post("/live", data=data, headers=LINES) as answer:
            told = await answer.text()
            assert (answer.status, bound.text in told) == (bound.status, True), told
        async with scene.http.post("/sum", data=lines({"number": 2}), headers=LINES) as answer:
            assert answer.status == 200


@pytest.mark.req("DOOR-14")
async def test_many_lines_may_have_more_than_one_may(service: ServiceDescriptor) -> None:
    body = lines(*[{"number": 1}] * 500)
    async with (
        served(service, options=replace(OPTIONS, max_body_bytes=100)) as scene,
        scene.http.post("/sum", data=body, headers=LINES) as answer,
    ):
        assert await answer.json(content_type=None) == {"number": 500}


@pytest.mark.req("DOOR-14", "DOOR-04")
@pytest.mark.parametrize("where", WHERE)
async def test_silence_is_bounded_and_an_empty_line_breaks_it(service: ServiceDescriptor, where: Where) -> None:
    async with served(service, where, replace(OPTIONS, body_timeout=0.8)) as scene:
        mouth = Mouth()
        mouth.raw(b"{")
        async with scene.http.post("/sum", data=mouth, headers=LINES) as answer:
            assert answer.status == 408
            assert "No line arrived within 0.8 seconds" in await answer.text()
        mouth.shut()
        mouth = Mouth()
        mouth.say(text="one")
        async with scene.http.post("/live", data=mouth, headers=LINES) as answer:
            found = events(answer.content.iter_any())
            assert (await in_time(anext(found))).data == {"text": "heard one"}
            for _ in range(6):
                mouth.raw(b"\n")
                await asyncio.sleep(0.25)
            mouth.say(text="two")
            assert (await in_time(anext(found))).data == {"text": "heard two"}
            (last,) = [event async for event in found]
            assert last.data["error"]["code"] == 408
        mouth.shut()


@pytest.mark.req("DOOR-14")
@pytest.mark.parametrize("where", WHERE)
async def test_a_client_is_held_back_while_nobody_asks(service: ServiceDescriptor, where: Where) -> None:
    size, sent, options = 100_000, 0, replace(OPTIONS, body_timeout=1.0)

    async def flood() -> AsyncIterator[bytes]:
        nonlocal sent
        yield lines({"text": "one"}, {"text": "hold"})
        for _ in range(500):
            yield lines({"text": "quiet", "part": {"id": "x" * size}})
            sent += 1
        yield lines({"text": "end"})

    async with served(service, where, options) as scene:
        asking = asyncio.ensure_future(in_time(scene.http.post("/live", data=flood(), headers=LINES).__aenter__()))
        answer = await asking  # it has begun, so that it is a stream whose connection is looked after
        before = -1
        while sent != before:  # until it stands still; the server looks after its connections meanwhile
            before = sent
            await asyncio.sleep(1.0)
        assert sent < 300
        scene.live.free.set()
        found = [event.data async for event in events(answer.content.iter_any())]
        assert found == [{"text": f"heard {text}"} for text in ("one", "hold", "end")]
        assert sent == 500
        answer.close()


@pytest.mark.req("DOOR-14", "LIMT-01")
async def test_many_lines_that_come_at_once_hold_up_nobody(service: ServiceDescriptor) -> None:
    turns, many = 0, 5000

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with served(service) as scene:
        waiting = asyncio.create_task(others())
        async with scene.http.post("/sum", data=lines({"number": 1}) * many, headers=LINES) as answer:
            assert await answer.json(content_type=None) == {"number": many}
        waiting.cancel()
        assert turns > many


@pytest.mark.req("DOOR-14", "AUTN-03")
@pytest.mark.parametrize("where", WHERE)
async def test_who_may_not_call_is_told_before_the_body(service: ServiceDescriptor, where: Where) -> None:
    class Nobody(ByHeader):
        async def authenticate(self, credentials: Any) -> Any:
            raise A2AError(Reason.UNAUTHENTICATED, "Who are you?")

    async with served(service, where, authenticator=Nobody()) as scene:
        mouth = Mouth()
        if where == "far":  # the upstream does not serve the call by which a gateway asks who calls
            mouth.say(text="x")
        mouth.raw(b"{")  # which never ends; aiohttp's client sends its headers together with this
        async with scene.http.post("/live", data=mouth, headers=LINES) as answer:
            assert answer.status == 401
        mouth.shut()


@pytest.mark.req("DOOR-14")
@pytest.mark.parametrize("where", WHERE)
async def test_what_is_no_body_of_lines_is_refused(service: ServiceDescriptor, where: Where) -> None:
    async with served(service, where) as scene:
        for data in (b"", b"\n\n"):
            async with scene.http.post("/live", data=data, headers=LINES) as answer:
                assert (answer.status, "has no message" in await answer.text()) == (400, True)
        async with scene.http.post("/live", data="x", headers={"Content-Type": "text/plain"}) as answer:
            assert answer.status == 400
            assert "application/x-ndjson or application/jsonl" in await answer.text()
        async with scene.http.get("/live") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "OPTIONS, POST")
        assert not scene.live.asked


@pytest.mark.req("DOOR-14", "JRPC-02")
@pytest.mark.parametrize("where", WHERE)
async def test_over_jsonrpc_a_request_is_a_stream_of_one_message(service: ServiceDescriptor, where: Where) -> None:
    async with served(service, where) as scene:
        told = {"jsonrpc": "2.0", "id": 1, "method": "SendLiveMessage", "params": {"text": "x"}}
        async with scene.http.post("/", json=told) as answer:
            (event,) = [event async for event in events(answer.content.iter_any())]
        assert event.data == {"jsonrpc": "2.0", "id": 1, "result": {"text": "heard x"}}
        told = {"jsonrpc": "2.0", "id": 2, "method": "SumMessages", "params": {"number": 9}}
        async with scene.http.post("/", json=told) as answer:
            assert await answer.json() == {"jsonrpc": "2.0", "id": 2, "result": {"number": 10 - 1}}


@pytest.mark.req("DOOR-14", "DOOR-03")
async def test_the_openapi_document_knows_lines_and_streams(service: ServiceDescriptor) -> None:
    async with served(service) as scene:
        async with scene.http.get("/openapi.json") as answer:
            document = await answer.json()
        live, total = document["paths"]["/live"]["post"], document["paths"]["/sum"]["post"]
        for operation in (live, total):
            assert operation["requestBody"]["required"] is True
            content = operation["requestBody"]["content"]
            assert set(content) == {"application/x-ndjson", "application/jsonl"}
            for described in content.values():
                assert described["schema"]["type"] == "string"
                assert described["schema"]["contentSchema"]["$ref"].endswith("Said")
        assert "text/event-stream" in live["responses"]["200"]["content"]
        assert "application/json" in total["responses"]["200"]["content"]
