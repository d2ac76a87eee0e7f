"""Streams of 0.3 over JSON-RPC and REST: frames, ids, `final`, what ends them and what does not (LRPC-05, LRES-04)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from a2a_server.agents import Agent, Turn
from a2a_server.ports.agent import Outlet, TurnRequest
from tests.bindings.actors import COMPLETED, INPUT, Actor, Gate, asking, at_rest, chunk, echo, remembers, status
from tests.support.door_events import Event, loads
from tests.support.door_old import WHERE, OldClient, Where, checked, kinds, old_serving, request, say, tell
from tests.support.stage import Stage
from tests.support.world import ByHeader

Stream = Callable[..., Awaitable[list[Event]]]
FORMS = ("jsonrpc", "kind", "proto")
"""JSON-RPC, and REST in both its spellings."""

pytestmark = pytest.mark.parametrize("where", WHERE)


def message(client: OldClient, form: str, text: str = "hello", **members: Any) -> Awaitable[list[Event]]:
    """Send, and read the stream to its end."""
    if form == "jsonrpc":
        return client.stream("message/stream", say(text, **members))
    return client.watch("POST", "/v1/message:stream", (say if form == "kind" else tell)(text, **members))


@pytest.mark.req("LRPC-01", "LRPC-02", "LRPC-03", "LRPC-05", "LRPC-08", "SSEV-01", "RPLY-01")
async def test_events_are_bare_numbered_and_the_last_one_is_final(where: Where) -> None:
    async with old_serving(echo(), where) as (_, client):
        found = await message(client, "jsonrpc")
    assert kinds(found) == ["task", "working", "artifact-update", "completed!"]
    assert [event.number for event in found] == [1, 2, 3, 4]
    assert all(next(iter(event.data)) == "kind" for event in found)
    task, working, artifact, last = (event.data for event in found)
    assert working["final"] is False
    own = {"taskId": task["id"], "contextId": task["contextId"]}
    assert artifact == {
        "kind": "artifact-update",
        **own,
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "hello"}]},
        "lastChunk": True,
    }
    assert last == {
        "kind": "status-update",
        "final": True,
        **own,
        "status": {"state": "completed", "timestamp": last["status"]["timestamp"]},
    }


@pytest.mark.req("LRES-04", "LRES-05", "LRPC-05")
@pytest.mark.parametrize("form", ["kind", "proto"])
async def test_rest_wraps_each_event_in_its_member(form: str, where: Where) -> None:
    async with old_serving(echo(), where) as (_, client):
        found = await message(client, form)
    assert [[*event.data] for event in found] == [["task"], ["statusUpdate"], ["artifactUpdate"], ["statusUpdate"]]
    assert [event.number for event in found] == [1, 2, 3, 4]
    task, _, artifact, last = (next(iter(event.data.values())) for event in found)
    part = {"kind": "text", "text": "hello"} if form == "kind" else {"text": "hello"}
    assert artifact["artifact"]["parts"] == [part]
    assert last["final"] is True
    assert last["status"]["state"] == ("completed" if form == "kind" else "TASK_STATE_COMPLETED")
    assert task["history"][0]["parts" if form == "kind" else "content"] == [part]
    assert [next(iter(one.items())) for one in (task, artifact, last)] == (
        [("kind", "task"), ("kind", "artifact-update"), ("kind", "status-update")]
        if form == "kind"
        else [("id", task["id"]), ("taskId", task["id"]), ("final", True)]
    )


@pytest.mark.req("LRPC-05", "STRM-05")
@pytest.mark.parametrize("form", FORMS)
async def test_a_question_is_final_because_the_stream_ends_with_it(form: str, where: Where) -> None:
    async with old_serving(asking(), where) as (_, client):
        first = await message(client, form)
        assert kinds(first)[-1] == "input-required!"
        data = next(iter(first[0].data.values())) if form != "jsonrpc" else first[0].data
        second = await message(client, form, "red", taskId=data["id"])
        assert kinds(second)[-1] == "completed!"
    for found in (first, second):
        assert sum(kind.endswith("!") for kind in kinds(found)) == 1


@pytest.mark.req("LRPC-05", "INTR-06")
@pytest.mark.parametrize("form", FORMS)
async def test_a_question_is_not_final_where_streams_stay_open(form: str, where: Where) -> None:
    async with old_serving(asking(), where, keep_open_on_input=True) as (world, client):
        reading = asyncio.ensure_future(message(client, form))
        task_id = await the_only_task(client, "input-required")
        await client.call("message/send", say("red", taskId=task_id))
        assert kinds(await reading)[-3:] == ["input-required", "working", "completed!"]
        await at_rest(world)


@pytest.mark.req("LRPC-05", "SEND-13")
@pytest.mark.parametrize("form", FORMS)
async def test_a_question_is_not_final_while_a_message_waits_for_its_turn(form: str, where: Where) -> None:
    """The stream goes on with that message; a gateway elsewhere must not guess otherwise."""
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if not gate.opened.is_set():
            await gate.wait()
            outlet.emit(status(INPUT, "Which colour?"))
        else:
            outlet.emit(status(COMPLETED))

    async with old_serving(Actor(act), where) as (world, client):
        task = await client.call("message/send", {**say(), "configuration": {"blocking": False}})
        await gate.reached.wait()
        reading = asyncio.ensure_future(message(client, form, "red", taskId=task["id"]))
        await remembers(world, task["id"], 2)
        gate.open()
        found = kinds(await reading)
        assert found[-3:] == ["input-required", "working", "completed!"]
        assert sum(kind.endswith("!") for kind in found) == 1


async def the_only_task(client: OldClient, state: str) -> str:
    """Its id, once it has come that far."""
    async with asyncio.timeout(30):
        while True:
            for task in await client.told("GET", "/v1/tasks"):
                known = await client.call("tasks/get", {"id": task["id"]})
                if known["status"]["state"] == state:
                    return str(known["id"])
            await asyncio.sleep(0.001)


@pytest.mark.req("LRPC-05", "INTR-06")
@pytest.mark.parametrize("in_band", [True, False])
async def test_a_wish_for_credentials_is_final_if_they_come_in_the_next_message(in_band: bool, where: Where) -> None:  # noqa: FBT001 - a parameter
    agent, gate = Agent(name="Doorman", description="Wants a token.", version="1.0.0"), asyncio.Event()

    @agent.skill(id="enter", tags=["test"])
    async def enter(turn: Turn) -> str | None:
        """Let in who has a token."""
        if turn.number == 1:
            await turn.require_auth("Who are you?", in_band=in_band)
            if in_band:
                return None
            await gate.wait()
            await turn.status("Thank you.")
        return "in"

    async with old_serving(agent, where) as (world, client):
        reading = asyncio.ensure_future(message(client, "jsonrpc"))
        task_id = await the_only_task(client, "auth-required")
        gate.set()
        if in_band:
            assert kinds(await reading)[-1] == "auth-required!"
            assert kinds(await message(client, "jsonrpc", "token", taskId=task_id))[-1] == "completed!"
        else:
            seen = kinds(await reading)
            assert "auth-required" in seen
            assert seen[-1] == "completed!"
        await at_rest(world)


@pytest.mark.req("LRPC-05")
async def test_each_reader_sees_the_same_end_wherever_it_has_begun(where: Where) -> None:
    """The batch that ends a stream is shared, and so are its bytes; with several forms at once as well."""
    stage = Stage()
    async with old_serving(stage.agent, where) as (world, client):
        task = await client.call("message/send", say("on", skill="hold", configuration={"blocking": False}))
        path = f"/v1/tasks/{task['id']}:subscribe"
        await stage.began()
        readers = [
            asyncio.ensure_future(reading)
            for reading in (
                client.stream("tasks/resubscribe", {"id": task["id"]}),
                client.watch("GET", path),
                client.watch("POST", path, {}),
                client.stream("tasks/resubscribe", {"id": task["id"]}),
            )
        ]
        await world_has_readers(world, len(readers))
        stage.release.set()
        seen = await asyncio.gather(*readers)
        await at_rest(world)
    for found in seen:
        assert kinds(found)[-2:] in (["artifact-update", "completed!"], ["artifactUpdate", "completed!"])
        assert [kind for kind in kinds(found) if kind.endswith("!")] == ["completed!"]


async def world_has_readers(world: Any, count: int) -> None:
    async with asyncio.timeout(30):
        while world.http.streams.count < count:  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.001)
        while world.pipeline.streams.count < count:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.001)


@pytest.mark.req("LRPC-01", "RPLY-02", "RPLY-03")
@pytest.mark.parametrize("by", ["header", "parameter"])
async def test_a_reader_goes_on_behind_the_last_event_it_has_seen(by: str, where: Where) -> None:
    async with old_serving(echo(), where) as (_, client):
        whole = await message(client, "jsonrpc")
        params = {"id": whole[0].data["id"]}
        path = f"/v1/tasks/{params['id']}:subscribe"
        if by == "header":
            rest = await client.stream("tasks/resubscribe", params, last_event_id="1")
            wrapped = await client.watch("GET", path, last_event_id="1")
        else:
            wrapped = await client.watch("GET", f"{path}?lastEventId=1")
            rest = whole[1:]
    assert rest == whole[1:]
    assert [event.number for event in wrapped] == [2, 3, 4]
    assert kinds(wrapped) == ["working", "artifactUpdate", "completed!"]


@pytest.mark.req("LRPC-05", "STRM-07")
async def test_a_finished_task_is_not_subscribed_to(where: Where) -> None:
    """CONF-13: what 0.3's gRPC does is nothing that its text says of ongoing tasks."""
    async with old_serving(echo(), where) as (_, client):
        task = await client.call("message/send", say())
        error = await client.fault(
            "tasks/resubscribe", {"id": task["id"]}, accept="text/event-stream, application/json"
        )
        assert error["code"] == -32004
        assert error["message"].startswith("This operation is not supported: ")
        for verb in ("GET", "POST"):
            refused = await client.refused(verb, f"/v1/tasks/{task['id']}:subscribe")
            assert (refused["code"], refused["status"]) == (400, "UNIMPLEMENTED")


