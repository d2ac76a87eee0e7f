"""The commands of the guides do what they say, against the demo agent behind a real port."""

import json
import re
import shlex
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict

from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_proto.a2a_v0_3_pb2_grpc import A2AServiceStub
from a2a_server.demo import agent
from a2a_server.serve import Server, running
from a2a_server.settings import Settings
from tests.support.curl import ROOT, Curl, commands

GUIDE = (ROOT / "docs/http.md").read_text("utf-8")
CURLS = commands("docs/http.md")
JSON = ("-H", "content-type: application/json")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with running(Settings(grpc="127.0.0.1:0", http="127.0.0.1:0", store="memory:"), agent) as server:
        yield server


@pytest.fixture
def curl(server: Server) -> Curl:
    return Curl(f"http://{server.http}")


def events(text: str) -> list[tuple[int, Any]]:
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.strip().split("\n\n")]
    return [(int(block["id"]), json.loads(block["data"])) for block in blocks]


async def test_every_command_is_tried(curl: Curl) -> None:
    send, call, stream, again, missing = CURLS

    status, kind, text = await curl(send)
    assert (status, kind) == (200, "application/a2a+json")
    task = json.loads(text)["task"]
    assert task["artifacts"][0]["parts"] == [{"text": "Hello!"}]

    status, kind, text = await curl(call)
    assert (status, kind) == (200, "application/json")
    answer = json.loads(text)
    assert (answer["id"], [listed["id"] for listed in answer["result"]["tasks"]]) == (1, [task["id"]])

    status, kind, text = await curl(stream)
    assert (status, kind) == (200, "text/event-stream")
    story = events(text)
    assert [number for number, _ in story] == list(range(1, len(story) + 1))
    assert story[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(story) > 5

    status, kind, text = await curl(again.replace("TASK", story[0][1]["task"]["id"]))
    assert (status, events(text)) == (200, story[3:])

    status, kind, text = await curl(missing)
    shown = re.search(r"^```json\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    assert shown is not None
    assert (status, json.loads(text)) == (404, json.loads(shown[1]))


async def test_the_readme_s_command_is_answered(curl: Curl) -> None:
    (send,) = commands("README.md")
    _, _, text = await curl(send)
    assert json.loads(text)["task"]["artifacts"][0]["parts"] == [{"text": "Hello!"}]


async def test_a_stream_goes_on_as_the_guide_to_replay_says(curl: Curl) -> None:
    _, _, stream, *_ = CURLS
    story = events((await curl(stream))[2])
    (again,) = commands("docs/replay.md")
    told = events((await curl(again.replace("TASK_ID", story[0][1]["task"]["id"])))[2])
    assert told == story[17:]
    assert told


async def test_clients_of_0_3_are_answered_as_their_guide_says(curl: Curl) -> None:
    call, send = commands("docs/protocol-0.3.md")
    _, _, text = await curl(call)
    assert json.loads(text)["result"]["status"]["state"] == "completed"
    _, _, text = await curl(send)
    assert json.loads(text)["task"]["artifacts"][0]["parts"] == [{"kind": "text", "text": "Hello!"}]


@pytest.mark.req("CONF-08")
async def test_sends_of_0_3_wait_where_their_guide_says_so(curl: Curl, server: Server) -> None:
    """Each cell of the table, with a skill that takes a while."""
    kind = {"kind": "message", "messageId": "1", "role": "user", "parts": [{"kind": "text", "text": "1"}]}
    proto = {"messageId": "1", "role": "ROLE_USER", "content": [{"text": "1"}]}
    skill = {"metadata": {"skill": "run"}}

    async def posted(path: str, body: Any) -> str:
        return (await curl(shlex.join(["curl", f"http://127.0.0.1:8080{path}", *JSON, "-d", json.dumps(body)])))[2]

    async def over_json(told: Any) -> bool:
        params = {"message": kind, **skill, **told}
        answers = [
            await posted("/", {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}),
            await posted("/v1/message:send", params),
        ]
        states = {re.search('"state":"([a-z]+)"', answer)[1] for answer in answers}  # type: ignore[index]
        assert len(states) == 1
        return states == {"completed"}

    async def over_proto_json(told: Any) -> bool:
        return "TASK_STATE_COMPLETED" in await posted("/v1/message:send", {"message": proto, **skill, **told})

    async def over_grpc(told: Any) -> bool:
        request = ParseDict({"request": proto, **skill, **told}, v03.SendMessageRequest())
        async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
            answer = await A2AServiceStub(channel).SendMessage(request)
        return bool(answer.task.status.state == v03.TASK_STATE_COMPLETED)

    page = (ROOT / "docs/protocol-0.3.md").read_text("utf-8")
    told = page.partition("| a send with |")[2].partition("\n\n")[0].splitlines()[2:]
    says = {"waits": True, "does not wait": False}
    asked: list[Any] = [{}, {"configuration": {"historyLength": 1}}]
    for row, request in zip(told, asked, strict=False):
        cells = [says[cell.strip()] for cell in row.split("|")[2:-1]]
        assert [await over_json(request), await over_proto_json(request), await over_grpc(request)] == cells
    for blocking in (True, False):
        request = {"configuration": {"blocking": blocking}}
        assert {await over_json(request), await over_proto_json(request), await over_grpc(request)} == {blocking}
