"""Programs that nobody here wrote, each in an environment of its own, before a server of which they know the URL only.

The SDKs are told each call (clients/told.py), agents of other frameworks only what a user would tell them: `card`, and
they tell the agent's description; `say`, and they tell text and state of the answer; `stream`, and they tell the pieces
as they come. docs/conformance.md lists what they want of a server.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from tests.e2e.processes import ROOT, serving
from tests.e2e.test_gateway import gateway
from tests.interop import seen
from tests.interop.environments import installed
from tests.interop.kits import install
from tests.interop.older import COMMANDS, CREDENTIAL, TRANSPORTS
from tests.interop.remote import Client, Program, Refused, running

pytestmark = pytest.mark.long

PARROT = str(Path(__file__).parent / "servers" / "parrot.py")
PLAIN, WITHOUT_GRPC, THEIRS = "as it is", "without gRPC on the card", "an agent in JavaScript behind a gateway"
WITH_DRAFT = "with the draft on the card"
SETTINGS: Mapping[str, Mapping[str, str]] = {
    PLAIN: {},
    WITHOUT_GRPC: {"A2A_CARD__DOORS": "jsonrpc,rest"},
    WITH_DRAFT: {"A2A_GATEWAY__PROFILES": "draft"},
}
CARD = {
    "name": "Parrot",
    "description": "Says it again.",
    "version": "1.2.3",
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "talk", "name": "Talk", "description": "Say it again.", "tags": ["test"]}],
}
CLOSED = {"A2A_AUTH__TOKENS": json.dumps([CREDENTIAL])}
PROGRAMS: Mapping[str, Callable[[], Sequence[str]]] = {
    **COMMANDS,
    "adk": partial(installed, "adk", "kits.adk"),
    "ag-ui": partial(installed, "ag-ui", "client.mjs"),
    "beeai": partial(installed, "beeai", "kits.beeai"),
    "fasta2a": partial(installed, "fasta2a", "kits.fasta2a"),
    "fasta2a-0.6": partial(installed, "fasta2a-0.6", "kits.fasta2a"),
    "javascript-1.3": partial(installed, "sdk-js-1.3", "client.mjs"),
    "litellm": partial(installed, "litellm", "kits.litellm"),
    "python-1.0.0": partial(installed, "sdk-1.0.0", "clients.sdk_1_0"),
    "strands": partial(installed, "strands", "kits.strands"),
}


class Kit(NamedTuple):
    """A program, and before which server it stands; SDKs by one of their transports."""

    program: str
    server: str = PLAIN
    transport: str = ""
    version: str = ""
    closed: bool = False
    """Whether the server asks for a token, which the program does not have."""

    def __str__(self) -> str:
        where = f"before {self.server}" if self.server == THEIRS else ""
        return " ".join(word for word in (self.program, self.transport, where) if word)


PACKAGES = {
    "adk": "google-adk",
    "ag-ui": "@ag-ui/a2a",
    "beeai": "beeai-framework",
    "fasta2a": "fasta2a",
    "fasta2a-0.6": "fasta2a",
    "litellm": "litellm",
    "sdk-1.0.0": "a2a-sdk",
    "sdk-js-1.3": "@a2a-js/sdk",
    "strands": "strands-agents",
}
"""What the page of them calls a program."""
FASTA2A = Kit("fasta2a-0.6")
"""Reads no cards, and has no streams."""
FRAMEWORKS = [Kit("adk", WITHOUT_GRPC), Kit("ag-ui"), Kit("beeai"), Kit("litellm"), Kit("strands")]
SDKS = [
    *(Kit("python-0.3", PLAIN, transport, "0.3") for transport in TRANSPORTS),
    *(Kit("javascript-0.3", PLAIN, transport, "0.3") for transport in TRANSPORTS),
    *(Kit("python-1.0.0", PLAIN, transport, "1.0") for transport in TRANSPORTS),
    *(Kit("python-1.0", PLAIN, transport, "1.0") for transport in TRANSPORTS),
    *(Kit("javascript-1.3", PLAIN, transport, "1.0") for transport in TRANSPORTS),
]
BEHIND = [
    Kit(program, THEIRS, transport, "1.0")
    for program in ("python-1.0", "javascript-1.3")
    for transport in ("JSONRPC", "HTTP+JSON")
]
MIXED = pytest.param(
    Kit("fasta2a", WITHOUT_GRPC),
    marks=pytest.mark.xfail(strict=True, reason="fasta2a 2 calls methods of 0.3, and wants answers in the form of 1.0"),
    id="fasta2a",
)


def each(*kits: Kit) -> list[Any]:
    return [pytest.param(kit, id=str(kit)) for kit in kits]


class Talk(Protocol):
    """A conversation, as its user sees it."""

    def card(self) -> str: ...

    def say(self, text: str) -> tuple[str, str]:
        """The text of the answer, and the task's state as 0.3 spells it."""
        ...

    def stream(self, text: str) -> list[str]: ...


class FrameworkTalk:
    def __init__(self, client: Client) -> None:
        self._client = client

    def card(self) -> str:
        return str(self._client.call("card"))

    def say(self, text: str) -> tuple[str, str]:
        answer = self._client.call("say", text=text)
        return answer["text"], seen.state({"status": answer})

    def stream(self, text: str) -> list[str]:
        return list(self._client.tell("stream", text=text))