@pytest.mark.req("LRPC-07", "DOOR-08")
async def test_a_client_that_reads_nothing_but_streams_is_refused_in_one(where: Where) -> None:
    """As the official clients of 0.3, which look at no other answer unless it has a status of HTTP's own."""
    async with old_serving(echo(), where, authenticator=ByHeader()) as (_, client):
        for method, params, code, accept in (
            ("tasks/resubscribe", {"id": "nope"}, -32001, ["text/event-stream"]),
            ("message/stream", {"message": {"kind": "task"}}, -32602, ["*/*", "text/event-stream"]),
        ):
            headers = [("x-user", "ann"), *(("Accept", kind) for kind in accept)]
            answer = await client.session.post(f"{client.base}/", json=request(method, params), headers=headers)
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
            frame = (await answer.text()).removeprefix("data: ")
            assert frame.endswith("}\n\n")
            told = loads(frame.encode())
            assert list(told) == ["jsonrpc", "id", "error"]
            assert checked(told["error"])["code"] == code
            plain = await client.fault(method, params, x_user="ann")
            assert plain == told["error"]
        strange = {"jsonrpc": "2.0", "id": 1, "method": "tasks/nope"}
        assert (await client.post(strange, accept="text/event-stream")).json["error"]["code"] == -32601


@pytest.mark.req("LRPC-05", "LRPC-07", "STRM-07")
async def test_what_breaks_a_stream_is_told_in_its_last_frame(where: Where) -> None:
    stage = Stage()
    async with old_serving(stage.agent, where) as (world, client):
        task = await client.call("message/send", say("on", skill="hold", configuration={"blocking": False}))
        await stage.began()
        async with (
            client.streaming("tasks/resubscribe", {"id": task["id"]}) as reading,
            client.watching("GET", f"/v1/tasks/{task['id']}:subscribe") as watching,
        ):
            assert kinds([await anext(reading), await anext(watching)]) == ["task", "task"]
            world.pipeline.streams.end_all()
            *_, last = [event async for event in reading]
            *_, wrapped = [event async for event in watching]
        stage.release.set()
    assert (last.name, wrapped.name) == ("error", "error")
    assert last.data["code"] == -32603
    assert last.data["data"]["reason"] == "UNAVAILABLE"
    info = wrapped.data["error"]["details"][0]
    assert (info["reason"], info["metadata"]["jsonrpcCode"]) == ("UNAVAILABLE", "-32603")


