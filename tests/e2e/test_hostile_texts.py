"""No text of a caller begins a line of the log, commands a terminal or turns its direction (spec: SECR-07).

Whatever a caller may name goes into every field that it controls, through each door, at log level debug with audit and
access log; then each line of the output must be one that the server meant, and all of it printable.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import pytest
import structlog
from aiohttp import ClientSession

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.serve import Server, running
from a2a_server.settings import Log, Settings
from tests.support.callers import trusting
from tests.support.guard import Guard
from tests.support.house import configure_log
from tests.support.issuers import issuing
from tests.support.world import say

HOSTILE = [
    'two\nlines {"event":"call.denied"}',
    "return\rover",
    "\x1b[2J\x1b]0;title\x07",
    "\u202eturned\u2066around\u2069",
    "\u2028line\u2029paragraph\x85next",
    "del\x7f c1\x9b[31m nul\x00",
    "\ufeff\u200bhidden\U000e0041",
    "lone\udc80",
]
"""Line ends of all alphabets, terminal commands, bidi controls, invisible signs."""


class Sink:
    """What the log is written to."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return False


@pytest.fixture
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


async def call_everywhere(server: Server, text: str, token: str) -> None:
    """Put a text wherever a caller may put one."""
    usable = text.encode("utf-8", "replace").decode()
    known = {"authorization": f"Bearer {token}"}
    async with ClientSession() as session, grpc.aio.insecure_channel(str(server.grpc)) as channel:
        stub, metadata = a2a_pb2_grpc.A2AServiceStub(channel), list(known.items())
        ascii_only = usable.encode("latin-1", "ignore").decode("latin-1").encode("ascii", "ignore").decode()
        header = "".join(sign for sign in ascii_only if sign >= " " and sign != "\x7f") or "x"
        tries: list[Any] = [
            stub.GetTask(pb.GetTaskRequest(id=usable, tenant=usable), metadata=metadata),
            stub.CancelTask(pb.CancelTaskRequest(id=usable), metadata=metadata),
            stub.SendMessage(say(usable, task_id=usable, context_id=usable, message_id=usable), metadata=metadata),
            stub.SendMessage(say(usable, skill="clumsy", message_id=usable), metadata=metadata),
            stub.GetTask(pb.GetTaskRequest(id="1"), metadata=[("authorization", header), ("x-request-id", header)]),
            stub.GetTask(pb.GetTaskRequest(id="1"), metadata=[*metadata, ("x-request-id", header)]),
            stub.CreateTaskPushNotificationConfig(
                pb.TaskPushNotificationConfig(task_id=usable, id=usable, url=f"http://{usable}/"), metadata=metadata
            ),
        ]
        for attempt in tries:
            with suppress(grpc.aio.AioRpcError):
                await attempt
        base = f"http://{server.http}"
        told = {**known, "x-request-id": header, "traceparent": header, "user-agent": header}
        body = {"jsonrpc": "2.0", "id": text, "method": text, "params": {"id": text, text: text}}
        raw = json.dumps(body).encode()  # lone surrogates, too, as JSON spells them
        async with session.get(f"{base}/tasks/{quote(usable, safe='')}", headers=told) as answer:
            await answer.read()
        async with session.get(f"{base}/{quote(usable, safe='')}?{quote(usable)}={quote(usable)}") as answer:
            await answer.read()
        for path in ("/", "/message:send", "/v1/message:send"):
            kind = {**told, "content-type": "application/json"}
            async with session.post(base + path, data=raw, headers=kind) as answer:
                await answer.read()


@pytest.mark.req("SECR-07")
@pytest.mark.usefixtures("_as_before")
@pytest.mark.parametrize("log_format", ["console", "json"])
async def test_every_line_is_the_servers_own(log_format: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink: Any = Sink()
    monkeypatch.setattr("sys.stderr", sink)
    configure_log(Log(level="debug", format=log_format), sink)
    structlog.configure(cache_logger_on_first_use=False)  # loggers that kept this one would speak to it in later tests
    audit = tmp_path / "audit.log"
    async with issuing() as idp:
        settings = Settings(
            store="memory:",
            grpc="127.0.0.1:0",
            http="127.0.0.1:0",
            log=Log(level="debug", format=log_format, access=True),
            auth={"issuers": [trusting(idp, tenant_claim="org")]},
            audit={"to": f"file:{audit}", "tasks_per_minute": 1},
            rates={"wrong_credentials": 0},
        )
        async with running(settings, Guard().agent) as server:
            for text in HOSTILE:
                usable = text.encode("utf-8", "replace").decode()
                for owner, tenant in (("ann", "acme"), (usable, "acme"), ("ann", usable)):
                    await call_everywhere(server, text, idp.token(sub=owner, org=tenant, scope="a2a:*"))
            structlog.get_logger("test").warning("hostile", **{text: text for text in HOSTILE})
            logging.getLogger("library").error("%s", "".join(HOSTILE))
            await asyncio.sleep(0)
    written = sink.text + audit.read_text()
    strange = {sign for sign in written if not (sign.isprintable() or sign == "\n")}
    assert not strange
    json_lines = [line for line in written.splitlines() if line.startswith("{")]
    assert all(json.loads(line)["event"] for line in json_lines)
    if log_format == "json":
        assert len(json_lines) == len(written.splitlines())
        assert written.isascii()
    assert {"call", "task.created", "call.denied"} <= {json.loads(line)["event"] for line in json_lines}
    assert "two\\nlines" in written, "the texts have reached the log"
