"""How many files a warm call may run through (design 4)."""

import subprocess
import sys

import pytest

from tests.walk.record import ROOT

BOUNDS = {"rest-send": 64, "grpc-send": 50, "grpc-stream": 54, "0.3-send": 74, "event": 46, "gateway-send": 75}


@pytest.mark.parametrize("kind", BOUNDS)
def test_a_call_runs_through_few_files(kind: str) -> None:
    line = [sys.executable, "-m", "tests.walk", "--files", kind]
    told = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100).stdout
    files = [path for path in told.splitlines() if path.endswith(".py")]
    assert files[0].startswith("gateway/" if kind not in {"grpc-send", "grpc-stream", "event"} else "a2a_server/")
    assert len(files) <= BOUNDS[kind], told
