"""The client against our own server: the same calls over every binding, in both versions."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server import serving
from a2a_server.agents import Agent, Turn
from a2a_server.client import (
    AgentError,
    AuthenticationError,
    CallerCredentials,
    CredentialsMissingError,
    Reason,
    Remote,
    connect,
)

WAYS = [(binding, version) for version in ("1.0", "0.3") for binding in ("GRPC", "JSONRPC", "HTTP+JSON")]

agent = Agent(name="Parrot", description="Repeats.", version="1.0.0")


@agent.skill(id="say", tags=["test"])
async def say(turn: Turn) -> Any:
    if turn.text == "ask":
        await turn.ask("What then?")
        return None
    return list(turn.message.parts) if turn.text == "parts" else f"you said {turn.text}"


@asynccontextmanager
async def connected(binding: str, version: str, **more: Any) -> AsyncIterator[Remote]:
    async with (
        serving(agent) as server,
        connect(f"http://{server.http}", transports=[binding], version=version, **more) as remote,
    ):
        assert remote.interface.protocol_binding == binding
        assert remote.version == version
        yield remote


@pytest.mark.parametrize(("binding", "version"), WAYS)
async def test_a_send_is_answered(binding: str, version: str) -> None:
    async with connected(binding, version) as remote:
        answer = await remote.send("hello")
        assert answer.task.status.state == pb.TASK_STATE_COMPLETED
        assert answer.task.artifacts[0].parts[0].text == "you said hello"
        again = await remote.get_task(answer.task.id)
        assert again.artifacts == answer.task.artifacts


@pytest.mark.parametrize(("binding", "version"), WAYS)
async def test_events_of_a_stream_come_in_order(binding: str, version: str) -> None:
    async with connected(binding, version) as remote:
        stream = remote.stream("hello")
        kinds = [event.WhichOneof("payload") async for event in stream]
        assert kinds[0] == "task"
        assert kinds[-1] == "status_update"
        assert "artifact_update" in kinds


@pytest.mark.parametrize(("binding", "version"), WAYS)
async def test_an_error_has_the_reason_of_the_catalogue(binding: str, version: str) -> None:
    async with connected(binding, version) as remote:
        with pytest.raises(AgentError) as refused:
            await remote.get_task("nowhere")
        assert refused.value.reason is Reason.TASK_NOT_FOUND
        assert refused.value.name == "TaskNotFoundError"
        assert refused.value.code == {"GRPC": "NOT_FOUND", "JSONRPC": -32001, "HTTP+JSON": 404}[binding]


def digest(secret: str) -> str:
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()


@pytest.mark.req("CLI-44")
@pytest.mark.parametrize(("binding", "version"), WAYS)
async def test_credentials_are_shown_as_the_card_demands(binding: str, version: str) -> None:
    auth = {
        "tokens": [{"owner": "ann", "hash": digest("ann-token")}],
        "api_keys": [{"owner": "bob", "hash": digest("bob-key")}],
    }
    async with serving(agent, auth=auth) as server:
        ways: Any = {"transports": [binding], "version": version}
        for given in (CallerCredentials(bearer="ann-token"), CallerCredentials(api_key="bob-key")):
            async with connect(f"http://{server.http}", credentials=given, **ways) as remote:
                assert (await remote.send("hello")).task.artifacts[0].parts[0].text == "you said hello"
        wrong = CallerCredentials(bearer="guess")
        for shown, kind in ((None, CredentialsMissingError), (wrong, AuthenticationError)):
            async with connect(f"http://{server.http}", credentials=shown, **ways) as remote:
                with pytest.raises(kind) as refused:
                    await remote.send("hello")
                assert refused.value.reason is Reason.UNAUTHENTICATED


@pytest.mark.parametrize("binding", ["GRPC", "JSONRPC", "HTTP+JSON"])
async def test_a_stream_is_resumed_after_the_last_event(binding: str) -> None:
    async with (
        serving(agent, replay_extension=True) as server,
        connect(f"http://{server.http}", transports=[binding]) as remote,
    ):
        stream = remote.stream("hello")
        first = await anext(stream)
        seen, numbers = [first], [stream.number]
        async for event in stream:
            seen.append(event)
            numbers.append(stream.number)
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0
        rest = [event async for event in remote.subscribe(first.task.id, after=numbers[0])]
        assert rest == seen[1:]
