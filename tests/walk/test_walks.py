"""docs/architecture.md says which files calls run through, and these are few (design 4)."""

import subprocess
import sys
from collections.abc import Sequence
from functools import cache

import pytest

from tests.walk.page import PAGE, RENEWAL, lists, renewed
from tests.walk.record import ROOT
from tests.walk.stage import KINDS

BOUNDS = {"rest-send": 37, "grpc-send": 28, "grpc-stream": 30, "0.3-send": 44, "event": 28, "gateway-send": 42}
SAID = lists(PAGE.read_text("utf-8"))


@cache
def walked(kind: str) -> Sequence[str]:
    """The files of a real call."""
    line = [sys.executable, "-m", "tests.walk", "--files", kind]
    told = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100).stdout
    return [path for path in told.splitlines() if path.endswith(".py")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_runs_through_few_files(kind: str) -> None:
    files = walked(kind)
    assert files[0].startswith("gateway/" if kind in {"rest-send", "0.3-send", "gateway-send"} else "a2a_server/")
    assert len(files) <= BOUNDS[kind], "\n".join(files)


@pytest.mark.parametrize("kind", SAID)
def test_the_page_lists_the_files_of_a_real_call(kind: str) -> None:
    """Not their order: what runs in two threads at once has none."""
    assert set(SAID[kind]) == set(walked(kind)), f"calls run through other files now; write the page anew: {RENEWAL}"


def test_the_page_has_five_walks_and_says_what_each_file_does() -> None:
    assert list(SAID) == ["rest-send", "grpc-stream", "event", "0.3-send", "gateway-send"]
    assert all(sentence.endswith(".") for steps in SAID.values() for sentence in steps.values())


def test_a_renewal_keeps_what_was_said_of_a_file() -> None:
    page = "<!-- walk: event -->\n1. `old.py`: Gone.\n2. `a2a_server/demo.py`: Plays.\n<!-- end -->\n"
    again = renewed(page, {"event": ["a2a_server/demo.py", "a2a_server/__main__.py"]})
    assert again.startswith("<!-- walk: event -->\n1. `a2a_server/demo.py`: Plays.\n2. `a2a_server/__main__.py`: ")
    assert again.endswith(".\n<!-- end -->\n")
    assert "Gone" not in again
