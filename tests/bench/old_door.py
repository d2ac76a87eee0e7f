"""JSON-RPC as clients of 0.3 write it, and what they must be told before it makes sense to time them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.bench.doors import Request, call_body, events_of, result_of
from tests.bench.processes import Server
from tests.bench.requests import TEXT

DONE = b'"state":"completed"'
"""What the answers of all finished tasks hold."""

_IDS = frozenset({"id", "taskId", "contextId", "messageId", "artifactId"})
_UNTOLD = frozenset({"timestamp"})
_FLAGS = frozenset({"append", "lastChunk"})
"""False where they are missing: the SDK writes them always."""


def send(skill: str, text: str = TEXT) -> Request:
    return _call("message/send", _message(skill, text))


def stream(skill: str, text: str) -> Request:
    return _call("message/stream", _message(skill, text), streams=True)


def get(task_id: str) -> Request:
    return _call("tasks/get", {"id": task_id})


def _message(skill: str, text: str) -> object:
    parts = [{"kind": "text", "text": text}]
    message = {"kind": "message", "messageId": "bench", "role": "user", "parts": parts}
    return {"message": message, "metadata": {"skill": skill}, "configuration": {"blocking": True}}


def _call(method: str, params: object, *, streams: bool = False) -> Request:
    return Request("POST", "/", call_body(method, params), streams, version="")


def answers(server: Server) -> str:
    """A conversation with every call, as JSON without what may differ: ids as such, and times."""
    sent = result_of(json.loads(send("echo").fetch(server)))
    read = result_of(json.loads(get(sent["id"]).fetch(server)))
    streamed = [result_of(event) for event in events_of(stream("chunks", "3").fetch(server))]
    known: dict[str, int] = {}
    return json.dumps([_essence(answer, known) for answer in (sent, read, *streamed)], indent=1, sort_keys=True)


def _essence(value: Any, known: dict[str, int]) -> Any:
    if isinstance(value, list):
        return [_essence(item, known) for item in value]
    return dict(_members(value, known)) if isinstance(value, dict) else value


def _members(value: dict[str, Any], known: dict[str, int]) -> Iterator[tuple[str, Any]]:
    for name in sorted(value.keys() - _UNTOLD):
        if name in _FLAGS and not value[name]:
            continue
        if name in _IDS:
            yield name, f"#{known.setdefault(value[name], len(known))}"
        else:
            yield name, _essence(value[name], known)
