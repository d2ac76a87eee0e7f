"""The agent that is served to the public test kit does what the kit's message ids ask for (docs/conformance.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.processes import serving

pytestmark = pytest.mark.long

AGENT = str(Path(__file__).parent / "servers" / "tck.py")
DATA = {"data": {"key": "value", "count": 42}}
FILE = {"raw": "dGNr", "filename": "output.txt", "mediaType": "text/plain"}
LINK = {"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"}
STATES = [
    ("complete-task", "COMPLETED", "Hello from TCK"),
    ("delayed-complete", "COMPLETED", "Done after delay"),
    ("input-required", "INPUT_REQUIRED", "More, please."),
    ("reject-task", "REJECTED", "rejected"),
    ("stream-002", "COMPLETED", None),
]
ARTIFACTS = [
    ("artifact-text", [{"text": "Generated text content"}]),
    ("artifact-file-url", [LINK]),
    ("artifact-file", [FILE]),
    ("artifact-data", [DATA]),
    ("stream-artifact-chunked", [{"text": "chunk-1 "}, {"text": "chunk-2"}]),
]


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("tck")
    with (
        serving(AGENT, "--store", "memory:", cwd=folder) as server,
        httpx.Client(base_url=server.http, headers={"A2A-Version": "1.0"}) as client,
    ):
        yield client


def sent(kit: httpx.Client, wanted: str) -> Any:
    message = {"role": "ROLE_USER", "messageId": f"tck-{wanted}-1f2e3d4c", "parts": [{"text": "Hello from TCK"}]}
    return kit.post("/message:send", json={"message": message}).raise_for_status().json()


@pytest.mark.parametrize(("wanted", "state", "text"), STATES)
def test_states(kit: httpx.Client, wanted: str, state: str, text: str | None) -> None:
    status = sent(kit, wanted)["task"]["status"]
    assert status["state"] == f"TASK_STATE_{state}"
    assert [part["text"] for part in status.get("message", {}).get("parts", [])] == ([text] if text else [])


@pytest.mark.parametrize(("wanted", "parts"), ARTIFACTS)
def test_artifacts(kit: httpx.Client, wanted: str, parts: list[Any]) -> None:
    task = sent(kit, wanted)["task"]
    (artifact,) = task["artifacts"]
    assert (task["status"]["state"], artifact["parts"]) == ("TASK_STATE_COMPLETED", parts)


def test_a_message_instead_of_a_task(kit: httpx.Client) -> None:
    assert sent(kit, "message-response")["message"]["parts"] == [{"text": "Direct message response"}]