@pytest.mark.req("DOOR-11", "LRES-04")
async def test_lines_are_there_for_those_who_ask(where: Where) -> None:
    async with old_serving(echo(), where) as (_, client):
        url = f"{client.base}/v1/message:stream"
        accept = {"Accept": "application/x-ndjson"}
        async with client.session.post(url, json=tell(), headers=accept) as response:
            assert response.headers["Content-Type"] == "application/x-ndjson"
            lines = [line async for line in response.content]
    assert len(lines) == 4
    assert lines[-1].startswith(b'{"result":{"statusUpdate":{"final":true,')


@pytest.mark.req("LPSH-05")
async def test_without_the_capability_there_are_no_streams(where: Where) -> None:
    async def act(request: Any, outlet: Any) -> None:
        outlet.emit(chunk("x"))
        outlet.emit(status(COMPLETED))

    async with old_serving(Actor(act, streaming=False), where) as (_, client):
        task = await client.call("message/send", say())
        for method, params in (("message/stream", say()), ("tasks/resubscribe", {"id": task["id"]})):
            error = await client.fault(method, params)
            assert (error["code"], error["data"]["reason"]) == (-32004, "UNSUPPORTED_OPERATION")
        for verb, path, body in (
            ("POST", "/v1/message:stream", tell()),
            ("GET", f"/v1/tasks/{task['id']}:subscribe", ...),
        ):
            refused = await client.refused(verb, path, body)
            assert refused["details"][0]["metadata"]["jsonrpcCode"] == "-32004"
