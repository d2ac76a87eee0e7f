"""Log lines: events with fields, ours and the libraries' alike, on a terminal or as JSON."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from a2a_server.cli.process import configure
from a2a_server.settings import Log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def speak() -> None:
    log = structlog.get_logger()
    log.info("task.done", task_id="t")
    log.debug("task.detail")
    logging.getLogger("some.library").warning("odd: %s", "thing")
    secret = "hunter2"  # noqa: F841 - a local variable of the frame that fails
    try:
        int("wrong")
    except ValueError:
        log.exception("call.failed")


def test_json_is_one_object_per_line() -> None:
    stream = io.StringIO()
    configure(Log(), stream)
    speak()
    done, odd, failed = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (done["event"], done["task_id"], done["level"]) == ("task.done", "t", "info")
    assert (odd["event"], odd["logger"], odd["level"]) == ("odd: thing", "some.library", "warning")
    assert "ValueError: invalid literal" in failed["exception"]
    assert "hunter2" not in stream.getvalue()


def test_a_terminal_gets_lines_for_people() -> None:
    stream = Terminal()
    configure(Log(level="debug"), stream)
    speak()
    assert "task.detail" in stream.getvalue()
    assert "ValueError: invalid literal" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    assert not stream.getvalue().startswith("{")
