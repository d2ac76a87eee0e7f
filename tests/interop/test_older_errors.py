"""What the official clients of 0.3 make of our errors: each its own class, number or status (spec: DOOR-08, LRPC-07).

What a client has no class for, it tells by the number of JSON-RPC or the status of HTTP and gRPC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.interop.older import NOWHERE, OLDER, Speaker, Theatre
from tests.interop.remote import Client, Refused

pytestmark = pytest.mark.parametrize("speaker", OLDER, ids=str)

Scenario = Callable[[Client], Any]


class Fault(NamedTuple):
    """An error by all its names; its class is that of the SDK for Python."""

    kind: str
    code: int
    http: int
    grpc: str


NOT_FOUND = Fault("TaskNotFoundError", -32001, 404, "NOT_FOUND")
NOT_CANCELABLE = Fault("TaskNotCancelableError", -32002, 409, "FAILED_PRECONDITION")
NO_PUSH = Fault("PushNotificationNotSupportedError", -32003, 400, "UNIMPLEMENTED")
UNSUPPORTED = Fault("UnsupportedOperationError", -32004, 400, "UNIMPLEMENTED")
WRONG_TYPE = Fault("ContentTypeNotSupportedError", -32005, 415, "INVALID_ARGUMENT")
WRONG = Fault("InvalidParamsError", -32602, 400, "INVALID_ARGUMENT")

UNAUTHENTICATED = re.compile(r"\b401\b|UNAUTHENTICATED|\(Code: -32050\)|^None GRPC error for \w+! 16 ")
IN_TEXT = re.compile(r"^GRPC error for \w+! \d+ (\w+Error): |\(Code: (-32\d{3})\)")
PICTURE = {"kind": "file", "file": {"bytes": "AA==", "mimeType": "image/png"}}
HOOK = {"id": "hook", "url": NOWHERE}


def finished(client: Client) -> str:
    return str(client.send()["id"])


def get_config(client: Client) -> Any:
    task = client.send(str(uuid4()), skill="gate", wait=False)["id"]
    return client.call("get_push", task=task, config="nope")


def watch_nothing(client: Client) -> Any:
    return list(client.subscribe("nope"))


UNARY: list[tuple[str, Fault, Scenario]] = [
    ("get what is not there", NOT_FOUND, lambda client: client.get("nope")),
    ("cancel what is not there", NOT_FOUND, lambda client: client.cancel("nope")),
    ("send to what is not there", NOT_FOUND, lambda client: client.send(task="nope")),
    ("configure what is not there", NOT_FOUND, lambda client: client.call("set_push", task="nope", config=HOOK)),
    ("get a config that is not there", NOT_FOUND, get_config),
    ("cancel what is over", NOT_CANCELABLE, lambda client: client.cancel(finished(client))),
    ("send to what is over", UNSUPPORTED, lambda client: client.send(task=finished(client))),
    ("send what the agent does not take", WRONG_TYPE, lambda client: client.send(parts=[PICTURE])),
    ("ask for a skill that is none", WRONG, lambda client: client.send(skill="nope")),
    ("send nothing", WRONG, lambda client: client.send(parts=[])),
]  # fmt: skip
STREAMS: list[tuple[str, Fault, Scenario]] = [
    ("stream to what is not there", NOT_FOUND, lambda client: list(client.stream(task="nope"))),
    ("watch what is not there", NOT_FOUND, watch_nothing),
    ("stream to what is over", UNSUPPORTED, lambda client: list(client.stream(task=finished(client)))),
    ("ask for a skill that is none", WRONG, lambda client: list(client.stream(skill="nope"))),
]


def evidence(refused: Refused, speaker: Speaker) -> object:
    """By what the user of a client can tell one error from another; in JavaScript it may stand in the text alone."""
    match speaker.program, speaker.transport:
        case "python-0.3", "JSONRPC":
            return refused.type, refused.code
        case "python-0.3", _:
            return refused.type, refused.status
        case "javascript-0.3", _ if found := IN_TEXT.search(refused.message):
            return found[1] or int(found[2])
    return refused.type.replace("JSONRPC", "")


def expected(fault: Fault, speaker: Speaker, evident: object) -> object:
    match speaker.program, speaker.transport:
        case "python-0.3", "JSONRPC":
            return "A2AClientJSONRPCError", fault.code
        case "python-0.3", "HTTP+JSON":
            return "A2AClientHTTPError", fault.http
        case "python-0.3", _:
            return "AioRpcError", fault.grpc
    return fault.code if isinstance(evident, int) else fault.kind


def refusal(client: Client, scenario: Scenario) -> Refused:
    with pytest.raises(Refused) as raised:
        scenario(client)
    assert raised.value.message
    return raised.value


def check(refused: Refused, speaker: Speaker, fault: Fault) -> None:
    found = evidence(refused, speaker)
    assert found == expected(fault, speaker, found), refused


@pytest.mark.req("DOOR-08", "LRPC-07", "LRES-09", "GEN-02")
@pytest.mark.parametrize(("fault", "scenario"), [pytest.param(*row[1:], id=row[0]) for row in UNARY])
def test_errors_are_known_for_what_they_are(
    theatre: Theatre, speaker: Speaker, fault: Fault, scenario: Scenario
) -> None:
    check(refusal(theatre.client("ours", speaker), scenario), speaker, fault)


@pytest.mark.req("DOOR-08", "LRPC-07", "LRES-09", "STRM-07")
@pytest.mark.parametrize(("fault", "scenario"), [pytest.param(*row[1:], id=row[0]) for row in STREAMS])
def test_so_are_those_of_streams(theatre: Theatre, speaker: Speaker, fault: Fault, scenario: Scenario) -> None:
    found = refusal(theatre.client("ours", speaker), scenario)
    if speaker[:2] == ("python-0.3", "HTTP+JSON") and scenario is watch_nothing:
        assert "got 'application/json'" in found.message  # it looks at no status when it resubscribes
    else:
        check(found, speaker, fault)


@pytest.mark.req("DOOR-08", "LPSH-05")
def test_push_that_is_not_supported(theatre: Theatre, speaker: Speaker) -> None:
    client = theatre.client("without push", speaker)
    task = finished(client)
    check(refusal(client, lambda client: client.call("set_push", task=task, config=HOOK)), speaker, NO_PUSH)
    check(refusal(client, lambda client: client.call("get_push", task=task, config="hook")), speaker, NO_PUSH)
    if speaker.program != "javascript-0.3":
        return
    # Without looking at the card first, as it does for all others.
    check(refusal(client, lambda client: client.call("delete_push", task=task, config="hook")), speaker, NO_PUSH)


@pytest.mark.req("DOOR-08", "LRES-09")
@pytest.mark.parametrize("token", ["wrong", ""])
def test_credentials_that_are_wrong(theatre: Theatre, speaker: Speaker, token: str) -> None:
    client = theatre.client("ours", speaker, token=token)
    for scenario in (lambda client: client.get("t"), lambda client: client.send(), lambda client: [*client.stream()]):
        found = refusal(client, scenario)
        assert UNAUTHENTICATED.search(f"{found.status} {found.message}"), found
