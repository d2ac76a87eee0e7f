"""Messages that are wrong in every way we could think of: the exact answer, and no effect (spec: GEN-03 to GEN-06)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import grpc
import pytest
from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.store import Store
from tests.bindings.actors import COMPLETED, Actor, asking, at_rest, echo
from tests.support.doors import OPTIONS
from tests.support.house import GrpcOptions
from tests.support.world import Refusal, World, refused, say, serving

ROLES = "ROLE_USER, ROLE_AGENT"
CONTENT = "must hold exactly one of text, raw, url, data"
CONTROL = "must not contain control characters"
Change = Callable[[pb.SendMessageRequest], object]


def changed(change: Change) -> pb.SendMessageRequest:
    request = say("hello")
    change(request)
    return request


def deep(levels: int) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    inner = struct
    for _ in range(levels - 1):
        inner = inner.fields["x"].struct_value
    inner.fields["x"].null_value = struct_pb2.NULL_VALUE
    return struct


def _too_deep(request: pb.SendMessageRequest) -> None:
    request.message.metadata.CopyFrom(deep(31))
    request.metadata.CopyFrom(deep(31))
    request.message.parts[0].metadata.CopyFrom(deep(31))


BAD: dict[str, tuple[Change, dict[str, str]]] = {
    "no message": (lambda r: r.ClearField("message"), {"message": "is required"}),
    "an empty message": (
        lambda r: r.message.Clear(),
        {
            "message.message_id": "is required",
            "message.role": f"is required; allowed are {ROLES}",
            "message.parts": "needs at least one element",
        },
    ),
    "no id": (lambda r: r.message.ClearField("message_id"), {"message.message_id": "is required"}),
    "no parts": (lambda r: r.message.ClearField("parts"), {"message.parts": "needs at least one element"}),
    "no role": (lambda r: r.message.ClearField("role"), {"message.role": f"is required; allowed are {ROLES}"}),
    "the agent's role": (
        lambda r: setattr(r.message, "role", pb.ROLE_AGENT),
        {"message.role": "must be ROLE_USER: only the agent speaks as ROLE_AGENT"},
    ),
    "an unknown role": (
        lambda r: setattr(r.message, "role", 7),
        {"message.role": f"unknown value 7; allowed are {ROLES}"},
    ),
    "a negative role": (
        lambda r: setattr(r.message, "role", -1),
        {"message.role": f"unknown value -1; allowed are {ROLES}"},
    ),
    "a part without content": (
        lambda r: r.message.parts.add(filename="x"),
        {"message.parts[1]": CONTENT},
    ),
    "several empty parts": (
        lambda r: r.message.parts.extend([pb.Part(), pb.Part(text="fine"), pb.Part()]),
        {"message.parts[1]": CONTENT, "message.parts[3]": CONTENT},
    ),
    "too many parts": (
        lambda r: r.message.parts.extend([pb.Part(text="x")] * 1_000),
        {"message.parts": "must have at most 1000 elements, got 1001"},
    ),
    "a long id": (
        lambda r: setattr(r.message, "message_id", "x" * 10_000),
        {"message.message_id": "must have at most 256 characters, got 10000"},
    ),
    "a long context": (
        lambda r: setattr(r.message, "context_id", "x" * 257),
        {"message.context_id": "must have at most 256 characters, got 257"},
    ),
    "a long task": (
        lambda r: setattr(r.message, "task_id", "é" * 10_000),
        {"message.task_id": "must have at most 256 characters, got 10000"},
    ),
    "NUL in ids": (
        lambda r: r.message.MergeFrom(pb.Message(message_id="a\0", context_id="\0", task_id="b\0c")),
        {"message.message_id": CONTROL, "message.context_id": CONTROL, "message.task_id": CONTROL},
    ),
    "a line break in an id": (
        lambda r: setattr(r.message, "message_id", "a\r\nb"),
        {"message.message_id": CONTROL},
    ),
    "too many references": (
        lambda r: r.message.reference_task_ids.extend(["x"] * 101),
        {"message.reference_task_ids": "must have at most 100 elements, got 101"},
    ),
    "a long reference": (
        lambda r: r.message.reference_task_ids.extend(["fine", "x" * 300]),
        {"message.reference_task_ids[1]": "must have at most 256 characters, got 300"},
    ),
    "too many extensions": (
        lambda r: r.message.extensions.extend(["https://e.example"] * 101),
        {"message.extensions": "must have at most 100 elements, got 101"},
    ),
    "values that nest too deeply": (
        _too_deep,
        dict.fromkeys(
            ("message.metadata", "metadata", "message.parts[0].metadata"),
            "nests too deeply; at most 30 objects or 45 lists inside each other",
        ),
    ),
    "a push config without its address": (
        lambda r: r.configuration.task_push_notification_config.SetInParent(),
        {"configuration.task_push_notification_config.url": "is required"},
    ),
    "a push config of another task": (
        lambda r: r.configuration.task_push_notification_config.MergeFrom(
            pb.TaskPushNotificationConfig(url="ftp://example.com", task_id="other")
        ),
        {
            "configuration.task_push_notification_config.task_id": "must be absent or equal message.task_id",
            "configuration.task_push_notification_config.url": "must be an absolute http or https URL",
        },
    ),
    "faults all over the place": (
        lambda r: r.MergeFrom(
            pb.SendMessageRequest(
                message=pb.Message(role=pb.ROLE_AGENT, context_id="\t", parts=[pb.Part()]),
                configuration=pb.SendMessageConfiguration(history_length=-5),
            )
        ),
        {
            "message.role": "must be ROLE_USER: only the agent speaks as ROLE_AGENT",
            "message.context_id": CONTROL,
            "message.parts[1]": CONTENT,
            "configuration.history_length": "must not be negative, got -5",
        },
    ),
}


async def untouched(world: World, agent: Actor) -> None:
    assert not agent.requests
    assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 0
    await at_rest(world)


@pytest.mark.req("GEN-03", "GEN-04", "GEN-05", "SEND-02", "SEND-03", "HIST-05", "PUSH-04", "ERRS-05", "STRM-07")
@pytest.mark.parametrize("case", BAD)
async def test_every_fault_is_named_and_nothing_happens(case: str) -> None:
    change, fields = BAD[case]
    async with serving(agent := echo(), push_notifications=True) as world:
        for call in (world.stub.SendMessage(changed(change)), world.stream(changed(change))):
            refusal = await refused(call)
            assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
            assert refusal.fields == fields
            if len(fields) == 1:
                ((field, why),) = fields.items()
                assert refusal.message == f"{field}: {why}"
            else:
                assert refusal.message == f"{len(fields)} fields of the request are wrong."
        await untouched(world, agent)


@pytest.mark.req("GEN-03")
@pytest.mark.parametrize("tenant", ["a/b", "x" * 300, "a\0b", "a\nb"])
async def test_a_tenant_that_cannot_be_one(tenant: str) -> None:
    async with serving(agent := echo()) as world:
        refusal = await refused(world.stub.SendMessage(changed(lambda r: setattr(r, "tenant", tenant))))
        assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
        assert list(refusal.fields) == ["tenant"]
        await untouched(world, agent)


# -- what looks odd and is fine

ODD = ["a/b", "urn:task:7", "with spaces", "ünïcödé 漢字 🎈", "..", "%00", "x" * 256, "'; DROP TABLE tasks;--", "{}"]


@pytest.mark.req("CTX-03", "CTX-04")
@pytest.mark.parametrize("name", ODD)
async def test_odd_ids_are_ids(store: Store, name: str) -> None:
    async with serving(agent := asking(), store=store) as world:
        task = await world.send(say(message_id=name, context_id=name, references=[name]))
        assert (task.context_id, task.history[0].message_id) == (name, name)
        assert agent.requests[0].context_id == name
        listed = await world.stub.ListTasks(pb.ListTasksRequest(context_id=name))
        assert [found.id for found in listed.tasks] == [task.id]
        assert (await world.send(say(task_id=task.id, context_id=name))).status.state == COMPLETED


@pytest.mark.req("SEND-06", "GET-02", "CANC-02", "SUBS-04")
@pytest.mark.parametrize("name", [*ODD, "x" * 10_000, "a\0b"])
async def test_odd_ids_of_tasks_that_do_not_exist(store: Store, name: str) -> None:
    async with serving(echo(), store=store) as world:
        calls = [
            world.stub.GetTask(pb.GetTaskRequest(id=name)),
            world.stub.CancelTask(pb.CancelTaskRequest(id=name)),
            anext(aiter(world.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=name)))),
        ]
        if name in ODD:
            calls.append(world.stub.SendMessage(say(task_id=name)))
        for call in calls:
            refusal = await refused(call)
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")
            assert refusal.metadata == {"taskId": clipped(name)}


def clipped(name: str) -> str:
    return name[:200] if len(name[:200].encode()) <= 200 else name[:200].encode()[:197].decode(errors="ignore") + "…"


@pytest.mark.req("GEN-03")
async def test_what_is_just_not_too_much(store: Store) -> None:
    async with serving(agent := echo(), store=store) as world:
        request = say(parts=[pb.Part(text="x")] * 1_000, references=["r"] * 100)
        request.message.metadata.CopyFrom(deep(30))
        request.metadata.CopyFrom(deep(29))
        task = await world.send(request)
        assert task.history[0].metadata == deep(30)
        assert len(agent.requests[0].message.parts) == 1_000


# -- below the level of messages

LENGTH_DELIMITED = 2
VARINT = 0


def field(number: int, content: bytes | int) -> bytes:
    """A field on the wire: its tag, and its content with length; no length here needs a second byte."""
    if isinstance(content, int):
        return bytes([number << 3 | VARINT, content])
    assert len(content) < 0x80
    return bytes([number << 3 | LENGTH_DELIMITED, len(content)]) + content


TEXT, RAW, URL = (pb.Part.DESCRIPTOR.fields_by_name[name].number for name in ("text", "raw", "url"))
MESSAGE = pb.SendMessageRequest.DESCRIPTOR.fields_by_name["message"].number
MESSAGE_ID, ROLE, PARTS = (
    pb.Message.DESCRIPTOR.fields_by_name[name].number for name in ("message_id", "role", "parts")
)


def on_the_wire(*parts: bytes, role: int = pb.ROLE_USER, message_id: bytes = b"m") -> bytes:
    content = field(MESSAGE_ID, message_id) + field(ROLE, role) + b"".join(field(PARTS, part) for part in parts)
    return field(MESSAGE, content)


async def send_raw(world: World, raw: bytes) -> pb.SendMessageResponse:
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, pb.SendMessageResponse] = world.channel.unary_unary(
        "/lf.a2a.v1.A2AService/SendMessage", response_deserializer=pb.SendMessageResponse.FromString
    )
    return await call(raw)


@pytest.mark.req("SEND-02")
@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (field(TEXT, b"first") + field(URL, b"https://example.com/f"), pb.Part(url="https://example.com/f")),
        (field(RAW, b"\xff") + field(TEXT, b"last"), pb.Part(text="last")),
        (field(TEXT, b"one") + field(TEXT, b"two"), pb.Part(text="two")),
    ],
)
@pytest.mark.only_through("grpc", why="is about bytes on gRPC's wire")
async def test_of_several_contents_on_the_wire_the_last_one_counts(part: bytes, expected: pb.Part) -> None:
    """Protobuf's rule for a oneof: a decoder keeps the last member, so that gRPC cannot see that there were several."""
    async with serving(agent := echo()) as world:
        await send_raw(world, on_the_wire(part))
        assert list(agent.requests[0].message.parts) == [expected]


