"""Server-Sent Events read strictly: what the specification does not allow fails the test that meets it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

FIELDS = {"id", "event", "data"}


@dataclass(frozen=True)
class Event:
    """One event, its data parsed."""

    data: Any
    name: str = ""
    number: int = 0


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """All events of a body, to its end (SSEV-01, RPLY-01)."""
    pending, begun, last = b"", False, 0
    async for chunk in chunks:
        pending += chunk
        *frames, pending = pending.split(b"\n\n")
        for frame in frames:
            if frame.startswith(b":"):
                assert begun, "a comment before the first event"
                assert frame == b": keep-alive"
                continue
            event = event_of(frame.decode())
            assert not event.number or event.number > last, f"{event.number} after {last}"
            begun, last = True, event.number or last
            yield event
    assert not pending, f"the stream ends within a frame: {pending!r}"


def event_of(frame: str) -> Event:
    assert "\r" not in frame, frame
    lines = [line.partition(": ") for line in frame.split("\n")]
    found = {name: value for name, _, value in lines}
    assert len(found) == len(lines), f"a field comes twice: {frame}"
    assert found.keys() <= FIELDS, frame
    return Event(loads(found["data"]), found.get("event", ""), int(found.get("id", 0)))


def loads(text: str | bytes) -> Any:
    """Strict JSON: no member twice, no number that is none."""
    return json.loads(text, object_pairs_hook=_once, parse_constant=_none)


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    assert len(found) == len(members), f"a member comes twice: {members}"
    return found


def _none(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")
