"""The commands of the guides do what they say, against the demo agent behind a real port."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from a2a_server.demo import agent
from a2a_server.serve import running
from a2a_server.settings import Settings
from tests.support.curl import Curl, commands

GUIDE = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")
CURLS = commands("docs/http.md")


@pytest.fixture
async def curl() -> AsyncIterator[Curl]:
    async with running(Settings(grpc="127.0.0.1:0", http="127.0.0.1:0", store="memory:"), agent) as server:
        yield Curl(f"http://{server.http}")


def events(text: str) -> list[tuple[int, Any]]:
    blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in text.strip().split("\n\n")]
    return [(int(block["id"]), json.loads(block["data"])) for block in blocks]


async def test_every_command_is_tried(curl: Curl) -> None:
    send, call, stream, again, missing = CURLS

    status, kind, text = await curl(send)
    assert (status, kind) == (200, "application/json")
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
