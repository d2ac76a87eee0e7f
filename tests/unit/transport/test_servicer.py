"""Every row of the error table as a client of the gRPC door sees it."""

import hashlib
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.store import StoreUnavailable
from a2a_server.protocol.errors import A2AError, ErrorCodes, Reason, Violation, status_of
from a2a_server.transport.grpc.server import SERVICES
from tests.support.house import Secret, by_secrets
from tests.unit.transport.doors import Door, Seen, failing, failing_stream, open_door, refusal_of, refused

A2A, OURS = "a2a-protocol.org", "a2a-server"

# reason, gRPC code of 1.0.1, gRPC code of 1.0.0, domain (wire-1.0.md 8, CONF-01)
TABLE = [
    ("TASK_NOT_FOUND", "NOT_FOUND", "NOT_FOUND", A2A),
    ("TASK_NOT_CANCELABLE", "FAILED_PRECONDITION", "FAILED_PRECONDITION", A2A),
    ("PUSH_NOTIFICATION_NOT_SUPPORTED", "FAILED_PRECONDITION", "UNIMPLEMENTED", A2A),
    ("UNSUPPORTED_OPERATION", "FAILED_PRECONDITION", "UNIMPLEMENTED", A2A),
    ("CONTENT_TYPE_NOT_SUPPORTED", "INVALID_ARGUMENT", "INVALID_ARGUMENT", A2A),
    ("INVALID_AGENT_RESPONSE", "INTERNAL", "INTERNAL", A2A),
    ("EXTENDED_AGENT_CARD_NOT_CONFIGURED", "FAILED_PRECONDITION", "FAILED_PRECONDITION", A2A),
    ("EXTENSION_SUPPORT_REQUIRED", "FAILED_PRECONDITION", "FAILED_PRECONDITION", A2A),
    ("VERSION_NOT_SUPPORTED", "FAILED_PRECONDITION", "UNIMPLEMENTED", A2A),
    ("INVALID_PARAMS", "INVALID_ARGUMENT", "INVALID_ARGUMENT", A2A),  # the official SDK's name
    ("UNAUTHENTICATED", "UNAUTHENTICATED", "UNAUTHENTICATED", OURS),
    ("PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED", OURS),
    ("OVERLOADED", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", OURS),
    ("SLOW_READER", "UNAVAILABLE", "UNAVAILABLE", OURS),
    ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", OURS),
    ("QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", OURS),
    ("UNAVAILABLE", "UNAVAILABLE", "UNAVAILABLE", OURS),
]
PLAIN = {"INTERNAL"}
HTTP_ONLY = {reason.name for reason in Reason if reason.jsonrpc_code in (-32600, -32601, -32700)}


def test_the_table_is_complete() -> None:
    assert {row[0] for row in TABLE} | PLAIN == {reason.name for reason in Reason} - HTTP_ONLY


@pytest.mark.req("ERRS-01", "ERRS-03", "GRPC-04")
@pytest.mark.parametrize("codes", ["1.0.1", "1.0.0"])
@pytest.mark.parametrize("rpc", ["GetTask", "SendStreamingMessage"])
async def test_every_error_has_its_code_reason_domain_and_metadata(rpc: str, codes: ErrorCodes) -> None:
    operations = {"GetTask": failing, "SendStreamingMessage": failing_stream}
    for reason, code, code_1_0_0, domain in TABLE:
        error = A2AError(Reason[reason], "In words.", metadata={"taskId": "t-404"})
        async with open_door({rpc: operations[rpc](error)}, codes=codes) as door:
            if rpc == "GetTask":
                refusal = await refused(lambda: door.stub.GetTask(pb.GetTaskRequest(id="t")))
            else:
                refusal = await refused(lambda: door.stub.SendStreamingMessage(pb.SendMessageRequest()).read())
        assert refusal.code == grpc.StatusCode[code if codes == "1.0.1" else code_1_0_0], reason
        assert refusal.message == "In words."
        assert refusal.info is not None
        assert (refusal.info.reason, refusal.info.domain) == (reason, domain)
        assert dict(refusal.info.metadata) == {"taskId": "t-404"}


@pytest.mark.req("ERRS-05")
async def test_a_validation_error_names_every_field() -> None:
    faults = [Violation("page_size", "must lie in 1..100"), Violation("status", "unknown state")]
    error = A2AError(Reason.INVALID_PARAMS, "Two are wrong.", violations=faults)
    async with open_door({"GetTask": failing(error)}) as door:
        refusal = await refused(lambda: door.stub.GetTask(pb.GetTaskRequest()))
    assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.fields == {"page_size": "must lie in 1..100", "status": "unknown state"}
    assert refusal.reason == "INVALID_PARAMS"


@pytest.mark.req("ERRS-06")
async def test_what_may_succeed_later_says_when() -> None:
    async with open_door({"GetTask": failing(StoreUnavailable("disk full at /var/lib/a2a.db"))}) as door:
        refusal = await refused(lambda: door.stub.GetTask(pb.GetTaskRequest()))
    assert refusal.code == grpc.StatusCode.UNAVAILABLE
    assert refusal.reason == "UNAVAILABLE"
    assert refusal.retry_after == 1
    assert "/var" not in str(refusal)


@pytest.mark.req("ERRS-07")
@pytest.mark.parametrize("rpc", ["GetTask", "SendStreamingMessage"])
async def test_the_unexpected_reveals_nothing_but_an_incident(rpc: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = KeyError("password=hunter2 in /etc/secret")
    async with open_door({"GetTask": failing(error), "SendStreamingMessage": failing_stream(error)}) as door:
        if rpc == "GetTask":
            refusal = await refused(lambda: door.stub.GetTask(pb.GetTaskRequest()))
        else:
            refusal = await refused(lambda: door.stub.SendStreamingMessage(pb.SendMessageRequest()).read())
    assert (refusal.code, refusal.message) == (grpc.StatusCode.INTERNAL, "Internal error.")
    assert refusal.info is not None
    assert list(refusal.info.metadata) == ["incident"]
    assert not any(word in str(refusal) for word in ("hunter2", "secret", "KeyError", "Traceback"))
    logged = capsys.readouterr().out
    assert refusal.info.metadata["incident"] in logged
    assert "KeyError" in logged


async def test_an_error_after_the_first_item_ends_the_stream_with_its_status() -> None:
    error = A2AError(Reason.SLOW_READER, "Too far behind.")
    async with open_door({"SendStreamingMessage": failing_stream(error, after=2)}) as door:
        call = door.stub.SendStreamingMessage(pb.SendMessageRequest())
        assert await call.read()
        assert await call.read()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert refusal_of(caught.value).reason == "SLOW_READER"


def raw_call(door: Door, rpc: str = "GetTask") -> Any:
    return door.channel.unary_unary(f"/lf.a2a.v1.A2AService/{rpc}")


@pytest.mark.parametrize("raw", [b"\xff\xff\xff", b"\x0a\x05ab", b"\x12\x02\xff\xfe"], ids=["tag", "length", "utf-8"])
async def test_malformed_bytes_are_the_clients_fault(raw: bytes) -> None:
    async with open_door() as door:
        refusal = await refused(lambda: raw_call(door)(raw))
        assert door.seen.calls == []
    assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.message == "The request is not a well-formed lf.a2a.v1.GetTaskRequest."


async def test_a_message_over_the_limit_is_refused_and_the_next_call_works() -> None:
    async with open_door() as door:
        refusal = await refused(lambda: door.stub.GetTask(pb.GetTaskRequest(id="x" * (17 * 1024 * 1024))))
        assert refusal.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await door.stub.GetTask(pb.GetTaskRequest(id="t"))).id == "t"


async def test_an_unknown_method_is_unimplemented() -> None:
    async with open_door() as door:
        refusal = await refused(lambda: raw_call(door, "Nothing")(b""))
    assert refusal.code == grpc.StatusCode.UNIMPLEMENTED


async def test_the_largest_error_still_reaches_the_client() -> None:
    """Trailers beyond the client's bound would turn into an error without any of its details."""
    error = A2AError(
        Reason.INVALID_PARAMS,
        "é" * 5000,
        metadata={f"key{n}": "ü" * 5000 for n in range(50)},
        violations=[Violation(f"message.parts[{n}]", "ö" * 500) for n in range(500)],
        retry_after=1,
    )
    async with open_door({"GetTask": failing(error)}) as door:
        refusal = await refused(lambda: door.stub.GetTask(pb.GetTaskRequest()))
    assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.fields
    assert refusal.message.endswith("…")
    assert sum(len(value) for value in refusal.trailers.values()) < 6000


def test_many_short_violations_are_cut_at_a_hundred() -> None:
    error = A2AError(Reason.INVALID_PARAMS, "", violations=[Violation("a", "b")] * 500)
    assert status_of(error).SerializeToString().count(b"\x0a\x01a\x12\x01b") == 100


TOKEN = "the-token-of-ann"


def added_service() -> ServiceDescriptor:
    """What protoc would make of an extension's own service."""
    proto = descriptor_pb2.FileDescriptorProto(name="extra.proto", package="extra.v1", dependency=["a2a.proto"])
    service = proto.service.add(name="Extra")
    service.method.add(name="Summarise", input_type=".lf.a2a.v1.GetTaskRequest", output_type=".lf.a2a.v1.Task")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(proto.SerializeToString())
    found: ServiceDescriptor = pool.FindServiceByName("extra.v1.Extra")
    return found


@pytest.mark.req("EXTN-09")
async def test_an_added_method_needs_the_same_credentials() -> None:
    secret = Secret(hashlib.sha256(TOKEN.encode()).digest(), Caller("ann", authenticated=True))
    authenticator = by_secrets([secret])
    seen = Seen()
    operation = {"Summarise": seen.answering(pb.Task(id="sum"))}
    services = (*SERVICES, added_service())
    async with open_door(operation, authenticator=authenticator, services=services) as door:
        call = door.channel.unary_unary(
            "/extra.v1.Extra/Summarise",
            request_serializer=pb.GetTaskRequest.SerializeToString,
            response_deserializer=pb.Task.FromString,
        )
        refusal = await refused(lambda: call(pb.GetTaskRequest(id="t")))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
        assert not seen.calls
        answer = await call(pb.GetTaskRequest(id="t"), metadata=(("authorization", f"Bearer {TOKEN}"),))
        assert answer.id == "sum"
        assert [request.id for request in seen.requests] == ["t"]  # type: ignore[attr-defined]
        assert seen.calls[0].scope.owner == "ann"


@pytest.mark.req("AUTN-03", "LIMT-01")
@pytest.mark.parametrize("package", ["lf.a2a.v1", "a2a.v1"])
@pytest.mark.parametrize("rpc", ["SendMessage", "SendStreamingMessage"])
async def test_a_large_request_is_read_when_it_is_known_who_calls(package: str, rpc: str) -> None:
    """What is malformed would be told otherwise."""
    known = Secret(digest=hashlib.sha256(b"right").digest(), caller=Caller("ann", authenticated=True))
    authenticator = by_secrets([known])
    async with open_door(authenticator=authenticator) as door:
        channel: Any = door.channel

        async def call(raw: bytes, token: str) -> object:
            name, metadata = f"/{package}.A2AService/{rpc}", (("authorization", f"Bearer {token}"),)
            if rpc == "SendMessage":
                return await channel.unary_unary(name)(raw, metadata=metadata)
            return await channel.unary_stream(name)(raw, metadata=metadata).read()

        for raw in (b"\xff" * 20_000, b"\x12\x00" * 100_000):
            refusal = await refused(lambda raw=raw: call(raw, "wrong"))  # type: ignore[misc]
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
        refusal = await refused(lambda: call(b"\xff" * 20_000, "right"))
        assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
        refusal = await refused(lambda: call(b"\x12\x00" * 100_000, "right"))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "BODY_TOO_LARGE")
        assert refusal.message == "The request has too many values: at most 25000 are taken (transport.max_values)."
