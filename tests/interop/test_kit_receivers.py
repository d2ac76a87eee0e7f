"""Webhooks before receivers in which other projects' own code reads them, each in an environment of its own (HOOK).

A receiver is told what to do (kits/hook.py). It answers 400 to what the foreign code cannot read, so that one misread
webhook would be seen as such. docs/conformance.md lists the receivers.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest
from joserfc.jwk import ECKey

from tests.e2e.processes import Running, serving
from tests.interop.environments import installed, python, python_0_3
from tests.interop.older import STAGE
from tests.interop.remote import Answer, Client, Program, running

TOKEN = "t0k3n"
RAW = base64.b64encode(b"\x00\xff\n").decode()
DATA = {"table": [1, 2.5, {"deep": None}], "no": False}
PROGRAMS: Mapping[str, Callable[[], Sequence[str]]] = {
    "adk": partial(installed, "adk", "kits.hook"),
    "fasta2a": partial(installed, "fasta2a", "kits.hook"),
    "fasta2a-0.6": partial(installed, "fasta2a-0.6", "kits.hook"),
    "javascript-1.3": partial(installed, "sdk-js-1.3", "hook.mjs"),
    "python-0.3": partial(python_0_3, "tests.interop.kits.hook"),
    "python-1.0": partial(python, "tests.interop.kits.hook"),
    "python-1.0.0": partial(installed, "sdk-1.0.0", "kits.hook"),
}
AT_HAND = {"python-0.3", "python-1.0"}
"""In environments that `make test` has."""


class Kit(NamedTuple):
    program: str
    version: str
    judge: str

    def __str__(self) -> str:
        return f"{self.program} for {self.version}"


SDKS = [
    Kit("python-1.0", "1.0", "sdk_1_0"),
    Kit("python-0.3", "0.3", "sdk_0_3"),
    Kit("python-1.0.0", "1.0", "sdk_1_0"),
    Kit("fasta2a-0.6", "0.3", "fasta2a_0_6"),
    Kit("javascript-1.3", "1.0", "1.0"),
    Kit("javascript-1.3", "0.3", "0.3"),
]
ADK = Kit("adk", "1.0", "adk")


def each(*kits: Kit) -> list[Any]:
    long = pytest.mark.long
    return [pytest.param(kit, id=str(kit), marks=() if kit.program in AT_HAND else long) for kit in kits]


class Hook(NamedTuple):
    """A receiver that listens, and the server that calls it."""

    server: Running
    version: str
    url: str
    arrivals: Answer

    def send(self, skill: str, *parts: Mapping[str, Any], token: str = TOKEN) -> str:
        """Send a message whose task the receiver hears of; returns the task's id."""
        message = {"messageId": f"m-{skill}", "parts": parts}
        config = {"url": self.url, "token": token}
        if self.version == "1.0":
            request: dict[str, Any] = {"message": {**message, "role": "ROLE_USER"}}
            request |= {"configuration": {"taskPushNotificationConfig": config}, "metadata": {"skill": skill}}
            return str(posted(f"{self.server.http}/message:send", request, "1.0")["task"]["id"])
        params: dict[str, Any] = {"message": {**message, "role": "user", "kind": "message"}}
        params |= {"configuration": {"blocking": True, "pushNotificationConfig": config}, "metadata": {"skill": skill}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
        return str(posted(self.server.http, call, "0.3")["result"]["id"])

    def hears(self, last: str) -> list[dict[str, Any]]:
        """What the receiver is told until it learns that the task is in this state."""
        told = [self.arrivals.next()]
        while told[-1].get("state") != last:
            told.append(self.arrivals.next())
        return told

    def text(self, text: str) -> dict[str, Any]:
        return {"text": text} if self.version == "1.0" else {"kind": "text", "text": text}


def posted(url: str, body: Mapping[str, Any], version: str) -> Any:
    headers = {"Content-Type": "application/json", "A2A-Version": version}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as answer:  # noqa: S310 - our own server
        return json.load(answer)


Meet = Callable[..., Hook]


@pytest.fixture(scope="module")
def meet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meet]:
    """Have a receiver listen; the server and programs start with the first one, and stay."""
    folder = tmp_path_factory.mktemp("receivers")
    folder.joinpath("key.pem").write_bytes(ECKey.generate_key("P-256").as_pem(private=True))
    settings = {"ALLOW_LOOPBACK": "true", "RETRY_FIRST": "0.01", "SIGNING_KEYS": "file:key.pem"}
    with ExitStack() as stack:

        @cache
        def server() -> Running:
            variables = {f"A2A_PUSH__{name}": value for name, value in settings.items()}
            return stack.enter_context(serving(STAGE, "--store", "memory:", cwd=folder, **variables))

        @cache
        def program(name: str) -> Program:
            return stack.enter_context(running(PROGRAMS[name]()))

        def listening(kit: Kit, **details: str) -> Hook:
            client = Client.connect(program(kit.program), "", "", judge=kit.judge)
            if "jwks" in details:
                details["jwks"] = f"{server().http}{details['jwks']}"
            url = client.call("listen", token=TOKEN, **details)
            return Hook(server(), kit.version, url, client.tell("received"))

        yield listening


