"""Errors as a gRPC client sees them (spec: ERRS, GRPC-04, CONF-01)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Extension, Turn
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.records import Write
from a2a_server.ports.store import StoredTask, StoreUnavailable
from tests.support.calls import every_call
from tests.support.house import MemoryStore, Scope
from tests.support.stage import Stage
from tests.support.world import ByHeader, World, as_user, refused, say, serving

DETAILS = "grpc-status-details-bin"
SECRET = "/etc/secret postgres://admin:hunter2@db.internal/ SELECT"


async def status_of(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str, list[Message]]:
    """Code, text, and every detail, unpacked."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        failure = error
    else:
        raise AssertionError("was not refused")
    (raw,) = [value for name, value in failure.trailing_metadata() or () if name == DETAILS]
    assert isinstance(raw, bytes)
    status = status_pb2.Status.FromString(raw)
    code = failure.code()
    assert (status.code, status.message) == (code.value[0], failure.details())  # said twice, and the same
    details: list[Message] = []
    for packed in status.details:
        kind = packed.TypeName().removeprefix("google.rpc.")
        detail: Message = getattr(error_details_pb2, kind)()
        assert packed.Unpack(detail)
        details.append(detail)
    return code, failure.details() or "", details


# -- the table


def cast() -> Stage:
    """A stage with an extension, an extended card that is missing, and a skill that breaks the protocol."""
    needed = Extension("urn:needed", required=True)
    stage = Stage(extensions=[needed], extended=_no_card, default_input_modes=["text"])

    @stage.agent.skill(id="break", description="Sends an artifact without parts.", tags=["test"])
    async def break_rules(turn: Turn) -> None:
        await turn.emit(pb.TaskArtifactUpdateEvent(artifact=pb.Artifact(artifact_id="a")))

    return stage


def _no_card(card: pb.AgentCard, caller: Caller) -> pb.AgentCard | None:
    return None


READY = (*as_user("root"), ("a2a-extensions", "urn:needed"))
Scenario = Callable[[World], Awaitable[Any]]


async def finished(world: World) -> str:
    return (await world.send(say(skill="bare"), metadata=READY)).id


async def cancel_finished(world: World) -> Any:
    return await world.stub.CancelTask(pb.CancelTaskRequest(id=await finished(world)), metadata=READY)


async def send_to_finished(world: World) -> Any:
    return await world.send(say(task_id=await finished(world)), metadata=READY)


TABLE: list[tuple[str, str, Scenario]] = [
    ("TASK_NOT_FOUND", "NOT_FOUND", lambda w: w.get("nope", metadata=READY)),
    ("TASK_NOT_CANCELABLE", "FAILED_PRECONDITION", cancel_finished),
    (
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        "FAILED_PRECONDITION",
        lambda w: every_call(w, metadata=READY)["CreateTaskPushNotificationConfig"](),
    ),
    ("UNSUPPORTED_OPERATION", "FAILED_PRECONDITION", send_to_finished),
    (
        "CONTENT_TYPE_NOT_SUPPORTED",
        "INVALID_ARGUMENT",
        lambda w: w.send(say(parts=[pb.Part(raw=b"x", media_type="image/png")]), metadata=READY),
    ),
    ("INVALID_AGENT_RESPONSE", "INTERNAL", lambda w: w.send(say(skill="break"), metadata=READY)),
    (
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
        "FAILED_PRECONDITION",
        lambda w: every_call(w, metadata=READY)["GetExtendedAgentCard"](),
    ),
    ("EXTENSION_SUPPORT_REQUIRED", "FAILED_PRECONDITION", lambda w: w.send(say(), metadata=as_user("root"))),
    (
        "VERSION_NOT_SUPPORTED",
        "FAILED_PRECONDITION",
        lambda w: w.send(say(), metadata=(*READY, ("a2a-version", "0.9"))),
    ),
]


@pytest.mark.req("ERRS-01", "ERRS-03", "GRPC-04")
@pytest.mark.parametrize(("reason", "code", "scenario"), TABLE, ids=[reason for reason, _, _ in TABLE])
async def test_each_error_of_the_protocol_has_its_code_and_its_reason(
    reason: str, code: str, scenario: Scenario
) -> None:
    async with serving(cast().agent, authenticator=ByHeader()) as world:
        got, text, details = await status_of(scenario(world))

    assert got.name == code
    assert text
    (info,) = details
    assert isinstance(info, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain) == (reason, "a2a-protocol.org")


# -- validation


