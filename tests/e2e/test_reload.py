"""`a2ad serve --reload` in a real process: the code changes, and the tasks stay (spec: AGNT-09)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.e2e.processes import command, serving

PATIENCE = 60
AGENT = """
import asyncio
import os
from pathlib import Path

from a2a_server.agents import Agent, Turn
from words import VERSION

agent = Agent(name="Versioned", description="Says its version.", version="1.0.0")


@agent.skill(id="say", tags=["test"])
async def say(turn: Turn) -> str:
    return f"{VERSION} {os.getpid()}"


@agent.skill(id="wait", tags=["test"], restartable=True)
async def wait(turn: Turn) -> str:
    await turn.status(VERSION)
    while not Path("gate").exists():
        await asyncio.sleep(0.01)
    return VERSION
"""

pytestmark = pytest.mark.req("AGNT-09")


@dataclass
class Developer:
    """Whoever changes the code of a server that reloads, and calls it."""

    folder: Path
    process: subprocess.Popen[str]
    http: str
    lines: list[str] = field(default_factory=list)

    def write(self, text: str, name: str = "words.py") -> None:
        """Change a module at once: by default the one that the agent's own module imports."""
        (self.folder / "new").write_text(text, "utf-8")
        (self.folder / "new").rename(self.folder / name)

    def call(self, path: str, body: object = None) -> Any:
        """Call the server, once it takes connections."""
        data = None if body is None else json.dumps(body).encode()

        def answer() -> Any:
            with suppress(OSError, HTTPException):
                told = {"content-type": "application/json", "a2a-version": "1.0"}
                with urlopen(Request(f"{self.http}{path}", data, told), timeout=PATIENCE) as found:  # noqa: S310 - ours
                    return json.load(found)

        return self.until(answer)

    def send(self, skill: str, **configuration: bool) -> Any:
        message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        body = {"message": message, "metadata": {"skill": skill}, "configuration": configuration}
        return self.call("/message:send", body)["task"]

    def says(self) -> list[str]:
        """The version of the code that answers, and its process."""
        return str(self.send("say")["artifacts"][0]["parts"][0]["text"]).split()

    def sees(self, version: str) -> None:
        self.until(lambda: self.says()[0] == version)

    def reaches(self, task_id: str, state: str) -> Any:
        def found() -> Any:
            task = self.call(f"/tasks/{task_id}")
            return task if task["status"]["state"] == state else None

        return self.until(found)

    def reads(self, text: str) -> None:
        """Wait until the process has written this."""
        self.until(lambda: any(text in line for line in self.lines))

    def until(self, what: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE
        while not (found := what()):
            assert time.monotonic() < end, self.lines
            assert self.process.poll() is None, self.lines
            time.sleep(0.02)
        return found

    def listen(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)


@contextmanager
def developing(folder: Path, **variables: str) -> Iterator[Developer]:
    (folder / "agent.py").write_text(AGENT, "utf-8")
    (folder / "words.py").write_text("VERSION = '1'", "utf-8")
    with serving("agent.py", "--reload", "--store", "sqlite:///tasks.db", cwd=folder, **variables) as server:
        developer = Developer(folder, server.process, server.http)
        thread = threading.Thread(target=developer.listen)
        thread.start()
        try:
            yield developer
        finally:
            server.process.kill()  # the workers notice
            thread.join(PATIENCE)


def test_a_change_is_served_and_no_task_is_lost(tmp_path: Path) -> None:
    with developing(tmp_path, A2A_LIMITS__DRAIN_GRACE="0.1") as developer:
        ended = developer.send("say")
        running = developer.send("wait", returnImmediately=True)
        developer.reaches(running["id"], "TASK_STATE_WORKING")
        developer.write("VERSION = '2'")  # as long as before, and maybe in the same second
        developer.sees("2")
        assert developer.call(f"/tasks/{ended['id']}")["artifacts"] == ended["artifacts"]
        developer.reaches(running["id"], "TASK_STATE_WORKING")
        (tmp_path / "gate").touch()
        done = developer.reaches(running["id"], "TASK_STATE_COMPLETED")
        assert done["artifacts"][0]["parts"] == [{"text": "2"}]


def test_a_turn_that_runs_gets_the_time_of_a_stop(tmp_path: Path) -> None:
    with developing(tmp_path, A2A_LIMITS__DRAIN_GRACE="60") as developer:
        running = developer.send("wait", returnImmediately=True)
        developer.reaches(running["id"], "TASK_STATE_WORKING")
        developer.write("VERSION = '2'")
        developer.reads("server.draining")
        developer.write("VERSION = '3'")  # meanwhile
        (tmp_path / "gate").touch()
        developer.sees("3")
        done = developer.reaches(running["id"], "TASK_STATE_COMPLETED")
        assert done["artifacts"][0]["parts"] == [{"text": "1"}]


def test_broken_code_is_reported_and_the_next_change_is_tried(tmp_path: Path) -> None:
    with developing(tmp_path) as developer:
        _, pid = developer.says()
        developer.write("VERSION = ")
        developer.reads("workers.not_reloaded")
        developer.reads("SyntaxError: invalid syntax")
        assert developer.says() == ["1", pid]
        developer.write("import time\ntime.sleep(3600)")  # an import that does not come back
        developer.until(lambda: len([line for line in developer.lines if "workers.reloading" in line]) > 1)
        assert developer.says() == ["1", pid]
        developer.write("VERSION = '2'")
        developer.sees("2")


def test_a_start_that_fails_later_is_tried_again(tmp_path: Path) -> None:
    with developing(tmp_path) as developer:
        developer.write(AGENT + "\n\n@agent.lifespan\nasync def life():\n    yield 1 / 0\n", "agent.py")
        developer.reads("ZeroDivisionError")
        developer.reads("worker.ended")
        developer.write(AGENT, "agent.py")
        developer.sees("1")


def test_a_killed_worker_comes_back(tmp_path: Path) -> None:
    with developing(tmp_path) as developer:
        task = developer.send("say")
        _, pid = developer.says()
        os.kill(int(pid), signal.SIGKILL)
        developer.reads("killed by SIGKILL")
        assert developer.says()[1] != pid
        assert developer.call(f"/tasks/{task['id']}")["artifacts"] == task["artifacts"]
        developer.write("VERSION = '2'")
        developer.sees("2")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_its_processes(tmp_path: Path, number: signal.Signals) -> None:
    with developing(tmp_path) as developer:
        children = Path(f"/proc/{developer.process.pid}/task/{developer.process.pid}/children")
        started = developer.until(lambda: found if len(found := children.read_text("ascii").split()) > 1 else None)
        developer.process.send_signal(number)
        assert developer.process.wait(PATIENCE) == 0, developer.lines
        assert not any(Path("/proc", pid).exists() for pid in started)
        host, _, port = developer.http.removeprefix("http://").rpartition(":")
        with socket.socket() as probe:
            assert probe.connect_ex((host, int(port))) != 0


def test_its_processes_end_with_it_also_if_nobody_reads_their_log(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    (tmp_path / "words.py").write_text("VERSION = '1'", "utf-8")
    with serving("agent.py", "--reload", "--store", "sqlite:///tasks.db", cwd=tmp_path) as server:
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        end = time.monotonic() + PATIENCE
        while len(started := children.read_text("ascii").split()) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        for pipe in (server.process.stdout, server.process.stderr):
            assert pipe is not None
            pipe.close()
        server.process.kill()
        while any(Path("/proc", pid).exists() for pid in started):
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_sighup_reloads_too(tmp_path: Path) -> None:
    with developing(tmp_path) as developer:
        _, pid = developer.says()
        developer.process.send_signal(signal.SIGHUP)
        developer.until(lambda: developer.says()[1] != pid)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--workers", "2", "--store", "postgresql://nobody@127.0.0.1:1/x"], "is for one process, and workers = 2"),
        (["--store", "memory:"], "each change would lose the tasks in memory"),
        (["--exec", "cat"], "a program needs none, because each turn starts it anew"),
    ],
)
def test_what_it_cannot_do_is_refused(tmp_path: Path, arguments: list[str], why: str) -> None:
    ended = command("serve", "--reload", *arguments, cwd=tmp_path)
    assert ended.returncode == 2
    assert why in ended.stderr
