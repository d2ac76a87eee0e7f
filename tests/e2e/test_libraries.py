"""A graph of LangGraph in real processes: what one was asked, the next one answers (spec: AGNT-08)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import serving
from tests.support.curl import Curl, commands
from tests.unit.test_docs_libraries import file_of, said, texts

PAGE = "docs/langgraph.md"


def talk(base: str, command: str) -> Any:
    status, _, body = asyncio.run(Curl(base)(command))
    assert status == 200, body
    return json.loads(body)["task"]


@pytest.mark.req("AGNT-08")
def test_a_graph_goes_on_in_a_new_process_after_a_crash(tmp_path: Path) -> None:
    (tmp_path / "booking.py").write_text(file_of(PAGE))
    send, answer = commands(PAGE)
    with serving("booking.py:durable", cwd=tmp_path) as server:
        task = talk(server.http, send)
        assert said(task) == "For which day?"
        server.process.kill()
    with serving("booking.py:durable", cwd=tmp_path) as server:
        assert texts(talk(server.http, answer.replace("TASK", task["id"]))) == ["A table for Friday."]