@pytest.mark.req("ERRS-05", "GEN-04", "GEN-05", "SEND-02", "SEND-03")
async def test_every_fault_of_a_message_is_named() -> None:
    wrong = pb.SendMessageRequest(
        message=pb.Message(role=pb.ROLE_AGENT, parts=[pb.Part(text="fine"), pb.Part()], task_id="a\tb"),
        configuration=pb.SendMessageConfiguration(history_length=-1, accepted_output_modes=["nonsense"]),
    )
    async with serving(Stage().agent) as world:
        for attempt in (world.send(wrong), world.stream(wrong)):
            code, text, details = await status_of(attempt)
            bad, info = details
            assert isinstance(bad, error_details_pb2.BadRequest)
            assert info == error_details_pb2.ErrorInfo(reason="INVALID_PARAMS", domain="a2a-protocol.org")
            faults = {fault.field: fault.description for fault in bad.field_violations}
            assert set(faults) == {
                "message.message_id",
                "message.role",
                "message.parts[1]",
                "message.task_id",
                "configuration.history_length",
            }
            assert "text, raw, url, data" in faults["message.parts[1]"]
            assert (code.name, text) == ("INVALID_ARGUMENT", "5 fields of the request are wrong.")


@pytest.mark.req("ERRS-05", "GEN-04")
async def test_one_fault_is_told_in_the_text_as_well() -> None:
    async with serving(Stage().agent) as world:
        _, text, _ = await status_of(world.send(pb.SendMessageRequest()))
    assert text == "message: is required"


@pytest.mark.req("ERRS-05", "LIMT-01")
async def test_endless_faults_fit_into_the_trailers() -> None:
    wrong = say(parts=[pb.Part()] * 1000, references=["x" * 300] * 100)
    async with serving(Stage().agent) as world:
        code, text, (bad, _) = await status_of(world.send(wrong))
    assert isinstance(bad, error_details_pb2.BadRequest)
    told = len(bad.field_violations)
    assert 10 < told < 100
    text_of_them = f"1100 fields of the request are wrong. The first {told} are listed."
    assert (code.name, text) == ("INVALID_ARGUMENT", text_of_them)


@pytest.mark.req("ERRS-07")
@pytest.mark.parametrize("rpc", ["SendMessage", "GetTask", "ListTasks", "CancelTask"])
@pytest.mark.only_through("grpc", why="is about bytes on gRPC's wire")
async def test_bytes_that_are_no_request_are_the_clients_fault(rpc: str) -> None:
    async with serving(Stage().agent) as world:
        call: Any = world.channel.unary_unary(f"/lf.a2a.v1.A2AService/{rpc}")
        code, text, _ = await status_of(call(b"\xff\xff\xff\xff"))
    assert code.name == "INVALID_ARGUMENT"
    assert text.startswith("The request is not a well-formed lf.a2a.v1.")


# -- failures


class Failing(MemoryStore):
    """Raises what it is told to."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def load(self, scope: Scope, task_id: str) -> StoredTask | None:
        raise self.error

    async def commit(self, write: Write) -> bool:
        raise self.error


@pytest.mark.req("ERRS-06", "DURA-07")
async def test_what_may_work_later_is_told_apart_and_says_when() -> None:
    async with serving(Stage().agent, store=Failing(StoreUnavailable(SECRET))) as world:
        for attempt in (world.get("t"), world.send(say()), world.stream(say()), world.send(say(task_id="t"))):
            code, text, details = await status_of(attempt)
            assert (code.name, text) == ("UNAVAILABLE", "The store cannot serve now.")
            (retry,) = [detail for detail in details if isinstance(detail, error_details_pb2.RetryInfo)]
            assert retry.retry_delay.ToSeconds() == 1
            assert SECRET not in str(details)
        assert (await refused(world.stub.SendMessage(pb.SendMessageRequest()))).code.name == "INVALID_ARGUMENT"


@pytest.mark.req("ERRS-07", "SECR-03")
async def test_what_nobody_foresaw_is_internal_and_tells_nothing() -> None:
    async with serving(Stage().agent, store=Failing(RuntimeError(SECRET))) as world:
        for attempt in (world.get("t"), world.send(say()), world.stream(say())):
            code, text, (info,) = await status_of(attempt)
            assert (code.name, text) == ("INTERNAL", "Internal error.")
            assert isinstance(info, error_details_pb2.ErrorInfo)
            assert (info.reason, info.domain, list(info.metadata)) == ("INTERNAL", "a2a-server", ["incident"])


@pytest.mark.req("ERRS-07", "SEND-12")
async def test_an_agents_exception_stays_in_the_log() -> None:
    stage = Stage()

    @stage.agent.skill(id="crash", description="Raises.", tags=["test"])
    async def crash(turn: Turn) -> None:
        raise RuntimeError(SECRET)

    async with serving(stage.agent) as world:
        task = await world.send(say(skill="crash"))
    assert task.status.state == pb.TASK_STATE_FAILED
    assert not any(word in str(task) for word in [*SECRET.split(), "RuntimeError", "Traceback"])
