"""Agents of Google ADK, served by naming them, in an environment where ADK is (spec: AGNT-08)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import ROOT, Running, environment, started
from tests.interop.environments import installed
from tests.support.curl import Curl

pytestmark = pytest.mark.long

AGENT = str(Path(__file__).parent / "kits" / "adk_agent.py")
PACKAGES = os.pathsep.join(str(ROOT / folder) for folder in ("", "gateway", "generated"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    python, *_ = installed("adk", "kits.adk")
    line = [python, "-W", "ignore", "-m", "a2a_server"]
    home = tmp_path_factory.mktemp("adk")
    with started(line, AGENT, "--store", "memory:", cwd=home, env=environment(PYTHONPATH=PACKAGES)) as server:
        yield server


def call(server: Running, path: str, body: dict[str, Any]) -> str:
    kind = "-H 'content-type: application/json'"
    status, _, answer = asyncio.run(Curl("")(f"curl {server.http}/{path} {kind} -d '{json.dumps(body)}'"))
    assert status == 200, answer
    return answer


def send(server: Running, *parts: dict[str, Any], now: bool = False, **members: str) -> Any:
    message = {"messageId": os.urandom(8).hex(), "role": "ROLE_USER", "parts": parts, **members}
    body = {"message": message, "configuration": {"returnImmediately": now}}
    return json.loads(call(server, "message:send", body))["task"]


def texts(task: Any) -> list[str]:
    return ["".join(part["text"] for part in artifact["parts"]) for artifact in task["artifacts"]]


@pytest.mark.req("AGNT-08")
def test_its_words_are_streamed_and_its_session_is_the_context(server: Running) -> None:
    assert "waiter 1.0.0" in server.welcome
    message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    stream = call(server, "message:stream", {"message": message})
    events = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]
    updates = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    assert [update["artifact"]["parts"][0]["text"] for update in updates] == ["hello ", "hello"]
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    context = events[0]["task"]["contextId"]
    assert texts(send(server, {"text": "again"}, contextId=context)) == ["hello hello again"]
    assert texts(send(server, {"text": "alone"})) == ["alone"]


@pytest.mark.req("AGNT-08")
def test_a_long_running_tool_is_a_question(server: Running) -> None:
    asked = send(server, {"text": "book"})
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    asks, *_ = asked["status"]["message"]["parts"]
    assert (asks["data"]["name"], asks["data"]["args"]) == ("approve", {"what": "a table"})
    answer = {"id": asks["data"]["id"], "name": "approve", "response": {"approved": "yes"}}
    part = {"data": answer, "metadata": {"adk_type": "function_response"}}
    done = send(server, part, taskId=asked["id"])
    assert (done["status"]["state"], texts(done)[-1]) == ("TASK_STATE_COMPLETED", "Booked: yes")


@pytest.mark.req("AGNT-08")
def test_a_cancel_stops_it(server: Running) -> None:
    task = send(server, {"text": "wait"}, now=True)
    canceled = json.loads(call(server, f"tasks/{task['id']}:cancel", {}))
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.req("AGNT-08")
def test_a_fault_tells_the_client_nothing(server: Running) -> None:
    task = send(server, {"text": "fail"})
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "secret" not in json.dumps(task)