@pytest.mark.req("GEN-06")
@pytest.mark.only_through("grpc", why="is about bytes on gRPC's wire")
async def test_unknown_members_are_ignored(store: Store) -> None:
    unknown = field(15, b"from the future") + field(14, 7)
    raw = on_the_wire(field(TEXT, b"hello") + unknown) + unknown
    async with serving(agent := echo(), store=store) as world:
        response = await send_raw(world, raw)
        assert response.task.status.state == COMPLETED
        assert agent.requests[0].message.parts[0].text == "hello"


def _malformed() -> Iterator[bytes]:
    good = on_the_wire(field(TEXT, b"hello"))
    yield good[:-3]
    yield b"\xff\xff\xff"
    yield field(MESSAGE, b"\x0f")
    yield on_the_wire(field(TEXT, b"\xff\xfe"))  # text that is not UTF-8
    yield on_the_wire(field(TEXT, b"x"), message_id=b"\xc3\x28")
    yield b"{}"


@pytest.mark.req("GEN-03", "ERRS-07")
@pytest.mark.parametrize("raw", list(_malformed()))
@pytest.mark.only_through("grpc", why="is about bytes on gRPC's wire")
async def test_bytes_that_are_no_message(raw: bytes) -> None:
    async with serving(agent := echo()) as world:
        refusal = await refused(send_raw(world, raw))
        assert refusal == Refusal(
            grpc.StatusCode.INVALID_ARGUMENT,
            "The request is not a well-formed lf.a2a.v1.SendMessageRequest.",
            reason="INVALID_PARAMS",
            domain="a2a-protocol.org",
            metadata={},
            fields={},
        )
        await untouched(world, agent)


