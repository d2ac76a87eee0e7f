"""The commands of the guide to the command line work, one after another, against the demo agent."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, environment, serving

GUIDE = (ROOT / "docs/command-line.md").read_text("utf-8")
SHELL = re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


@pytest.mark.req("OPER-09")
def test_every_block_runs(tmp_path: Path) -> None:
    program = tmp_path / "bin/a2ad"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m a2a_server "$@"\n')
    program.chmod(stat.S_IRWXU)
    paths = {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    with serving("--store", "memory:", cwd=tmp_path) as server:
        script = "set -e\n" + "\n".join(SHELL).replace("127.0.0.1:8080", server.http)
        done = subprocess.run(
            ["/bin/bash", "-c", script],
            cwd=tmp_path,
            env=environment(**paths),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "Artifact: Hello!\n" in done.stdout
    assert "Conforms: yes\n" in done.stdout
    assert '"state":"TASK_STATE_COMPLETED"' in done.stdout
    assert f"poll-interval: 500ms (file {tmp_path}/.env)\n" in done.stdout
    assert list((tmp_path / "results").iterdir())
