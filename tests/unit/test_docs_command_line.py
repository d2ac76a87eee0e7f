"""The commands of the guide to the command line work, one after another, against the demo agent."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from a2a_server.demo import agent
from a2a_server.serve import running
from a2a_server.settings import Settings
from tests.support.curl import ROOT

GUIDE = (ROOT / "docs/command-line.md").read_text("utf-8")
SHELL = re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


@pytest.mark.req("OPER-09")
async def test_every_block_runs(tmp_path: Path) -> None:
    program = tmp_path / "bin/a2ad"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m a2a_server "$@"\n')
    program.chmod(stat.S_IRWXU)
    async with running(Settings(grpc="127.0.0.1:0", http="127.0.0.1:0", store="memory:"), agent) as server:
        script = "set -e\n" + "\n".join(SHELL).replace("127.0.0.1:8080", str(server.http))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("A2A_", "A2ACLI_"))}
        paths = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
        process = await asyncio.create_subprocess_exec(
            "/bin/bash",
            "-c",
            script,
            cwd=tmp_path,
            env={**kept, **paths},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
    text = out.decode()
    assert process.returncode == 0, err.decode()
    assert "Artifact: Hello!\n" in text
    assert "Conforms: yes\n" in text
    assert '"state":"TASK_STATE_COMPLETED"' in text
    assert f"poll-interval: 500ms (file {tmp_path}/.env)\n" in text
    assert list((tmp_path / "results").iterdir())
