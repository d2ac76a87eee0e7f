"""A program behind the real command: the guide's, one that fails, and one that is canceled (spec: AGNT-08)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import command, serving
from tests.support.curl import Curl, commands
from tests.unit.test_docs_libraries import file_of, texts

PAGE = "docs/programs.md"


def talk(base: str, curl: str) -> Any:
    status, _, body = asyncio.run(Curl(base)(curl))
    assert status == 200, body
    return json.loads(body)


@pytest.mark.req("AGNT-08")
def test_the_program_of_the_guide_shouts(tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text(file_of(PAGE))
    (send,) = commands(PAGE)
    with serving("--exec", "python3 shout.py", cwd=tmp_path) as server:
        assert "python3 1.0.0 (exec:python3 shout.py)" in server.welcome
        assert texts(talk(server.http, send)["task"]) == ["HELLO!\n"]


@pytest.mark.req("AGNT-08")
def test_why_a_program_failed_is_in_the_log_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "fail.sh").write_text("echo out of paper >&2; exit 3\n")
    (send,) = commands(PAGE)
    with serving("--exec", "sh fail.sh", cwd=tmp_path) as server:
        task = talk(server.http, send)["task"]
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert "paper" not in json.dumps(task)
        server.process.terminate()
        _, log = server.process.communicate(timeout=60)
    assert "ended with status 3" in log, log
    assert "out of paper" in log


@pytest.mark.req("AGNT-08", "CANC-01")
def test_a_program_is_canceled(tmp_path: Path) -> None:
    (tmp_path / "wait.sh").write_text("trap 'touch cleaned; exit' TERM\necho begun\nwhile :; do sleep 0.1; done\n")
    (send,) = commands(PAGE)
    with serving("--exec", "sh wait.sh", cwd=tmp_path) as server:
        now = send.replace('"message": {', '"configuration": {"returnImmediately": true}, "message": {')
        task = talk(server.http, now)["task"]
        stream = f"curl -N {server.http}/tasks/{task['id']}:cancel -d '{{}}' -H 'content-type: application/json'"
        assert talk(server.http, stream)["status"]["state"] == "TASK_STATE_CANCELED"


def test_two_agents_are_one_too_many(tmp_path: Path) -> None:
    done = command("serve", "agent.py", "--exec", "cat", cwd=tmp_path)
    assert (done.returncode, "give MODULE:AGENT or --exec, not both" in done.stderr) == (2, True)
    done = command("serve", "--exec", "nothing-there", cwd=tmp_path)
    assert done.returncode == 2
    assert "agent = 'exec:nothing-there': 'nothing-there' is no program that can be run" in done.stderr
