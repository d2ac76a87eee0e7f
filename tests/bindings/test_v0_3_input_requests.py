"""Input requests on 0.3: in their original shape over JSON, as on 1.0 over gRPC (spec: XTRA)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.agents import INPUT_REQUESTS
from a2a_server.ports.store import Store
from tests.bindings.actors import COMPLETED, INPUT
from tests.support import old
from tests.support.door_old import WHERE, OldClient, Where, old_serving, say, texts
from tests.support.guard import Guard, asked
from tests.support.house import REDACTED, SqliteStore
from tests.support.world import World, serving
from tests.support.world import say as new_say

pytestmark = pytest.mark.only_through("grpc", why="the doors of 0.3 are opened here")

SECRET = "s3cr3t-0f-th3-d0or"
URI = INPUT_REQUESTS.uri
EXTRAS = {"x_a2a_extensions": "urn:a2a-server:input-request-members:v1"}


def result(request_id: str, value: Any) -> dict[str, Any]:
    return {"kind": "tool-result", "toolUseId": request_id, "result": value}


async def asks(client: OldClient, skill: str) -> Any:
    task = await client.call("message/send", say(skill=skill), **EXTRAS)
    assert task["status"]["state"] == "input-required"
    return task


@pytest.mark.req("XTRA-01", "XTRA-02")
@pytest.mark.parametrize("where", WHERE)
async def test_a_question_and_its_answer_keep_their_shape(where: Where) -> None:
    guard = Guard()
    async with old_serving(guard.agent, where) as (_, client):
        task = await asks(client, "open")
        question = task["status"]["message"]
        request = {"kind": "input-request", "prompt": "Which door?", "sensitive": False, "requestId": "door"}
        assert question["inputRequest"] == request
        assert question["parts"] == [{"kind": "text", "text": "Which door?"}]
        assert not {"metadata", "extensions"} & question.keys()

        done = await client.call("message/send", say(taskId=task["id"], parts=[result("door", {"n": [1]})]))
        assert done["status"]["state"] == "completed"
        assert done["history"][-1]["parts"] == [result("door", {"n": [1]})]
        assert done["history"][1]["inputRequest"] == request
    assert guard.turns[1].answer == {"n": [1]}


@pytest.mark.req("XTRA-02", "ERRS-05")
@pytest.mark.parametrize("where", WHERE)
async def test_a_result_for_something_else_is_refused(where: Where) -> None:
    async with old_serving(Guard().agent, where) as (_, client):
        task = await asks(client, "open")
        error = await client.fault("message/send", say(taskId=task["id"], parts=[result("window", 1)]))
        assert error["code"] == -32602
        told = {
            "field": "message.parts[0]",
            "description": "is the result for 'window', but the task asks for 'door'",
        }
        assert error["data"]["violations"] == [told]
        assert await client.call("tasks/get", {"id": task["id"]}, **EXTRAS) == task


@pytest.mark.req("XTRA-03")
@pytest.mark.parametrize("where", WHERE)
async def test_an_answer_that_names_its_task_by_reference(where: Where) -> None:
    async with old_serving(Guard().agent, where, answer_by_reference=True) as (_, client):
        task = await asks(client, "open")
        answer = say(referenceTaskIds=[task["id"]], parts=[result("door", "red")])
        done = await client.call("message/send", answer)
        assert (done["id"], done["status"]["state"], texts(done)) == (task["id"], "completed", ["The red one."])


@pytest.mark.req("XTRA-04")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("words", [False, True])
async def test_a_sensitive_answer_is_not_told_to_either_version(where: Where, tmp_path: Path, *, words: bool) -> None:
    guard, store = Guard(), SqliteStore(tmp_path / "a2a.db")
    async with old_serving(guard.agent, where, store=store) as (world, client):
        task = await asks(client, "secret")
        request_id = task["status"]["message"]["inputRequest"]["requestId"]
        part = {"kind": "text", "text": SECRET} if words else result(request_id, SECRET)
        answer = say(taskId=task["id"], parts=[part], metadata={"hint": SECRET})
        told: list[Any] = [event.data for event in await client.stream("message/stream", answer, **EXTRAS)]
        told.append(done := await client.call("tasks/get", {"id": task["id"]}, **EXTRAS))
        told += [await client.told("GET", "/v1/tasks"), await client.told("GET", f"/v1/tasks/{task['id']}")]
        redacted = {"kind": "text", "text": REDACTED} if words else result(request_id, REDACTED)
        assert done["history"][-1]["parts"] == [redacted]
        assert SECRET not in json.dumps(told)
        assert SECRET not in str(await world.get(task["id"]))
        assert guard.turns[1].answer == SECRET
    assert SECRET.encode() not in contents(tmp_path)


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.req("XTRA-04", "XTRA-02")
async def test_over_grpc_they_travel_as_on_1_0(store: Store, tmp_path: Path) -> None:
    guard = Guard()
    async with serving(guard.agent, store=store) as world:
        task = await old.send(world, old.tell(skill="secret"))
        question = task.status.update
        assert list(question.extensions) == [URI]
        request_id = question.metadata.fields[URI].struct_value.fields["inputRequest"].struct_value["requestId"]
        part = v03.Part(data=v03.DataPart(), metadata={URI: {"partKind": "tool-result"}})
        part.data.data.update({"toolUseId": request_id, "result": SECRET})
        items = await old.stream(world, old.tell(task_id=task.id, content=[part]))
        assert guard.turns[1].answer == SECRET
        assert SECRET not in repr(items) + repr(await old.get(world, task.id)) + repr(await world.get(task.id))
    assert SECRET.encode() not in contents(tmp_path)


@pytest.mark.req("XTRA-02", "LMAP-01")
async def test_what_one_version_asks_is_answered_on_the_other(store: Store) -> None:
    async with serving(Guard().agent, store=store) as world:
        assert await answered_on_0_3(world) == await answered_on_1_0(world) == ["The red one."]


async def answered_on_0_3(world: World) -> list[str]:
    task = await world.send(new_say(skill="open"))
    assert (task.status.state, asked(task).request_id) == (INPUT, "door")
    return old.texts(await old.send(world, old.tell("red", task_id=task.id)))


async def answered_on_1_0(world: World) -> list[str]:
    task = await old.send(world, old.tell(skill="open"))
    done: pb.Task = await world.send(new_say("red", task_id=task.id))
    assert done.status.state == COMPLETED
    return [part.text for artifact in done.artifacts for part in artifact.parts]
