"""The official clients of 0.3, in processes of their own, do all they can (spec: DOOR-08, LRPC-01, LRES, LGRP-01).

What a client does before the SDK's own server shows that its program is right; the same is then asked of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.interop import seen
from tests.interop.older import CONTROLLED, CURRENT, NOWHERE, OLDER, SDK, TOKEN, TRANSPORTS, Speaker, Theatre
from tests.interop.remote import Client
from tests.interop.servers.stage import PLACE

PICTURE = {"bytes": "/wAB", "name": "dot.png", "mimeType": "image/png"}
ELSEWHERE = {"uri": "https://example.com/dot.png", "name": "dot.png", "mimeType": "image/png"}
DATA = {"a": [1, {"b": True}]}  # no null, which the JavaScript client can't send over gRPC
INPUT_REQUESTS = "urn:a2a-server:input-request:v1"
WIDE = ["text/plain", "application/json", "image/png"]
RAW = {("javascript-0.3", "HTTP+JSON"), ("javascript-0.3", "GRPC")}
"""Take bytes as they are for a file's, without its name (CONF-66)."""
HOOK = {"id": "hook", "url": NOWHERE, "token": "t-1"}


def before(server: str, speakers: Iterable[Speaker]) -> list[Any]:
    return [pytest.param(server, speaker, id=f"{speaker} before {server}") for speaker in speakers]


FAR = [speaker for speaker in OLDER if speaker.transport != "GRPC"]  # what a gateway has
OURS = [*before("ours", OLDER), *before("ours behind a gateway", FAR)]
SDKS = before(SDK, CONTROLLED)
before_all_servers = pytest.mark.parametrize(("server", "speaker"), OURS + SDKS)
before_ours = pytest.mark.parametrize(("server", "speaker"), OURS)
"""The SDK's server is not up to it."""


@pytest.fixture
def client(theatre: Theatre, server: str, speaker: Speaker) -> Client:
    return theatre.client(server, speaker)


@pytest.mark.req("DOOR-08", "LCRD-01", "LCRD-05")
@before_all_servers
def test_cards(client: Client, speaker: Speaker) -> None:
    card = client.call("card")
    assert card["name"] == "Stage"
    if speaker.program != "python-1.0":  # which makes it one of 1.0
        assert card["protocolVersion"].startswith("0.3.")
        doors = {door["transport"]: door["url"] for door in card["additionalInterfaces"]}
        assert set(doors) == set(TRANSPORTS)
        assert doors[card["preferredTransport"]] == card["url"]
    extended = client.call("extended_card")
    assert extended["description"] == "Plays any part. For friends, too."


@pytest.mark.req("LOLD-01", "LOLD-02")
@pytest.mark.parametrize("server", ["ours", SDK])
def test_cards_where_clients_of_0_2_look(theatre: Theatre, server: str) -> None:
    client = theatre.client(server, Speaker("python-0.3", "JSONRPC"))
    known = {"Authorization": f"Bearer {TOKEN}"}
    assert client.call("card_at", path="/.well-known/agent.json", headers={}) == client.call("card")
    extended = client.call("card_at", path="/agent/authenticatedExtendedCard", headers=known)
    assert extended["description"] == "Plays any part. For friends, too."


@pytest.mark.req("DOOR-08", "LRPC-01")
@before_all_servers
def test_send_and_wait(client: Client) -> None:
    task = client.send("hello", context="our-talk")
    assert (seen.state(task), seen.texts(task), task["contextId"]) == ("completed", ["hello"], "our-talk")


@pytest.mark.req("CONF-49", "DOOR-08")
@pytest.mark.parametrize("speaker", [*OLDER, *CURRENT], ids=str)
def test_none_is_led_to_the_draft(theatre: Theatre, speaker: Speaker) -> None:
    """The card lists it, too."""
    client = theatre.client("with the draft", speaker)
    task = client.send("hello")
    assert (seen.state(task), seen.texts(task)) == ("completed", ["hello"])


@pytest.mark.req("DOOR-08", "LRPC-01")
@before_all_servers
def test_a_direct_answer(client: Client) -> None:
    answer = client.send("hello", skill="chat")
    assert seen.parts(answer) == [("text", "you said hello")]
    assert seen.told(client.stream("hello", skill="chat")) == ["message"]


@pytest.mark.req("DOOR-08", "LRPC-01", "LRPC-05")
@before_all_servers
def test_stream(client: Client, speaker: Speaker) -> None:
    items = list(client.stream("one two three", skill="chunks"))
    assert seen.told(items) == ["task", "working", *["artifact-update"] * 3, "completed"]
    assert seen.chunks(items) == ["one", "two", "three"]
    if speaker.program != "python-1.0":  # has no word for it
        assert seen.finals(items) == [False, True]


@pytest.mark.req("DOOR-08", "LRPC-01", "LGRP-03")
@before_all_servers
def test_go_on_without_waiting_and_subscribe(client: Client, server: str) -> None:
    gate = str(uuid4())
    task = client.send(gate, skill="gate", wait=False)
    assert seen.state(task) in {"submitted", "working"}
    following = client.subscribe(task["id"])
    first = following.next()
    client.send(gate, skill="open")
    if server != SDK:  # the SDK's begins where it is, and may lose the end
        items = [first, *following]
        assert (seen.told(items)[0], seen.told(items)[-1]) == ("task", "completed")
        assert seen.chunks(items) == ["went", "through"]
        assert seen.texts(client.get(task["id"])) == ["went", "through"]
    else:
        assert seen.told([first]) == ["working"]


