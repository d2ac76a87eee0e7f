"""A receiver of webhooks whose bodies are read by another project's own code, in an environment of that project.

It is told `connect` with the `judge` that reads, then `listen` with a token, and tells its URL; `received` tells each
request as it comes: its event's number, the status that it was answered with, and what the judge found in it. What the
judge cannot read is answered with 400.
"""

# ruff: noqa: PLC0415 - each judge lives in an environment of its own
from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.interop.clients.told import Told

Found = dict[str, Any]
Judge = Callable[[bytes], Found]


def found(kind: str, task: str, state: str, parts: Sequence[tuple[str, Any]], asked: Sequence[str] = ()) -> Found:
    """The same from all judges; the state as 0.3 spells it, the parts of artifacts, and the texts of the status."""
    state = state.removeprefix("TASK_STATE_").replace("_", "-").lower()
    return {"kind": kind, "task": task, "state": state, "parts": parts, "asked": asked}


# -- judges


def sdk_1_0() -> Judge:
    """a2a-sdk of 1.0: its message, and the strict reader of protobuf, which refuses names that it does not know."""
    from a2a.types import a2a_pb2 as pb
    from google.protobuf.json_format import MessageToDict, ParseDict

    def content(part: Any) -> tuple[str, Any]:
        kind = part.WhichOneof("content")
        if kind == "data":
            return "data", MessageToDict(part.data)
        return ("text", part.text) if kind == "text" else ("file", base64.b64encode(part.raw).decode())

    def judge(body: bytes) -> Found:
        event = ParseDict(json.loads(body), pb.StreamResponse())
        kind = event.WhichOneof("payload")
        about = getattr(event, kind)
        if kind == "artifact_update":
            return found(kind, about.task_id, "", [content(part) for part in about.artifact.parts])
        parts = [content(part) for artifact in getattr(about, "artifacts", ()) for part in artifact.parts]
        task, asked = about.id if kind == "task" else about.task_id, [part.text for part in about.status.message.parts]
        return found(kind, task, pb.TaskState.Name(about.status.state), parts, asked)

    return judge


def sdk_0_3() -> Judge:
    """a2a-sdk 0.3: its Pydantic model of a task."""
    from a2a.types import Task

    def content(part: Any) -> tuple[str, Any]:
        inner = part.root
        return inner.kind, inner.file.bytes if inner.kind == "file" else getattr(inner, inner.kind)

    def judge(body: bytes) -> Found:
        task = Task.model_validate_json(body)
        parts = [content(part) for artifact in task.artifacts or () for part in artifact.parts]
        asked = [part.root.text for part in task.status.message.parts] if task.status.message else []
        return found(task.kind, task.id, task.status.state.value, parts, asked)

    return judge


def fasta2a_0_6() -> Judge:
    """fasta2a 0.6: Pydantic's reading of its Task, of 0.3."""
    from fasta2a.schema import Task
    from pydantic import TypeAdapter

    adapter = TypeAdapter(Task)

    def content(part: Any) -> tuple[str, Any]:
        return part["kind"], part["file"]["bytes"] if part["kind"] == "file" else part[part["kind"]]

    def judge(body: bytes) -> Found:
        task = adapter.validate_json(body)
        parts = [content(part) for artifact in task.get("artifacts", ()) for part in artifact["parts"]]
        asked = [part["text"] for part in task["status"].get("message", {"parts": ()})["parts"]]
        return found(task["kind"], task["id"], task["status"]["state"], parts, asked)

    return judge


def fasta2a() -> Judge:
    """fasta2a 2: Pydantic's reading of its StreamResponse, of 1.0 but for the names of states and roles."""
    from fasta2a.schema import StreamResponse
    from pydantic import TypeAdapter

    adapter = TypeAdapter(StreamResponse)

    def judge(body: bytes) -> Found:
        ((kind, about),) = adapter.validate_json(body).items()
        artifact = about.get("artifact", {"parts": ()})
        return found(kind, about.get("task_id", ""), "", [("text", part["text"]) for part in artifact["parts"]])

    return judge


def adk() -> Judge:
    """Google ADK: what its agent for agents elsewhere makes of an event; of a question, the call of a tool."""
    from a2a.types import a2a_pb2 as pb
    from google.adk.a2a.converters import to_adk_event
    from google.protobuf.json_format import ParseDict

    convert = {
        "task": to_adk_event.convert_a2a_task_to_event,
        "status_update": to_adk_event.convert_a2a_status_update_to_event,
        "artifact_update": to_adk_event.convert_a2a_artifact_update_to_event,
    }

    def judge(body: bytes) -> Found:
        event = ParseDict(json.loads(body), pb.StreamResponse())
        kind = event.WhichOneof("payload")
        about = getattr(event, kind)
        made = convert[kind](about, author="remote")
        said = made.content.parts if made and made.content else []
        asked = [text for part in said if part.function_call for text in part.function_call.args.values()]
        if kind == "artifact_update":
            return found(kind, about.task_id, "", [("text", part.text) for part in said])
        task = about.id if kind == "task" else about.task_id
        return found(kind, task, pb.TaskState.Name(about.status.state), [], asked)

    return judge


JUDGES = {made.__name__: made for made in (sdk_1_0, sdk_0_3, fasta2a_0_6, fasta2a, adk)}


# -- the receiver


@dataclass
class Receiver:
    judge: Judge
    token: str = ""
    arrived: asyncio.Queue[Found] = field(default_factory=asyncio.Queue)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def take(self, headers: Any, body: bytes) -> int:
        told: Found = {"number": int(headers["A2A-Event-Number"])}
        if headers["X-A2A-Notification-Token"] != self.token:
            told["status"] = 401
        else:
            try:
                told |= {"status": 204, **self.judge(body)}
            except Exception as error:  # noqa: BLE001 - whatever the foreign code raises
                told |= {"status": 400, "fault": repr(error)}
        self.loop.call_soon_threadsafe(self.arrived.put_nowait, told)
        return told["status"]


async def connect(told: dict[str, Any]) -> Receiver:
    return Receiver(JUDGES[told["judge"]]())


async def listen(on: Receiver, told: dict[str, Any]) -> object:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(on.take(self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    on.token = told["token"]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/hook"


async def received(on: Receiver, _: dict[str, Any]) -> AsyncIterator[object]:
    while True:
        yield await on.arrived.get()


if __name__ == "__main__":
    asyncio.run(Told(connect, {"listen": listen, "received": received}, lambda _: {}).run())
