"""The commands of docs/http.md do what the guide says, against the demo agent behind a real port."""

import json
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from a2a_server.demo import agent
from a2a_server.serve import running
from a2a_server.settings import Settings

GUIDE = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")
COMMANDS = [block.replace("\\\n", " ") for block in re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)]
CURLS = [command for command in COMMANDS if command.startswith("curl ")]


class Curl:
    """Just enough of curl: the options that the guide uses."""

    def __init__(self, base: str) -> None:
        self.base = base

    async def __call__(self, command: str) -> tuple[int, str, str]:
        words = shlex.split(command)[1:]
        headers: dict[str, str] = {}
        body, url = None, ""
        while words:
            word = words.pop(0)
            if word == "--json":
                body = words.pop(0)
                headers |= {"Content-Type": "application/json", "Accept": "application/json"}
            elif word == "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            elif word not in ("-N", "-i"):
                url = word.replace("http://127.0.0.1:8080", self.base)
        verb = "POST" if body is not None else "GET"
        async with (
            aiohttp.ClientSession() as session,
            session.request(verb, url, data=body, headers=headers) as answer,
        ):
            return answer.status, answer.content_type, await answer.text()


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