@pytest.mark.req("DOOR-08", "LRPC-01", "INTR-02")
@before_all_servers
def test_more_than_one_turn(client: Client, speaker: Speaker) -> None:
    asked = client.send("a car", skill="ask")
    assert (seen.state(asked), seen.parts(asked["status"]["message"])) == (
        "input-required",
        [("text", "What colour?")],
    )
    answered = client.send("red", skill="ask", task=asked["id"], context=asked["contextId"])
    assert (answered["id"], seen.state(answered), seen.texts(answered)) == (asked["id"], "completed", ["red it is"])
    said = [seen.parts(message) for message in client.get(asked["id"])["history"]]
    assert said == [[("text", "a car")], [("text", "What colour?")], [("text", "red")]]
    (last,) = client.get(asked["id"], history=1)["history"]
    assert seen.parts(last) == [("text", "red")]
    none = client.get(asked["id"], history=0).get("history", [])
    # 0 is all on gRPC; the SDK's server always means that.
    assert len(none) in ({0, 3} if speaker.transport != "GRPC" else {3})


TELLING = [speaker for speaker in OLDER if speaker.program == "python-0.3" and speaker.transport != "GRPC"]


@pytest.mark.req("XTRA-01", "XTRA-02", "LRPC-01")
@pytest.mark.parametrize("extension", [INPUT_REQUESTS, ""])
@pytest.mark.parametrize(("server", "speaker"), before("ours", TELLING) + before("ours behind a gateway", TELLING))
@pytest.mark.parametrize("streams", [False, True])
def test_an_input_request_is_answered_by_marked_data(
    theatre: Theatre, server: str, speaker: Speaker, extension: str, *, streams: bool
) -> None:
    client = theatre.client(server, speaker, extension=extension)
    asked = client.send(skill="door")
    request = asked["status"]["message"]["metadata"][INPUT_REQUESTS]["inputRequest"]
    assert (seen.state(asked), request["requestId"]) == ("input-required", "door")
    part = {
        "kind": "data",
        "data": {"toolUseId": "door", "result": "red"},
        "metadata": {INPUT_REQUESTS: {"partKind": "tool-result"}},
    }
    answer = {"skill": "door", "task": asked["id"], "context": asked["contextId"], "parts": [part]}
    if streams:
        assert seen.told(client.stream(**answer))[-1] == "completed"
    else:
        assert seen.state(client.send(**answer)) == "completed"
    done = client.get(asked["id"])
    assert (seen.texts(done), done["history"][-1]["parts"]) == (["the red one"], [part])


@pytest.mark.req("DOOR-08", "LRPC-01")
@before_all_servers
def test_files_and_data(client: Client, speaker: Speaker) -> None:
    if (speaker.program, speaker.transport) not in RAW:
        check_parts(client, "dot.png")


@pytest.mark.req("DOOR-08")
@pytest.mark.parametrize("transport", ["HTTP+JSON", "GRPC"])
def test_files_and_data_of_clients_that_want_bytes_as_they_are(theatre: Theatre, transport: str) -> None:
    check_parts(theatre.client("with raw files", Speaker("javascript-0.3", transport)), None)


def check_parts(client: Client, name: str | None) -> None:
    parts = [
        {"kind": "text", "text": "look"},
        {"kind": "data", "data": DATA},
        {"kind": "file", "file": PICTURE},
        {"kind": "file", "file": ELSEWHERE},
    ]
    (artifact,) = client.send(skill="mirror", parts=parts, accepts=WIDE)["artifacts"]
    assert artifact["name"] == "mirrored"
    assert seen.parts(artifact) == [
        ("text", "look"),
        ("data", DATA),
        ("file", name, "image/png", "/wAB"),
        ("file", name, "image/png", "https://example.com/dot.png"),
    ]


@pytest.mark.req("DOOR-08", "LRPC-01", "LRPC-05")
@before_ours
def test_cancel_and_who_watches_sees_it(client: Client) -> None:
    beginning = client.stream(str(uuid4()), skill="gate")
    _, task = seen.event(beginning.next())
    following = client.subscribe(task["id"])
    following.next()
    assert seen.state(client.cancel(task["id"])) == "canceled"
    for watching in (beginning, following):
        assert seen.told(watching)[-1] == "canceled"
    assert seen.state(client.get(task["id"])) == "canceled"


@pytest.mark.req("DOOR-08", "LRPC-01", "LRPC-06")
@before_all_servers
def test_push_configs(client: Client, server: str, speaker: Speaker) -> None:
    task = client.send(str(uuid4()), skill="gate", wait=False)["id"]
    made = client.call("set_push", task=task, config=HOOK)
    token = "****" if server != SDK else "t-1"
    assert {"hook", NOWHERE, token} <= set(_values(made))
    assert client.call("get_push", task=task, config="hook") == made
    inline = client.send(push={**HOOK, "id": "inline"})["id"]
    assert "inline" in _values(client.call("get_push", task=inline, config="inline"))
    if speaker.program == "python-0.3" or speaker == ("python-1.0", "HTTP+JSON", "0.3"):
        return  # which have no more
    if (server, speaker.transport) == (SDK, "GRPC"):
        return  # nor has that
    assert client.call("list_push", task=task) == [made]
    client.call("delete_push", task=task, config="hook")
    assert client.call("list_push", task=task) == []


def _values(config: Any) -> Iterator[Any]:
    """The members' values, nested as in 0.3 or not as in 1.0."""
    for value in config.values():
        yield from _values(value) if isinstance(value, dict) else [value]


@pytest.mark.req("DOOR-08", "LPSH-04")
@before_all_servers
@pytest.mark.parametrize("extension", [PLACE, ""])
def test_extensions(theatre: Theatre, server: str, speaker: Speaker, extension: str) -> None:
    client = theatre.client(server, speaker, extension=extension)
    assert seen.texts(client.send(skill="place")) == [extension or "none"]