@pytest.mark.req("SEND-02")
@pytest.mark.only_through("grpc", why="JSON cannot write a Value without a value")
async def test_data_without_a_value() -> None:
    async with serving(agent := echo()) as world:
        request = changed(lambda request: request.message.parts[0].data.SetInParent())
        refusal = await refused(world.stub.SendMessage(request))
        assert refusal.fields == {"message.parts[0].data": "holds no value; JSON's null is `null_value`"}
        await untouched(world, agent)


@pytest.mark.req("GEN-04")
@pytest.mark.only_through("grpc", why="is about bytes on gRPC's wire")
async def test_no_bytes_are_an_empty_message() -> None:
    async with serving(echo()) as world:
        assert (await refused(send_raw(world, b""))).fields == {"message": "is required"}


@pytest.mark.req("LIMT-01", "GEN-03")
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_message_over_the_size_limit_is_not_even_read(*, streaming: bool) -> None:
    grpc_options, http_options = GrpcOptions(max_message_bytes=100_000), replace(OPTIONS, max_body_bytes=100_000)
    async with serving(agent := echo(), grpc_options=grpc_options, http_options=http_options) as world:
        request = say("x" * 100_001)
        refusal = await refused(world.stream(request) if streaming else world.stub.SendMessage(request))
        assert refusal.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await world.send(say("x" * 90_000))).status.state == COMPLETED
        assert len(agent.requests) == 1


