"""A skill: the author's function, its entry in the card, and the checks made at import (spec: CARD-09, EXEC-05)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.output import EVENTS, TurnEvent, TurnOutput
from a2a_server.agents.parts import Chunk
from a2a_server.agents.turn import Result, Turn
from a2a_server.ports.agent import Plan

Yield: TypeAlias = Chunk | pb.Artifact | TurnEvent | pb.Message
"""What a skill may yield."""
SkillFunction: TypeAlias = Callable[[Turn], Awaitable[Result]] | Callable[[Turn], AsyncIterator[Yield]]

_WHOLE = (*EVENTS, pb.Message, pb.Artifact)


@dataclass(frozen=True, slots=True)
class Skill:
    """One thing the agent can do."""

    card: pb.AgentSkill
    function: SkillFunction
    plan: Plan
    streams: bool
    """Whether the function is an async generator."""


async def relay(turn: Turn, output: TurnOutput, items: AsyncGenerator[Yield]) -> None:
    """Stream the yielded values into one artifact. Events, messages and whole artifacts are sent in between."""
    async with aclosing(items), turn.artifact() as out:
        async for item in items:
            if isinstance(item, _WHOLE):
                turn._deliver(item)  # noqa: SLF001 - not for authors, who yield instead
                await output.room()
            elif item is not None:
                await out.write(item)


def check_function(function: object, skill_id: str) -> None:
    """Refuse a function that cannot answer a turn."""
    if not callable(function) or not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        raise TypeError(f"Skill {skill_id!r}: write `async def`; a plain function would block all other tasks.")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise TypeError(f"Skill {skill_id!r}: the function takes one argument, the turn.") from None


def check_card(card: pb.AgentSkill) -> None:
    """Refuse a card entry that clients could not use."""
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
