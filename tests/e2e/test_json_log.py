"""With `log.format = json`, both streams hold JSON objects and nothing else, one per line, from the first line on."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TextIO, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import grpc
import pytest
import trustme

from tests.e2e.processes import environment
from tests.e2e.test_commands import send, stub_of

AGENT = """
import asyncio, logging, threading, warnings
from a2a_server.agents import Agent, Turn

warnings.warn("noisy import", stacklevel=1)
agent = Agent(name="Noisy", description="Goes wrong in every way.", version="1")

class Ghost:
    def __del__(self):
        raise ValueError("ghost\\nof two lines")

def fail():
    raise LookupError("thread\\nof two lines")

async def lost():
    raise RuntimeError("lost task")

@agent.skill(id="noisy", tags=["text"])
async def noisy(turn: Turn) -> str:
    "Make all the noise there is."
    warnings.warn("noisy\\ncall", stacklevel=1)
    logging.getLogger("my.library").error("two\\nlines")
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    Ghost()
    asyncio.get_running_loop().create_task(lost())
    await asyncio.sleep(0)
    raise OSError("agent\\nof two lines")
"""


class Told:
    """A process with that format, and what it has written so far."""

    def __init__(self, process: subprocess.Popen[str], stderr: TextIO) -> None:
        self.process = process
        self._stderr = stderr

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its stderr; every line must be an object."""
        self._stderr.seek(0)
        text = self._stderr.read()
        found = [json.loads(line) for line in text.split("\n")[:-1]]
        assert all(isinstance(line, dict) and line["level"] and line["timestamp"] for line in found)
        return found

    def event(self, name: str) -> dict[str, Any]:
        return self.until(lambda: next((line for line in self.lines if line["event"].startswith(name)), None))

    def until(self, look: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
        end = time.monotonic() + 60
        while (found := look()) is None:
            assert time.monotonic() < end, self.lines
            time.sleep(0.05)
        return found

    def stopped(self, status: int = 0) -> list[str]:
        """Wait for the end: the names of all events."""
        assert self.process.wait(30) == status
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        return [line["event"] for line in self.lines]


@contextmanager
def told(*arguments: str, cwd: Path, **variables: str) -> Iterator[Told]:
    with (
        (cwd / f"{arguments[0]}.log").open("w+") as stderr,
        subprocess.Popen(
            [sys.executable, "-W", "always::UserWarning", "-m", "a2a_server", *arguments],
            cwd=cwd,
            env=environment(**{"A2A_LOG__FORMAT": "json", **variables}),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            yield Told(process, stderr)
        finally:
            process.kill()


DOORS = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")


def test_every_line_is_an_object_from_the_start_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(AGENT)
    with told("serve", "noisy.py", *DOORS, cwd=tmp_path) as server:
        at = server.event("server.started")
        with told("gateway", "--upstream", at["grpc"], "--http", "127.0.0.1:0", cwd=tmp_path) as gateway:
            url = f"http://{gateway.event('gateway.started')['http']}"
            body = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
            data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
            with urlopen(Request(f"{url}/message:send", data, kind), timeout=30) as answer:  # noqa: S310 - ours
                assert json.load(answer)["task"]["status"]["state"] == "TASK_STATE_FAILED"
            with pytest.raises(HTTPError), urlopen(f"{url}/tasks/none", timeout=30):  # noqa: S310 - ours
                pass
            with grpc.insecure_channel(at["grpc"]) as channel:
                assert stub_of(channel).SendMessage(send("hello")).task.status.state
            gateway.process.send_signal(signal.SIGTERM)
            assert "gateway.draining" in gateway.stopped()
        server.event("Task exception was never retrieved")
        server.process.send_signal(signal.SIGTERM)
        events = server.stopped()
    lines = {line["event"]: line for line in server_lines(tmp_path)}
    assert {"server.started", "agent.failed", "two\nlines", "thread.failed", "exception.ignored"} <= set(events)
    assert "server.draining" in events
    warned = [event for event in events if "UserWarning: noisy" in event]
    assert len(warned) >= 2
    assert "LookupError: thread" in lines["thread.failed"]["exception"]
    assert "OSError: agent" in lines["agent.failed"]["exception"]


def server_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "serve.log").read_text().splitlines()]


def test_what_strangers_do_at_the_doors_writes_no_text(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    files = {"A2A_TLS__CERT": "both.pem", "A2A_TLS__KEY": "both.pem"}
    with told("serve", *DOORS, cwd=tmp_path, **files) as server:
        at = server.event("server.started")
        for door in ("grpc", "http"):
            host, _, port = cast("str", at[door]).rpartition(":")
            with closing(socket.create_connection((host, int(port)))) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                stranger.settimeout(10)
                while stranger.recv(1000):
                    pass
        server.process.send_signal(signal.SIGTERM)
        assert server.stopped()[-1] == "server.draining"


def test_wrong_settings_are_objects_too_when_one_of_them_is_the_format(tmp_path: Path) -> None:
    (tmp_path / "a2ad.toml").write_text('stor = "memory:"\n[limits]\nrunning_turns = "many"\n')
    for command in ("serve", "gateway"):
        with told(command, cwd=tmp_path, A2A_LOG__LEVEL="loud") as process:
            assert set(process.stopped(2)) == {"settings.invalid"}
            faults = [line["why"] for line in process.lines]
        assert faults[0] == "a2ad.toml, line 1: unknown setting stor; did you mean store?"
        assert any(fault.startswith("limits.running_turns = 'many' (file a2ad.toml, line 3)") for fault in faults)
        assert any(fault.startswith("log.level = 'loud' (environment A2A_LOG__LEVEL)") for fault in faults)
        assert any(fault.startswith("upstream.addresses: name the") for fault in faults) == (command == "gateway")


def test_why_a_process_does_not_start_is_an_object(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with told("serve", "broken.py", *DOORS, cwd=tmp_path) as process:
        assert process.stopped(2) == ["process.failed"]
        assert "ZeroDivisionError" in process.lines[0]["why"]
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with told("serve", "--grpc", address, "--http", "none", cwd=tmp_path) as process:
            assert process.stopped(1) == ["process.failed"]
            assert "is already in use" in process.lines[0]["why"]


ODD = """
class Odd:
    def __init__(self, agent):
        self.agent = agent

    def __getattr__(self, name):
        if name not in ("extended_card", "check", "plan", "run"):
            raise AttributeError(name)
        return getattr(self.agent, name)

    @property
    def card(self):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self.agent.card  # while it is loaded
        raise LookupError("a second\\nlook")

agent = Odd(agent)
"""


def test_what_nobody_catches_is_an_object(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(AGENT + ODD)
    with told("serve", "odd.py", *DOORS, cwd=tmp_path) as process:
        assert process.stopped(1)[-1] == "process.failed"
        assert "LookupError: a second\nlook" in process.lines[-1]["exception"]
