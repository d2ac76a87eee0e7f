"""What 1.0's core complains of, in the words of the version that was spoken (CONF-26, ERRS-05, LRPC-07, DRFT-02)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import pytest

from a2a_proto import a2a_v0_3_pb2 as v03
from tests.support import door_draft as draft
from tests.support import door_old as http
from tests.support import old as grpc
from tests.support.door_draft import BASE, WITH_DRAFT, DraftClient, draft_door
from tests.support.door_old import GATEWAYS, WHERE, OldClient, Where
from tests.support.door_upstream import Scripted, event, plays
from tests.support.doors import http_door
from tests.support.house import A2AError, Reason
from tests.support.stage import Stage
from tests.support.world import World, refused, serving

pytestmark = pytest.mark.only_through("grpc", why="the doors of each version are opened here")

CANCELED = {"jsonrpc": "canceled", "kind": "canceled", "proto": "TASK_STATE_CANCELLED", "draft": "cancelled"}
USER = {"jsonrpc": "user", "kind": "user", "proto": "ROLE_USER", "draft": "user"}
AGENT = {"jsonrpc": "agent", "kind": "agent", "proto": "ROLE_AGENT", "draft": "agent"}
SPELLINGS = pytest.mark.parametrize("spelling", CANCELED)


class Told(NamedTuple):
    """An error, whatever its shape."""

    message: str
    metadata: dict[str, Any]
    fields: dict[str, str]


class Doors(NamedTuple):
    """Clients of one server."""

    world: World
    older: OldClient
    draft: DraftClient

    async def send(self, spelling: str, **message: Any) -> Told:
        """A send that must be refused."""
        if spelling == "jsonrpc":
            return of_jsonrpc(await self.older.fault("message/send", http.say(**message)))
        if spelling == "draft":
            return of_problem(await self.draft.refused("POST", "/v1/message:send", draft.say(**message)))
        body = (http.say if spelling == "kind" else http.tell)(**message)
        return of_rest(await self.older.refused("POST", "/v1/message:send", body))

    async def cancel(self, spelling: str, task_id: str) -> Told:
        """A cancel that must be refused."""
        if spelling == "jsonrpc":
            return of_jsonrpc(await self.older.fault("tasks/cancel", {"id": task_id}))
        if spelling == "draft":
            return of_problem(await self.draft.refused("POST", f"/v1/tasks/{task_id}:cancel"))
        return of_rest(await self.older.refused("POST", f"/v1/tasks/{task_id}:cancel"))


def of_jsonrpc(error: Any) -> Told:
    return Told(error["message"], error["data"], _fields(error["data"].get("violations", ())))


def of_problem(problem: Any) -> Told:
    return Told(problem["detail"], problem, _fields(problem.get("violations", ())))


def of_rest(error: Any) -> Told:
    found = {detail["@type"].rpartition(".")[2]: detail for detail in error["details"]}
    return Told(
        error["message"],
        found["ErrorInfo"].get("metadata", {}),
        _fields(found.get("BadRequest", {}).get("fieldViolations", ())),
    )


def _fields(violations: Any) -> dict[str, str]:
    return {fault["field"]: fault["description"] for fault in violations}


@asynccontextmanager
async def doors(where: Where) -> AsyncIterator[Doors]:
    options: dict[str, Any] = {"through": GATEWAYS[where], "old_http": {}, "http_options": WITH_DRAFT}
    async with serving(Stage().agent, **options) as world, draft.session() as session:
        assert world.http is not None
        yield Doors(world, OldClient(session, world.http.base), DraftClient(session, world.http.base + BASE))


async def canceled(found: Doors) -> str:
    """A task that nobody can do anything with."""
    sent = http.say(skill="hold", configuration={"blocking": False})
    task_id = str((await found.older.call("message/send", sent))["id"])
    await found.older.call("tasks/cancel", {"id": task_id})
    return task_id


@pytest.mark.req("CONF-26", "ERRS-05", "CANC-03")
@pytest.mark.parametrize("where", WHERE)
@SPELLINGS
async def test_states_are_told_in_the_words_of_the_version(where: Where, spelling: str) -> None:
    state = CANCELED[spelling]
    async with doors(where) as found:
        task_id = await canceled(found)
        over = await found.send(spelling, taskId=task_id)
        assert f"The task is {state} and takes no further messages." in over.message
        assert over.metadata["state"] == state
        if spelling != "kind":  # a request without a body has no spelling
            assert f"The task is {state}; nothing is left" in (await found.cancel(spelling, task_id)).message


@pytest.mark.req("CONF-26", "ERRS-05")
@pytest.mark.parametrize("where", WHERE)
@SPELLINGS
async def test_so_are_roles_and_the_contents_of_parts(where: Where, spelling: str) -> None:
    list_of_parts = "content" if spelling == "proto" else "parts"
    async with doors(where) as found:
        told = await found.send(spelling, role=AGENT[spelling], **{list_of_parts: [{}]})
        expected = {
            "message.role": f"must be {USER[spelling]}: only the agent speaks as {AGENT[spelling]}",
            f"message.{list_of_parts}[0]": "must hold exactly one of text, file, data",
        }
        assert told.fields == expected
        nobody = await found.send(spelling, role=None)
        said = f"is required; allowed are {USER[spelling]}, {AGENT[spelling]}"
        assert (nobody.fields, said in nobody.message) == ({"message.role": said}, True)


@pytest.mark.req("CONF-26", "LGRP-01", "ERRS-05")
async def test_grpc_of_0_3_has_its_own_words() -> None:
    async with serving(Stage().agent) as world:
        task = await grpc.send(world, grpc.tell(skill="hold", configuration={"blocking": False}))
        name = v03.CancelTaskRequest(name=f"tasks/{task.id}")
        await world.old.CancelTask(name)
        over = await refused(world.old.SendMessage(grpc.tell(task_id=task.id)))
        assert over.metadata["state"] == "TASK_STATE_CANCELLED"
        assert "The task is TASK_STATE_CANCELLED and takes no further messages." in over.message
        again = await refused(world.old.CancelTask(name))
        assert again.message == "TaskNotCancelableError: The task is TASK_STATE_CANCELLED; nothing is left to cancel."
        empty = await refused(world.old.SendMessage(grpc.tell(content=[v03.Part()])))
        assert empty.fields == {"request.content[0]": "must hold exactly one of text, file, data"}


@pytest.mark.req("CONF-26", "ERRS-05")
async def test_an_error_that_ends_a_stream_is_told_alike() -> None:
    text = "The task is TASK_STATE_CANCELED."
    error = A2AError(Reason.UNSUPPORTED_OPERATION, text, metadata={"state": "TASK_STATE_CANCELED", "taskId": "t"})
    upstream = Scripted(script=plays([event(1)], error))
    async with http_door(upstream, old=True) as door, aiohttp.ClientSession() as session:
        client = OldClient(session, door.base)
        *_, last = await client.stream("message/stream", http.say())
        assert of_jsonrpc(last.data).metadata["state"] == "canceled"
        *_, last = await client.watch("POST", "/v1/message:stream", http.tell())
        assert of_rest(last.data["error"]).message == "The task is TASK_STATE_CANCELLED."
    async with draft_door(upstream) as client_of_draft:
        *_, last = await client_of_draft.watch("POST", "/v1/message:stream", draft.say())
        assert of_problem(last.data).message == "The task is cancelled."
