"""A server's process: how it logs, how it is tuned, who notices a blocked event loop, and what makes it reload."""

import asyncio
import gc
import io
import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from select import PIPE_BUF
from typing import Any

import click
import pytest
import structlog
from structlog.testing import capture_logs

from a2a_server.cli import agent_code
from a2a_server.cli.agent_code import AgentCode
from a2a_server.cli.log_output import configure
from a2a_server.cli.process import RARELY, patient_threads, rare_collections
from a2a_server.cli.supervisor import pause_after
from a2a_server.cli.worker import Worker
from a2a_server.ports.journal import CallRecord
from a2a_server.serve.journal import access_log
from a2a_server.serve.watchdog import Watchdog
from a2a_server.settings import Log, Settings


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


class Forger:
    def __repr__(self) -> str:
        return "Forger\n2026-11-19T12:00:00Z [info     ] forged"


def test_nothing_that_is_logged_can_forge_a_line_or_command_a_terminal() -> None:
    stream = Terminal()
    configure(Log(), stream)
    forged = "odd\r\n2026-11-19T12:00:00Z [info     ] forged\x1b[2J\u2028\x85forged \x9b31m"
    log = structlog.get_logger()
    inner = ValueError(forged)
    error = ExceptionGroup(forged, [inner, KeyError(forged)])
    error.__cause__ = inner
    log.error(forged, exc_info=error, value=forged, other=Forger(), listed=[forged], **{forged: forged})
    logging.getLogger("some.library").error("%s", forged, exc_info=error)
    logging.getLogger("some.library").error("%s", forged, stack_info=True)
    text = "".join(re.split("\x1b\\[[0-9;]*m", stream.getvalue()))  # its own colours
    assert "ValueError: odd" in text
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    lines = [line for line in text.split("\n") if line and not line.startswith("    ")]
    assert [line.split()[1:3] for line in lines] == [["[error", "]"]] * 3


def test_json_has_one_line_for_each_event_whatever_is_in_it() -> None:
    stream = io.StringIO()
    configure(Log(), stream)
    error = ValueError("odd\r\nforged\x1b[2J\u2028")
    structlog.get_logger().error("call.failed", exc_info=error, value="a\nb", other=Forger())
    assert len(stream.getvalue().rstrip("\n").split("\n")) == 1
    assert "\x1b" not in stream.getvalue()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the policy")
def test_threads_that_start_meanwhile_are_patient() -> None:
    policies: list[int] = []
    before = os.sched_getscheduler(0)
    with patient_threads():
        thread = threading.Thread(target=lambda: policies.append(os.sched_getscheduler(0)))
        thread.start()
        thread.join()
    assert policies == [os.SCHED_BATCH]
    assert os.sched_getscheduler(0) == before


def test_systems_without_the_policy_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "SCHED_BATCH", raising=False)
    monkeypatch.delattr(os, "sched_setscheduler", raising=False)
    with patient_threads():
        pass


def test_collections_are_rare_and_pass_over_what_the_start_has_made() -> None:
    before = gc.get_threshold()
    made: list[object] = [[]]
    with rare_collections():
        assert gc.get_threshold() == RARELY
        assert gc.get_freeze_count() > 0
        assert not any(thing is made for thing in gc.get_objects())
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)


@pytest.mark.req("AGNT-05")
async def test_what_blocks_the_loop_is_named() -> None:
    watchdog = Watchdog(0.1)
    with capture_logs() as logs:
        watchdog.start()
        await asyncio.sleep(0.1)
        block_the_loop(0.5)
        async with asyncio.timeout(30):
            while not any(entry["event"] == "loop.free" for entry in logs):  # noqa: ASYNC110 - written by a thread
                await asyncio.sleep(0.02)
        watchdog.stop()
    # A busy machine may block the loop as well; ours is the one that says so.
    blocked = [entry for entry in logs if entry["event"] == "loop.blocked"]
    assert any("block_the_loop" in frame for entry in blocked for frame in entry["frames"])


async def test_a_loop_that_answers_in_time_is_not_named() -> None:
    watchdog = Watchdog(30)
    with capture_logs() as logs:
        watchdog.start()
        await asyncio.sleep(0.05)
        watchdog.stop()
    assert logs == []


