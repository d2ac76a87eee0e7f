"""A skill: the author's function, its entry in the card, and the checks that fail at import (spec: CARD-09)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.results import Yield
from a2a_server.agents.turn import Result, Turn
from a2a_server.ports.agent import Plan

Stream: TypeAlias = AsyncGenerator[Yield]
Function: TypeAlias = Callable[[Turn], Awaitable[Result]] | Callable[[Turn], AsyncIterator[Yield]]


@dataclass(frozen=True, slots=True)
class Skill:
    """One thing the agent can do."""

    card: pb.AgentSkill
    function: Function
    plan: Plan
    streams: bool
    """Whether the function is an async generator."""


def check_function(function: object, skill_id: str) -> None:
    """Refuse what cannot answer a turn."""
    if not callable(function) or not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        raise TypeError(f"Skill {skill_id!r}: write `async def`; a plain function would block all other tasks.")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise TypeError(f"Skill {skill_id!r}: the function takes one argument, the turn.") from None


def check_card(card: pb.AgentSkill) -> None:
    """Refuse an entry that clients could make nothing of."""
    if not card.id:
        raise ValueError("A skill needs an id.")
    if not card.tags or not all(card.tags):
        raise ValueError(f"Skill {card.id!r}: pass tags=[…] with at least one tag.")


def title(skill_id: str) -> str:
    """A name for people: `book-a-table` becomes `Book a table`."""
    words = skill_id.replace("-", " ").replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def as_tags(tags: Sequence[str], skill_id: str) -> Sequence[str]:
    """Refuse `tags="text"`, which would become four tags."""
    if isinstance(tags, str):
        raise TypeError(f"Skill {skill_id!r}: tags is a list of texts, not one text.")
    return tags
