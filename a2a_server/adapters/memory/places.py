"""Places of tasks in sorted lists (spec: LIST-05)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable
from typing import TypeVar

from a2a_server.ports.kept import Head

_NEAR = 64
"""How far from its end a list is searched first: what comes in the same millisecond belongs there."""

_Key = TypeVar("_Key")
Place = tuple[int, str]
"""Status time and task id."""
Filter = tuple[str, int]
"""Context and state; empty and 0 are no filter."""


def filters(head: Head) -> Collection[Filter]:
    """Every filter that a task passes. An empty context or state means no filter, also when the task's own is empty."""
    context, state = head.context_id, head.state
    passed = ("", 0), ("", state), (context, 0), (context, state)
    return passed if context and state else set(passed)


def insert(lists: dict[_Key, list[Place]], keys: Iterable[_Key], place: Place) -> None:
    for key in keys:
        places = lists.get(key)
        if places is None:
            lists[key] = [place]
        elif places[-1] < place:  # nearly always, as time goes
            places.append(place)
        elif len(places) > _NEAR and places[-_NEAR] < place:
            insort(places, place, len(places) - _NEAR)
        else:
            insort(places, place)


def remove(lists: dict[_Key, list[Place]], key: _Key, place: Place) -> None:
    places = lists[key]
    del places[bisect_left(places, place)]
    if not places:
        del lists[key]