async def test_no_patience_watches_nothing() -> None:
    watchdog = Watchdog(0)
    watchdog.start()
    watchdog.stop()


@pytest.mark.req("OPER-07")
def test_workers_that_go_on_to_end_are_replaced_ever_later_and_not_in_step() -> None:
    for ends, longest in ((1, 0.5), (2, 1.0), (4, 4.0), (7, 30.0), (1_000, 30.0)):
        pauses = {pause_after(ends) for _ in range(50)}
        assert longest / 2 <= min(pauses) < max(pauses) <= longest


class _Written(io.StringIO):
    """Notes each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


@pytest.mark.req("OPER-07")
async def test_lines_of_the_access_log_are_whole_though_workers_share_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    out = _Written()
    monkeypatch.setattr(sys, "stderr", out)
    with access_log(Log(access=True), worker=2) as access:
        assert access is not None
        for number in range(100):
            access.ended(CallRecord("GetTask", "grpc", "1.0", f"ann {number}", "", "peer", "OK", 0.001))
    assert len(out.writes) > 2
    assert all(len(text) <= PIPE_BUF and text.endswith("\n") for text in out.writes)
    lines = [json.loads(line) for line in "".join(out.writes).splitlines()]
    assert [line["caller"] for line in lines] == [f"ann {number}" for number in range(100)]
    assert {line["worker"] for line in lines} == {2}


async def test_a_worker_has_all_the_time_that_its_settings_give_it_to_stop() -> None:
    nothing: Any = None
    settings = Settings(limits={"drain_delay": 20.0, "drain_grace": 10.0})
    assert Worker(1, nothing, nothing, settings, began=0.0).drain_seconds > 30


# -- the code that --reload watches


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an agent, a package, and what does not belong to the agent."""
    files = "agent.py", "shop/__init__.py", "shop/prices/vat.py", ".git/hook.py", "env/pyvenv.cfg", "env/lib/x.py"
    for name in (*files, "__pycache__/a.py", "node_modules/a.py", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.req("AGNT-09")
@pytest.mark.parametrize(
    ("agent", "watched"),
    [
        ("agent", "."),
        ("agent:other", "."),
        ("agent.py:other", "."),
        ("shop", "shop"),
        ("shop.prices.vat:agent", "shop"),
        ("shop/prices/vat.py", "shop/prices"),
        ("absent", "."),
        ("", "."),
        ("json", Path(json.__file__).parent),
    ],
)
def test_the_folder_is_that_of_the_file_or_the_package(project: Path, agent: str, watched: str) -> None:
    assert AgentCode(agent).folders == {project / watched}


def test_several_agents_have_several_folders(project: Path) -> None:
    assert AgentCode("shop", "shop/prices/vat.py", "shop").folders == {project / "shop", project / "shop/prices"}


@asynccontextmanager
async def watching(code: AgentCode) -> AsyncIterator[asyncio.Event]:
    changed = asyncio.Event()
    task = asyncio.create_task(code.watch(changed))
    yield changed
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.req("AGNT-09")
@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "shop/prices/vat.py").write_text("22", "utf-8"),
        lambda folder: (folder / "shop/new.py").touch(),
        lambda folder: (folder / "agent.py").unlink(),
        lambda folder: (folder / "agent.py").replace(folder / "renamed.py"),
        lambda folder: (folder / "shop").rename(folder / "store"),
    ],
)
async def test_a_change_is_seen(project: Path, change: Callable[[Path], object]) -> None:
    async with watching(AgentCode("agent")) as changed, asyncio.timeout(30):
        change(project)
        await changed.wait()


def test_what_does_not_belong_to_the_agent_is_not_watched(project: Path) -> None:
    code = AgentCode("agent")
    before = code.look()
    for name in (".git/hook.py", "env/lib/x.py", "__pycache__/a.py", "node_modules/a.py", "notes.txt"):
        (project / name).write_text("another", "utf-8")
    (project / "data").mkdir()
    assert code.look() == before


@pytest.mark.source
def test_a_folder_without_measure_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_code, "MOST", 5)
    with pytest.raises(click.UsageError, match=f"--reload: {project} has more than 5 files and folders"):
        AgentCode("agent")
