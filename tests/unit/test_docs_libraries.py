"""The guides for agents of other libraries: their files are served, and their commands get what the guides say."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from a2a_server.serve import running
from a2a_server.settings import Settings
from tests.support.curl import ROOT, Curl, commands
from tests.support.house import load_agent

Talk = Callable[[str], Coroutine[Any, Any, Any]]
Guide = Callable[[str, str], AbstractAsyncContextManager[Talk]]


def file_of(page: str) -> str:
    """The Python blocks of a page, which are one file."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return "\n".join(blocks)


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guide:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "guide", None)  # which is undone in the end, unlike the import

    @asynccontextmanager
    async def serving(page: str, name: str) -> AsyncIterator[Talk]:
        """Serve what the page's blocks define; the result runs a curl of the page."""
        (tmp_path / "guide.py").write_text(file_of(page))
        settings = Settings(grpc="127.0.0.1:0", http="127.0.0.1:0", store=f"sqlite:///{tmp_path}/a2a.db")
        async with running(settings, load_agent(f"guide.py{name}")) as server:
            curl = Curl(f"http://{server.http}")

            async def talk(command: str) -> Any:
                status, _, body = await curl(command)
                assert status == 200, body
                return json.loads(body)["task"]

            yield talk

    return serving


def said(task: Any) -> str:
    """The text of the question that a task waits with."""
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    text: str = task["status"]["message"]["parts"][0]["text"]
    return text


def texts(task: Any) -> list[str]:
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    return ["".join(part["text"] for part in artifact["parts"]) for artifact in task["artifacts"]]


@pytest.mark.req("AGNT-08")
async def test_the_graph_asks_and_books(guide: Guide) -> None:
    send, answer = commands("docs/langgraph.md")
    async with guide("docs/langgraph.md", "") as talk:
        task = await talk(send)
        assert said(task) == "For which day?"
        assert texts(await talk(answer.replace("TASK", task["id"]))) == ["A table for Friday."]


@pytest.mark.req("AGNT-08")
async def test_a_graph_with_a_durable_checkpointer_goes_on_in_another_server(guide: Guide) -> None:
    send, answer = commands("docs/langgraph.md")
    async with guide("docs/langgraph.md", ":durable") as talk:
        task = await talk(send)
        assert said(task) == "For which day?"
    async with guide("docs/langgraph.md", ":durable") as talk:
        assert texts(await talk(answer.replace("TASK", task["id"]))) == ["A table for Friday."]


@pytest.mark.req("AGNT-08")
async def test_the_tool_is_approved(guide: Guide) -> None:
    send, answer = commands("docs/pydantic-ai.md")
    async with guide("docs/pydantic-ai.md", "") as talk:
        task = await talk(send)
        assert said(task) == 'Approve delete({"path": "a"})?'
        (request,) = task["status"]["message"]["parts"][1]["data"]["requests"]
        assert {**request, "id": "pyd_ai_1"} == {
            "id": "pyd_ai_1",
            "kind": "approval",
            "tool": "delete",
            "args": {"path": "a"},
        }
        assert texts(await talk(answer.replace("TASK", task["id"]))) == ['{"delete":"a is gone"}']


async def test_a_skill_gives_an_agent_its_dependencies(guide: Guide, tmp_path: Path) -> None:
    async with guide("docs/pydantic-ai.md", ":bank") as talk:
        send, _ = commands("docs/pydantic-ai.md")
        assert texts(await talk(send)) == ['{"balance":"anonymous has 5 francs"}']
