"""What clients of different versions have seen, in the same words: 0.3 in its JSON, 1.0 in its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = Any

_EVENTS_1_0 = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}


def event(item: Json) -> tuple[str, Json]:
    """The kind of an item and the item itself, out of its wrapper if it has one."""
    if "kind" in item:
        return item["kind"], item
    ((name, body),) = item.items()
    return _EVENTS_1_0[name], body


def state(task_or_update: Json) -> str:
    """The state as 0.3 spells it."""
    spelled: str = task_or_update["status"]["state"]
    return spelled.removeprefix("TASK_STATE_").lower().replace("_", "-")


def told(items: Iterable[Json]) -> list[str]:
    """Kinds of events; status updates by their state."""
    return [state(body) if kind == "status-update" else kind for kind, body in map(event, items)]


def finals(items: Iterable[Json]) -> list[bool]:
    return [body["final"] for kind, body in map(event, items) if kind == "status-update"]


def parts(holder: Json) -> list[tuple[Any, ...]]:
    """A message's or an artifact's: ("text", …), ("data", …), ("file", name, type, bytes or URI)."""
    return [_part(found) for found in holder["parts"]]


def _part(part: Mapping[str, Json]) -> tuple[Any, ...]:
    match part:
        case {"text": text}:
            return "text", text
        case {"data": data}:
            return "data", data
        case {"file": file}:
            return "file", file.get("name"), file.get("mimeType"), file.get("bytes") or file.get("uri")
    return "file", part.get("filename"), part.get("mediaType"), part.get("raw") or part.get("url")


def texts(task: Json) -> list[str]:
    """The texts of a task's artifacts."""
    return [part[1] for artifact in task.get("artifacts", ()) for part in parts(artifact)]


def chunks(items: Iterable[Json]) -> list[str]:
    """The texts of a stream's artifact updates."""
    return [
        part[1] for kind, body in map(event, items) if kind == "artifact-update" for part in parts(body["artifact"])
    ]
