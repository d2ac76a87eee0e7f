"""A task begun by a client of one version is read, continued, watched and canceled by one of the other (LMAP-01).

Both are the official SDK's, each in a process of its own: 0.3.26, and 1.3.0 speaking 1.0.
"""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.interop import seen
from tests.interop.older import CURRENT, NOWHERE, OLDER, Speaker, Theatre
from tests.interop.remote import Client

PARTS = [
    {"kind": "text", "text": "look"},
    {"kind": "data", "data": {"deep": [{"a": None}]}},
    {"kind": "file", "file": {"bytes": "/wAB", "name": "dot.png", "mimeType": "image/png"}},
]
OLD = [speaker for speaker in OLDER if speaker.program == "python-0.3"]
PAIRS = [(old, new) for old in OLD for new in CURRENT]

pytestmark = [
    pytest.mark.req("LMAP-01", "DOOR-08", "GEN-02"),
    pytest.mark.parametrize(
        ("first", "second"),
        [pytest.param(*pair, id=f"{pair[0]}, then {pair[1]}") for pair in [*PAIRS, *((n, o) for o, n in PAIRS)]],
    ),
]


@pytest.fixture
def one(theatre: Theatre, first: Speaker) -> Client:
    """The client that begins."""
    return theatre.client("ours", first)


@pytest.fixture
def other(theatre: Theatre, second: Speaker) -> Client:
    return theatre.client("ours", second)


def test_read(one: Client, other: Client) -> None:
    made = one.send(skill="mirror", parts=PARTS, accepts=["text/plain", "application/json", "image/png"])
    read = other.get(made["id"])
    for task in (made, read):
        (artifact,) = task["artifacts"]
        assert seen.parts(artifact) == [
            ("text", "look"),
            ("data", {"deep": [{"a": None}]}),
            ("file", "dot.png", "image/png", "/wAB"),
        ]
        assert [seen.parts(message) for message in task["history"]] == [seen.parts(artifact)]
    assert (read["id"], read["contextId"], seen.state(read)) == (made["id"], made["contextId"], "completed")


def test_continued(one: Client, other: Client) -> None:
    asked = one.send("a car", skill="ask")
    answered = other.send("red", skill="ask", task=asked["id"], context=asked["contextId"])
    assert seen.state(answered) == "completed"
    again = one.send("a boat", context=answered["contextId"])
    assert again["contextId"] == asked["contextId"]
    for client in (one, other):
        found = client.get(asked["id"])
        assert seen.texts(found) == ["red it is"]
        assert [seen.parts(said)[0][1] for said in found["history"]] == ["a car", "What colour?", "red"]


def test_watched(one: Client, other: Client) -> None:
    gate = str(uuid4())
    beginning = one.stream(gate, skill="gate")
    _, task = seen.event(beginning.next())
    following = other.subscribe(task["id"])
    kind, known = seen.event(following.next())
    assert (kind, known["id"]) == ("task", task["id"])
    other.send(gate, skill="open")
    for stream in (beginning, following):
        items = list(stream)
        assert seen.chunks(items) == ["went", "through"]
        assert seen.told(items)[-1] == "completed"
    assert seen.texts(one.get(task["id"])) == seen.texts(other.get(task["id"])) == ["went", "through"]


def test_canceled(one: Client, other: Client) -> None:
    beginning = one.stream(str(uuid4()), skill="gate")
    _, task = seen.event(beginning.next())
    assert seen.state(other.cancel(task["id"])) == "canceled"
    assert seen.told(beginning)[-1] == "canceled"


def test_push_configs_are_the_same(one: Client, other: Client) -> None:
    task = one.send("a car", skill="ask")["id"]
    hook = {"id": "hook", "url": NOWHERE, "token": "t"}
    one.call("set_push", task=task, config=hook)
    found = other.call("get_push", task=task, config="hook")
    flat = {**found, **found.get("pushNotificationConfig", {})}
    assert (flat["taskId"], flat["id"], flat["url"]) == (task, "hook", NOWHERE)