def empty_objects(count: int) -> struct_pb2.Value:
    value = struct_pb2.Value()
    for _ in range(count):
        value.list_value.values.add().struct_value.SetInParent()
    return value


@pytest.mark.req("LIMT-01", "GEN-03")
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_message_with_too_many_values_is_not_even_read(*, streaming: bool) -> None:
    """What it costs to read, keep and show a message grows with its values, not with its bytes."""
    async with serving(agent := echo()) as world:
        request = changed(lambda r: r.message.parts.add(data=empty_objects(20_000)))
        refusal = await refused(world.stream(request) if streaming else world.stub.SendMessage(request))
        assert refusal.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refusal.reason == "BODY_TOO_LARGE"
        assert refusal.message.startswith("The request has too many values: at most 25000 are taken (")
        assert not agent.requests
        await at_rest(world)
        allowed = changed(lambda r: r.message.parts.add(data=empty_objects(8_000)))
        assert (await world.send(allowed)).status.state == COMPLETED
        assert (await world.send(say("a, [b], {c} " * 50_000))).status.state == COMPLETED


@pytest.mark.req("GEN-07")
async def test_a_deadline_that_has_passed_already() -> None:
    async with serving(echo()) as world:
        refusal = await refused(world.stub.SendMessage(say(), timeout=-1))
        assert refusal.code == grpc.StatusCode.DEADLINE_EXCEEDED
        await at_rest(world)


@pytest.mark.req("LIST-16")
@pytest.mark.parametrize("state", [99, -1])
async def test_a_state_that_does_not_exist(state: int) -> None:
    async with serving(echo()) as world:
        request = pb.ListTasksRequest(status=state)  # type: ignore[arg-type]
        refusal = await refused(world.stub.ListTasks(request))
        assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.fields["status"].startswith(f"unknown value {state}; allowed are TASK_STATE_SUBMITTED, ")
