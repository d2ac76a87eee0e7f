"""Agents that call agents over the network: two servers of ours, the client between them, and what the operator set."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from a2a_proto import a2a_pb2 as pb
from a2a_server import serving
from a2a_server.agents import Agent, CallFailed, Turn
from a2a_server.client import CallerCredentials, Remote, connect
from tests.support.scripted_agent import CARD_PATH, interface, says, scripted

TRACE = f"00-{'1' * 32}-{'2' * 16}-01"
WAYS = [(binding, version) for version in ("1.0", "0.3") for binding in ("grpc", "jsonrpc", "rest")]


def sub_agent() -> tuple[Agent, dict[str, Any]]:
    seen: dict[str, Any] = {"cancelled": asyncio.Event(), "gate": asyncio.Event(), "turns": 0}
    agent = Agent(name="Sub", description="Does the work.", version="1")

    @agent.skill(id="work", tags=["test"])
    async def work(turn: Turn) -> Any:
        seen.update({"trace": turn.trace, "caller": turn.caller.owner, "message": turn.message})
        seen["turns"] += 1
        match turn.text:
            case "gate":
                await turn.status("waiting")
                await seen["gate"].wait()
                return "through the gate"
            case "ask":
                return await turn.ask("Which one?")
            case "auth":
                return await turn.require_auth("Who are you?", in_band=True)
            case "wait":
                await turn.status("waiting")
                try:
                    await asyncio.Event().wait()
                finally:
                    seen["cancelled"].set()
        return f"did {turn.text}"

    return agent, seen


def parent_agent(sub: str, **options: Any) -> Agent:
    agent = Agent(name="Parent", description="Has the work done.", version="1")

    @agent.skill(id="ask", tags=["test"])
    async def delegate(turn: Turn) -> str:
        try:
            return f"sub: {(await turn.call(sub, turn.text, **options)).text}"
        except CallFailed as error:
            return f"failed: {error}"

    return agent


@asynccontextmanager
async def pair(calls: dict[str, Any] | None = None, **sub: Any) -> AsyncIterator[tuple[Remote, Any]]:
    """A client before a parent that may call the sub-agent on this machine."""
    agent, seen = sub_agent()
    async with serving(agent, **sub) as below:
        settings = {"allow_loopback": True, **(calls or {})}
        async with (
            serving(parent_agent(f"http://{below.http}"), calls=settings) as above,
            connect(f"http://{above.http}", trace={"traceparent": TRACE}) as remote,
        ):
            yield remote, seen


def text_of(task: pb.Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


@pytest.mark.req("AGNT-03", "SUBA-01", "TRAC-01")
@pytest.mark.parametrize(("binding", "version"), WAYS)
async def test_a_call_over_every_binding(binding: str, version: str) -> None:
    async with pair({"transports": [binding], "versions": [version]}) as (remote, seen):
        task = (await remote.send("this")).task
        assert text_of(task) == "sub: did this"
        assert list(seen["message"].reference_task_ids) == [task.id]
        assert seen["trace"]["traceparent"].split("-")[1] == "1" * 32


@pytest.mark.req("SUBA-02", "SUBA-03")
@pytest.mark.parametrize(("binding", "version"), WAYS)
async def test_a_question_and_its_answer(binding: str, version: str) -> None:
    async with pair({"transports": [binding], "versions": [version]}) as (remote, _):
        for text, state in (("ask", pb.TASK_STATE_INPUT_REQUIRED), ("auth", pb.TASK_STATE_AUTH_REQUIRED)):
            asked = (await remote.send(text)).task
            assert asked.status.state == state
            assert len(asked.status.message.reference_task_ids) == 1
            answered = (await remote.send("mine", task_id=asked.id)).task
            assert answered.status.state == pb.TASK_STATE_COMPLETED
            assert text_of(answered) == "sub: did mine"


@pytest.mark.req("AGNT-03")
@pytest.mark.parametrize("binding", ["grpc", "jsonrpc", "rest"])
async def test_a_cancel_reaches_the_other_server(binding: str) -> None:
    async with pair({"transports": [binding]}) as (remote, seen):
        stream = remote.stream("wait")
        async for event in stream:
            if (
                event.status_update.status.message.parts
                and event.status_update.status.message.parts[0].text == "waiting"
            ):
                break
        canceled = await remote.cancel_task(event.status_update.task_id)
        assert canceled.status.state == pb.TASK_STATE_CANCELED
        await asyncio.wait_for(seen["cancelled"].wait(), 30)


@pytest.mark.req("SUBA-03")
async def test_an_answer_comes_back_after_a_restart(tmp_path: Path) -> None:
    agent, _ = sub_agent()
    async with serving(agent) as below:
        parent = parent_agent(f"http://{below.http}")
        settings = {"store": f"sqlite:///{tmp_path}/parent.db", "calls": {"allow_loopback": True}}
        async with serving(parent, **settings) as above, connect(f"http://{above.http}") as remote:
            asked = (await remote.send("ask")).task
        async with serving(parent, **settings) as above, connect(f"http://{above.http}") as remote:
            answered = (await remote.send("mine", task_id=asked.id)).task
    assert text_of(answered) == "sub: did mine"


@pytest.mark.req("AGNT-03")
async def test_a_turn_that_a_stop_interrupts_goes_on_with_the_same_task(tmp_path: Path) -> None:
    agent, seen = sub_agent()
    async with serving(agent) as below:
        parent = Agent(name="Parent", description="Does not give up.", version="1")

        @parent.skill(id="ask", tags=["test"], restartable=True)
        async def delegate(turn: Turn) -> str:
            return f"sub: {(await turn.call(f'http://{below.http}', turn.text)).text}"

        settings: dict[str, Any] = {
            "store": f"sqlite:///{tmp_path}/parent.db",
            "limits": {"drain_grace": 0.1},
            "calls": {"allow_loopback": True},
        }
        async with serving(parent, **settings) as above, connect(f"http://{above.http}") as remote:
            stream = remote.stream("gate")
            async for event in stream:
                if any(part.text == "waiting" for part in event.status_update.status.message.parts):
                    break
            task_id = event.status_update.task_id
        seen["gate"].set()
        async with serving(parent, **settings) as above, connect(f"http://{above.http}") as remote:
            states = [
                event.task.status.state or event.status_update.status.state
                async for event in remote.subscribe(task_id, after=0)
            ]
            task = await remote.get_task(task_id)
    assert states[-1] == pb.TASK_STATE_COMPLETED
    assert text_of(task) == "sub: through the gate"
    assert seen["turns"] == 1


@pytest.mark.req("AGNT-03")
async def test_a_call_whose_time_is_up_has_the_other_task_canceled() -> None:
    agent, seen = sub_agent()
    async with serving(agent) as below:
        settings: dict[str, Any] = {"calls": {"allow_loopback": True}}
        parent = parent_agent(f"http://{below.http}", timeout=1)
        async with serving(parent, **settings) as above, connect(f"http://{above.http}") as remote:
            assert "not answered within 1 seconds" in text_of((await remote.send("wait")).task)
            await asyncio.wait_for(seen["cancelled"].wait(), 30)


async def test_credentials_by_host_and_never_the_callers() -> None:
    token = {"owner": "parent", "hash": "sha256:" + hashlib.sha256(b"parent-token").hexdigest()}
    caller = {"owner": "ann", "hash": "sha256:" + hashlib.sha256(b"ann-token").hexdigest()}
    agent, seen = sub_agent()
    async with serving(agent, auth={"tokens": [token, caller]}) as below:
        for binding in ("grpc", "jsonrpc", "rest"):
            for shown, text in ((["127.0.0.1"], "sub: did this"), (["elsewhere.example"], "failed")):
                calls = {
                    "allow_loopback": True,
                    "transports": [binding],
                    "credentials": [{"hosts": shown, "bearer": "parent-token"}],
                }
                parent = parent_agent(f"http://{below.http}")
                async with serving(parent, calls=calls, auth={"tokens": [caller]}) as above:
                    given = CallerCredentials(bearer="ann-token")
                    async with connect(f"http://{above.http}", credentials=given) as remote:
                        assert text_of((await remote.send("this")).task).startswith(text)
        assert seen["caller"] == "parent"


@pytest.mark.req("SSRF-04")
async def test_calls_go_only_where_the_operator_allows() -> None:
    async with scripted() as inside:
        async with serving(parent_agent(inside.base)) as above, connect(f"http://{above.http}") as remote:
            assert "may not be called" in text_of((await remote.send("this")).task)
        calls = {"allow_loopback": True, "ports": ["1"]}
        async with serving(parent_agent(inside.base), calls=calls) as above, connect(f"http://{above.http}") as remote:
            assert "allowed port" in text_of((await remote.send("this")).task)
        assert not inside.asked
        inside.card["supportedInterfaces"][0]["url"] = "https://10.0.0.1/rest"
        calls = {"allow_loopback": True}
        async with serving(parent_agent(inside.base), calls=calls) as above, connect(f"http://{above.http}") as remote:
            assert "10.0.0.1 is a private one" in text_of((await remote.send("this")).task)


async def test_an_agent_without_streams_is_asked_again_until_it_is_done() -> None:
    async with scripted(capabilities={}) as slow:
        asked = 0

        async def answer(request: Any) -> Any:
            nonlocal asked
            asked += 1
            state = "TASK_STATE_COMPLETED" if asked > 1 else "TASK_STATE_WORKING"
            artifacts = [{"artifactId": "a", "parts": [{"text": "slowly"}]}] if asked > 1 else []
            return web.json_response({"id": "t1", "contextId": "c", "status": {"state": state}, "artifacts": artifacts})

        working = {"task": {"id": "t1", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}}
        slow.answers |= {"/rest/message:send": says(200, working), "/rest/tasks/t1": answer}
        calls = {"allow_loopback": True}
        async with serving(parent_agent(slow.base), calls=calls) as above, connect(f"http://{above.http}") as remote:
            task = (await remote.send("this")).task
        assert text_of(task) == "sub: slowly"
        sent = slow.calls[0].body
        assert sent["configuration"] == {"returnImmediately": True}
        assert sent["message"]["referenceTaskIds"] == [task.id]
        assert json.dumps(sent).count("messageId") == 1


async def test_an_agent_that_has_moved_is_found_again() -> None:
    agent, _ = sub_agent()
    calls = {"allow_loopback": True, "transports": ["grpc"]}
    async with scripted() as book:

        def tell(at: object) -> None:
            card = book.card | {"supportedInterfaces": [interface(str(at), "GRPC")]}
            book.answers[CARD_PATH] = says(200, card, **{"Cache-Control": "max-age=600"})

        async with serving(parent_agent(book.base), calls=calls) as above, connect(f"http://{above.http}") as remote:
            async with serving(agent) as below:
                tell(below.grpc)
                assert text_of((await remote.send("this")).task) == "sub: did this"
            assert text_of((await remote.send("this")).task) == f"failed: {book.base} cannot be reached."
            async with serving(agent) as below:
                tell(below.grpc)
                assert text_of((await remote.send("this")).task) == "sub: did this"


async def test_only_signed_agents() -> None:
    async with scripted() as unsigned:
        calls = {"allow_loopback": True, "signed": True}
        async with (
            serving(parent_agent(unsigned.base), calls=calls) as above,
            connect(f"http://{above.http}") as remote,
        ):
            assert "it has no signature" in text_of((await remote.send("this")).task)
        assert not unsigned.calls