def accepted(told: Sequence[Mapping[str, Any]], task_id: str) -> None:
    """Each webhook came once and in order, and was read."""
    assert [one["status"] for one in told] == [204] * len(told), told
    assert [one["number"] for one in told] == list(range(1, len(told) + 1))
    assert {one["task"] for one in told} == {task_id}


def said(hook: Hook, told: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """The parts of all artifacts. 1.0 sends each piece, 0.3 the whole task each time."""
    return [part for one in told for part in one["parts"]] if hook.version == "1.0" else told[-1]["parts"]


@pytest.mark.req("HOOK-01", "HOOK-02", "LPSH-01")
@pytest.mark.parametrize("kit", each(*SDKS, ADK))
def test_a_task_is_followed_to_its_end(meet: Meet, kit: Kit) -> None:
    hook = meet(kit)
    task_id = hook.send("chunks", hook.text("one two three"))
    told = hook.hears("completed")
    accepted(told, task_id)
    assert "".join(text for kind, text in said(hook, told) if kind == "text") == "onetwothree"


@pytest.mark.req("HOOK-01", "LPSH-01")
@pytest.mark.parametrize("kit", each(*SDKS, ADK))
def test_a_question_arrives(meet: Meet, kit: Kit) -> None:
    hook = meet(kit)
    task_id = hook.send("ask", hook.text("a car"))
    told = hook.hears("input-required")
    accepted(told, task_id)
    assert "What colour?" in told[-1]["asked"]


@pytest.mark.req("HOOK-01", "LPSH-01")
@pytest.mark.parametrize("kit", each(*SDKS))
def test_data_and_files_arrive(meet: Meet, kit: Kit) -> None:
    hook = meet(kit)
    new = [{"data": DATA}, {"raw": RAW, "mediaType": "text/csv", "filename": "t.csv"}]
    old = [{"kind": "data", "data": DATA}, {"kind": "file", "file": {"bytes": RAW, "mimeType": "text/csv"}}]
    task_id = hook.send("mirror", hook.text("see"), *(new if kit.version == "1.0" else old))
    told = hook.hears("completed")
    accepted(told, task_id)
    assert said(hook, told) == [["text", "see"], ["data", DATA], ["file", RAW]]


@pytest.mark.req("HOOK-03")
@pytest.mark.parametrize("kit", each(*SDKS[:2], SDKS[-1]))
def test_a_token_that_is_not_theirs_is_noticed(meet: Meet, kit: Kit) -> None:
    hook = meet(kit)
    hook.send("echo", hook.text("hello"), token="another")
    assert [hook.arrivals.next()["status"] for _ in range(4)] == [401] * 4  # tried again, not skipped


@pytest.mark.req("PAID-05")
@pytest.mark.parametrize("kit", each(*SDKS[-2:]))
def test_signatures_are_verified_with_the_published_keys(meet: Meet, kit: Kit) -> None:
    hook = meet(kit, jwks="/.well-known/jwks.json")
    task_id = hook.send("echo", hook.text("hello"))
    told = hook.hears("completed")
    accepted(told, task_id)
    assert {one["signed"] for one in told} == {task_id}


@pytest.mark.req("CONF-81")
@pytest.mark.parametrize("kit", each(Kit("fasta2a", "1.0", "fasta2a")))
def test_what_a_receiver_cannot_read_is_skipped(meet: Meet, kit: Kit) -> None:
    """fasta2a 2 knows the states of 0.3 only: it reads artifacts of 1.0, and neither tasks nor statuses."""
    hook = meet(kit)
    hook.send("echo", hook.text("hello"))
    told = [hook.arrivals.next() for _ in range(10)]
    assert [(one["number"], one["status"]) for one in told] == [
        *[(1, 400)] * 3,
        *[(2, 400)] * 3,
        (3, 204),
        *[(4, 400)] * 3,
    ]
    assert told[6]["parts"] == [["text", "hello"]]
