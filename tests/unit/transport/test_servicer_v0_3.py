"""The servicer of 0.3 in front of operations that a test makes up."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.operations.call import Call, FinalEntries
from a2a_server.ports.records import Entry
from a2a_server.protocol.errors import A2AError, Reason, Violation
from a2a_server.protocol.options import LEGACY_DEFAULT
from a2a_server.transport.grpc.servicer_v0_3 import Retellings
from a2a_server.transport.grpc_options import Tls
from a2a_server.transport.open_streams import OpenStreams
from tests.support.yielding import Batches, yielding
from tests.unit.transport.doors import Seen, failing, failing_stream, item, open_door, refused
from tests.unit.transport.test_server import ByCertificate, ca, client, tls
from tests.unit.transport.test_servicer import A2A, PLAIN, TABLE

__all__ = ["ca", "tls"]

GET = v03.GetTaskRequest(name="tasks/t")


def message() -> v03.SendMessageRequest:
    content = [v03.Part(text="x")]
    return v03.SendMessageRequest(request=v03.Message(message_id="m", role=v03.ROLE_USER, content=content))


@pytest.mark.req("ERRS-01", "ERRS-03", "GRPC-04")
@pytest.mark.parametrize(("reason", "code", "code_1_0_0", "domain"), TABLE)
async def test_every_error_has_the_code_of_1_0_0_whatever_the_operator_chose(
    reason: str, code: str, code_1_0_0: str, domain: str
) -> None:
    error = A2AError(Reason[reason], "In words.", metadata={"taskId": "t-404"}, retry_after=2.5)
    operations = {"GetTask": failing(error), "SendStreamingMessage": failing_stream(error)}
    async with open_door(operations, codes="1.0.1") as door:
        for refusal in (
            await refused(lambda: door.old.GetTask(GET)),
            await refused(lambda: door.old.SendStreamingMessage(message()).read()),
        ):
            assert refusal.code == grpc.StatusCode[code_1_0_0], code
            name = f"{''.join(word.title() for word in reason.split('_'))}Error: " if domain == A2A else ""
            assert (refusal.message, refusal.retry_after) == (f"{name}In words.", 2.5)
            assert refusal.info is not None
            assert (refusal.info.reason, refusal.info.domain) == (reason, domain)
            assert dict(refusal.info.metadata) == {"taskId": "t-404"}
    assert reason not in PLAIN


@pytest.mark.req("ERRS-05")
async def test_fields_are_told_in_the_words_of_0_3() -> None:
    faults = [Violation("message.parts[0]", "is empty"), Violation("configuration.return_immediately", "is odd")]
    error = A2AError(Reason.INVALID_PARAMS, "Two are wrong.", violations=faults)
    async with open_door({"SendMessage": failing(error)}) as door:
        refusal = await refused(lambda: door.old.SendMessage(message()))
    assert refusal.fields == {"request.content[0]": "is empty", "configuration.blocking": "is odd"}
    assert refusal.message == "InvalidParamsError: Two are wrong."


@pytest.mark.req("STRM-07")
async def test_an_error_in_mid_stream_comes_after_what_was_there() -> None:
    error = A2AError(Reason.INVALID_AGENT_RESPONSE, "Broken.")
    async with open_door({"SendStreamingMessage": failing_stream(error, after=2)}) as door:
        seen: list[Any] = []

        async def read() -> None:
            async for one in door.old.SendStreamingMessage(message()):
                seen.append(one)  # noqa: PERF401 - what came before the error counts

        refusal = await refused(read)
    assert [one.WhichOneof("payload") for one in seen] == ["artifact_update"] * 2
    assert (refusal.code.name, refusal.reason) == ("INTERNAL", "INVALID_AGENT_RESPONSE")


async def test_operations_are_told_that_it_was_0_3_and_see_1_0_only() -> None:
    async with open_door() as door:
        await door.old.GetTask(GET)
        assert [one async for one in door.old.SendStreamingMessage(message())]
        assert [call.version for call in door.seen.calls] == ["0.3", "0.3"]
        assert [request.DESCRIPTOR.full_name for request in door.seen.requests] == ["lf.a2a.v1.GetTaskRequest"]


async def test_what_a_gateway_would_say_is_not_taken_from_a_client() -> None:
    metadata = [("a2a-server-spoken", "draft"), ("a2a-server-schemes", "Bearer")]
    async with open_door() as door:
        await door.old.GetTask(GET, metadata=metadata)
        assert [(call.version, [*call.schemes]) for call in door.seen.calls] == [("0.3", [])]


@pytest.mark.req("LPSH-02")
async def test_schemes_are_told_beside_the_request() -> None:
    seen = Seen()
    config = v03.PushNotificationConfig(
        url="https://example.com", authentication=v03.AuthenticationInfo(schemes=["Basic", "", "Bearer"])
    )
    created = seen.answering(pb.TaskPushNotificationConfig(task_id="t", id="c"))
    request = v03.CreateTaskPushNotificationConfigRequest(
        parent="tasks/t", config=v03.TaskPushNotificationConfig(push_notification_config=config)
    )
    async with open_door({"CreateTaskPushNotificationConfig": created}) as door:
        await door.old.CreateTaskPushNotificationConfig(request)
        many = [f"s{number}" for number in range(17)]
        request.config.push_notification_config.authentication.schemes[:] = many
        refusal = await refused(lambda: door.old.CreateTaskPushNotificationConfig(request))
    assert [[*call.schemes] for call in seen.calls] == [["Basic", "Bearer"]]
    assert set(refusal.fields) == {"config.push_notification_config.authentication.schemes"}


async def test_mutual_tls_names_the_caller_of_0_3_too(ca: trustme.CA, tls: Tls) -> None:
    mutual = replace(tls, client_ca=str(Path(tls.cert).with_name("ca.pem")))
    own = ca.issue_cert("ann.example", common_name="ann")
    async with open_door(tls=mutual, authenticator=ByCertificate(), credentials=client(ca, own)) as door:
        await door.old.GetTask(GET)
        assert door.seen.calls[0].caller.owner == "ann.example"


async def test_a_reader_that_stops_is_cut_and_told_why() -> None:
    given, closed = 0, asyncio.Event()

    @yielding
    async def source(call: Call, request: Message) -> Batches:
        nonlocal given
        try:
            while True:
                given += 1
                yield (item(given, "x" * 65_536),)
        finally:
            closed.set()

    async with open_door({"SendStreamingMessage": source}, streams=OpenStreams(write_timeout=0.2)) as door:
        stream = door.old.SendStreamingMessage(message())
        await stream.read()
        async with asyncio.timeout(30):
            await closed.wait()

        async def read() -> None:
            while await stream.read():
                pass

        refusal = await refused(read)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "SLOW_READER")
    assert given < 1000


# -- batches


def statuses(count: int) -> list[Entry]:
    update = pb.TaskStatusUpdateEvent(task_id="t", status=pb.TaskStatus(state=pb.TASK_STATE_WORKING))
    return [Entry.of(number, pb.StreamResponse(status_update=update)) for number in range(1, count + 1)]


def finals(wires: Any) -> list[bool]:
    return [v03.StreamResponse.FromString(wire).status_update.final for wire in wires]


@pytest.mark.req("LRPC-05")
def test_the_last_of_a_batch_that_ends_is_final() -> None:
    retellings = Retellings(LEGACY_DEFAULT)
    assert finals(retellings.of(statuses(3))) == [False, False, False]
    assert finals(retellings.of(FinalEntries(statuses(3)))) == [False, False, True]
    assert finals(retellings.of(FinalEntries(statuses(1)))) == [True]
    assert retellings.of(()) == []


def test_a_batch_that_all_readers_share_is_told_once() -> None:
    retellings, batch = Retellings(LEGACY_DEFAULT), statuses(2)
    first = retellings.of(batch)
    assert all(retellings.of(batch) is first for _ in range(5))
    assert retellings.of(statuses(2)) is not first