class SdkTalk:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._last: dict[str, Any] = {}

    def card(self) -> str:
        return str(self._client.call("card")["description"])

    def say(self, text: str) -> tuple[str, str]:
        asked = seen.state(self._last) == "input-required" if self._last else False
        going_on = {"task": self._last["id"], "context": self._last["contextId"]} if asked else {}
        self._last = self._client.send(text, skill="talk", **going_on)
        said = seen.texts(self._last) or [part[1] for part in seen.parts(self._last["status"]["message"])]
        return "".join(said), seen.state(self._last)

    def stream(self, text: str) -> list[str]:
        return seen.chunks(self._client.stream(text, skill="talk"))


Meet = Callable[[Kit], Talk]


@contextmanager
def theirs(folder: Path) -> Iterator[str]:
    """An agent of the JavaScript SDK, which speaks gRPC only and does not tell its card there."""
    card = folder / "card.json"
    card.write_text(json.dumps(CARD))
    with subprocess.Popen(installed("sdk-js-1.3", "parrot.mjs"), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            with gateway("--upstream", address, cwd=folder, A2A_GATEWAY__CARD=str(card)) as door:
                yield door.url
        finally:
            process.kill()


@pytest.fixture(scope="module")
def meet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meet]:
    """Begin a conversation; servers and programs start with the first one, and stay."""
    folder = tmp_path_factory.mktemp("kits")
    with ExitStack() as stack:

        @cache
        def url(server: str, *, closed: bool) -> str:
            if server == THEIRS:
                return stack.enter_context(theirs(folder))
            settings = {**SETTINGS[server], **(CLOSED if closed else {})}
            return stack.enter_context(serving(PARROT, "--store", "memory:", cwd=folder, **settings)).http

        @cache
        def program(name: str) -> Program:
            return stack.enter_context(running(PROGRAMS[name]()))

        def begin(kit: Kit) -> Talk:
            server = url(kit.server, closed=kit.closed)
            client = Client.connect(program(kit.program), server, kit.transport, version=kit.version)
            return SdkTalk(client) if kit.transport else FrameworkTalk(client)

        yield begin


@pytest.mark.req("DOOR-15", "CONF-84")
@pytest.mark.parametrize("kit", each(*FRAMEWORKS, Kit("fasta2a", WITHOUT_GRPC), *SDKS, *BEHIND))
def test_the_card(meet: Meet, kit: Kit) -> None:
    assert "Says it again." in meet(kit).card()


def told(kit: Kit, text: str, state: str) -> tuple[str, str]:
    """What a program tells of an answer; AG-UI's has no word for states."""
    return text, state if kit.program != "ag-ui" else ""


@pytest.mark.parametrize("kit", [*each(*FRAMEWORKS, FASTA2A, *SDKS, *BEHIND), MIXED])
def test_an_answer(meet: Meet, kit: Kit) -> None:
    assert meet(kit).say("one two three") == told(kit, "one two three ", "completed")


@pytest.mark.parametrize("kit", [*each(*FRAMEWORKS, *SDKS, *BEHIND), MIXED])
def test_a_stream(meet: Meet, kit: Kit) -> None:
    pieces = meet(kit).stream("one two three")
    assert pieces == (["one ", "two ", "three "] if kit.program != "litellm" else ["one two three "])


@pytest.mark.parametrize("kit", [*each(*FRAMEWORKS, FASTA2A, *SDKS, *BEHIND), MIXED])
def test_a_question_and_its_answer(meet: Meet, kit: Kit) -> None:
    talk = meet(kit)
    assert talk.say("a car") == told(kit, "What colour?", "input-required")
    if kit.program not in {"ag-ui", "strands"}:  # which begin anew each time
        assert talk.say("red") == told(kit, "red it is", "completed")


@pytest.mark.parametrize("kit", [*each(*FRAMEWORKS, FASTA2A, *SDKS, *BEHIND), MIXED])
def test_a_task_that_fails(meet: Meet, kit: Kit) -> None:
    assert meet(kit).say("trouble") == told(kit, "Out of words.", "failed")


@pytest.mark.parametrize("kit", each(*FRAMEWORKS, FASTA2A, *SDKS))
def test_a_refusal_has_its_reason(meet: Meet, kit: Kit) -> None:
    with pytest.raises(Refused) as refused:
        meet(kit._replace(closed=True)).say("hello")
    if kit.program != "ag-ui":  # which reads the body of an error twice, and fails over that
        assert re.search(r"\b401\b|needs valid credentials", refused.value.message)


@pytest.mark.parametrize("kit", each(Kit("adk"), Kit("fasta2a")))
def test_who_wants_no_grpc_on_the_card(meet: Meet, kit: Kit) -> None:
    with pytest.raises(Refused):
        meet(kit).say("hello")


@pytest.mark.req("CONF-49")
@pytest.mark.parametrize("kit", each(*FRAMEWORKS[1:], *SDKS))
def test_nobody_is_led_to_the_draft(meet: Meet, kit: Kit) -> None:
    told_so = told(kit, "one two three ", "completed")
    assert meet(kit._replace(server=WITH_DRAFT)).say("one two three") == told_so


@pytest.mark.parametrize(("name", "package"), PACKAGES.items())
def test_the_documentation_names_the_versions(name: str, package: str) -> None:
    (version,) = re.findall(rf'^ *"?{package}"?(?:==|: ")([\w.]+)', install.pins(name).read_text("utf-8"), re.MULTILINE)
    assert f"| {version} |" in (ROOT / "docs" / "conformance.md").read_text("utf-8")
