"""The columns with content, which may be sealed, and the place of each value (spec: SECR-03)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from a2a_server.domain.scope import Scope
from a2a_server.ports.sealing import (
    PLAIN,
    Place,
    agent_state_place,
    artifacts_place,
    config_place,
    context_place,
    event_place,
    fingerprint_place,
    head_place,
    reply_place,
    turn_place,
)

FRONT = 16
"""Bytes of a value that tell its key."""


class Content(NamedTuple):
    """A column with content."""

    table: str
    column: str
    place: Callable[..., Place]
    """Made of the columns by which its values are found: tenant and owner, if they belong to it, then ids."""
    front: int = 1
    """Where in a value it begins to tell its key."""


def _in_scope(place: Callable[..., Place]) -> Callable[..., Place]:
    """The place by tenant and owner, as they are in columns."""
    return lambda tenant, owner, *rest: place(Scope(tenant, owner), *rest)


HEADS = Content("tasks", "head", _in_scope(head_place))
ARTIFACTS = Content("artifacts", "wire", artifacts_place)
AGENT_STATES = Content("agent_states", "wire", agent_state_place)
EVENTS = Content("events", "wire", event_place, front=2)
TURNS = Content("turns", "request", turn_place)
FINGERPRINTS = Content("receipts", "fingerprint", _in_scope(fingerprint_place))
REPLIES = Content("receipts", "reply", _in_scope(reply_place))
CONTEXT_STATES = Content("context_states", "value", _in_scope(context_place))
CONFIGS = Content("configs", "wire", config_place)


def sealing_told(key: str) -> str:
    return "does not seal" if key == PLAIN else f"seals with the key {key!r}"
