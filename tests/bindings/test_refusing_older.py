"""A skill's refusal as clients of 0.3 and of the draft see it (spec: AGNT-12, CONF-01, CONF-02, CONF-05)."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from a2a_proto import a2a_v0_3_pb2 as v03
from tests.bindings.test_refusing import Picky
from tests.support import door_draft, door_old, old
from tests.support.door_old import WHERE, Where
from tests.support.world import refused


class Row(NamedTuple):
    """What is said to the agent, and what clients are told: JSON-RPC puts the words of 0.3's schema in front."""

    text: str
    reason: str
    code: int
    before: str
    words: str
    status: int


UNSUPPORTED = Row(
    *("later", "UNSUPPORTED_OPERATION", -32004, "This operation is not supported: ", "I do not do that.", 400)
)
TYPE = Row("type", "CONTENT_TYPE_NOT_SUPPORTED", -32005, "Incompatible content types: ", "I read no TIFF.", 415)
FIELD = Row("parts", "INVALID_PARAMS", -32602, "Invalid parameters: ", "{parts}: must be one", 400)

pytestmark = [
    pytest.mark.parametrize("where", WHERE),
    pytest.mark.parametrize("row", [UNSUPPORTED, TYPE, FIELD], ids=lambda row: row.text),
]


@pytest.mark.req("AGNT-12", "CONF-01")
async def test_0_3(where: Where, row: Row) -> None:
    text, words = row.text, row.words.format(parts="message.parts")
    async with door_old.old_serving(Picky().agent, where) as (world, client):
        for configuration in (None, {"blocking": False}):
            fault = await client.fault("message/send", door_old.say(text, configuration=configuration))
            assert (fault["code"], fault["message"]) == (row.code, row.before + words)
        fault = await client.fault("message/stream", door_old.say(text))
        assert (fault["code"], fault["message"]) == (row.code, row.before + words)
        words = row.words.format(parts="request.content")
        for path in ("/v1/message:send", "/v1/message:stream"):
            error = await client.refused("POST", path, door_old.tell(text))
            assert (error["code"], error["message"]) == (row.status, row.words.format(parts="message.content"))
            assert error["details"][-1]["reason"] == row.reason
        for call in (world.old.SendMessage(old.tell(text)), world.old.SendStreamingMessage(old.tell(text)).read()):
            refusal = await refused(call)
            assert (refusal.reason, refusal.message.partition("Error: ")[2]) == (row.reason, words)
        asked = await old.send(world, old.tell("ask"))
        follow_up = await refused(world.old.SendMessage(old.tell(text, task_id=asked.id, message_id="m-2")))
        assert follow_up.reason == row.reason
        again = await world.old.GetTask(v03.GetTaskRequest(name=f"tasks/{asked.id}"))
        assert (again.status.state, len(again.history)) == (v03.TASK_STATE_INPUT_REQUIRED, len(asked.history))


@pytest.mark.req("AGNT-12", "CONF-02", "CONF-05")
async def test_the_draft(where: Where, row: Row) -> None:
    text, words = row.text, row.words.format(parts="message.parts")
    before = row.before if row is FIELD else ""
    async with door_draft.draft_serving(Picky().agent, where) as (_, client):
        for blocking in (True, False):
            fault = await client.fault("SendMessage", door_draft.say(text, blocking=blocking))
            assert (fault["code"], fault["message"], fault["data"]["reason"]) == (row.code, before + words, row.reason)
        fault = await client.fault("SendStreamingMessage", door_draft.say(text))
        assert (fault["code"], fault["message"]) == (row.code, before + words)
        for path in ("/v1/message:send", "/v1/message:stream"):
            problem = await client.refused("POST", path, door_draft.say(text))
            assert (problem["reason"], problem["detail"], problem["status"]) == (row.reason, words, row.status)
        assert (await client.call("ListTasks", {}))["totalSize"] == 0
