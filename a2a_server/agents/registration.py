"""Checks what authors register, so that mistakes show at import: skills and lifespans (spec: AGNT-01, AGNT-07)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from a2a_server.domain.rights import OWN, is_reserved, name_fault

_MOST_SCOPES = 128
"""Characters. An error names all scopes of a skill, and has that much room."""

LifespanFunction: TypeAlias = Callable[..., AbstractAsyncContextManager[Any]] | Callable[..., AsyncIterator[Any]]
"""An async generator function that yields once, or what `asynccontextmanager` makes of one; may take the agent."""
Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


def opener(function: LifespanFunction, agent: object) -> Opener:
    """Make a function that begins the lifespan. Refuse what cannot be one."""
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise TypeError("A lifespan is an async function with one `yield`: before it you open, after it you close.")
    manager: Callable[..., Any] = asynccontextmanager(function) if inspect.isasyncgenfunction(function) else function
    parameters = inspect.signature(function)
    for arguments in ((), (agent,)):
        try:
            parameters.bind(*arguments)
        except TypeError:
            continue
        return lambda: _checked(manager(*arguments))
    raise TypeError("A lifespan takes no argument, or one: the agent.")


def _checked(manager: Any) -> AbstractAsyncContextManager[Any]:  # noqa: ANN401 - whatever the author returns
    if not isinstance(manager, AbstractAsyncContextManager):
        raise TypeError(f"the lifespan returned {type(manager).__name__}; write `async def` with one `yield`")
    return manager


def check_skill(function: object, skill_id: str, tags: Sequence[str], scopes: Sequence[str]) -> None:
    """Refuse a skill that could not answer, or that clients could not use."""
    _check_card(skill_id, tags)
    _check_scopes(skill_id, scopes)
    _check_function(function, skill_id)


def _check_function(function: object, skill_id: str) -> None:
    """Refuse a function that cannot answer a turn."""
    if not callable(function) or not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        raise TypeError(f"Skill {skill_id!r}: write `async def`; a plain function would block all other tasks.")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise TypeError(f"Skill {skill_id!r}: the function takes one argument, the turn.") from None


def _check_card(skill_id: str, tags: Sequence[str]) -> None:
    """Refuse a card entry that clients could not use."""
    if not skill_id:
        raise ValueError("A skill needs an id.")
    if isinstance(tags, str):  # it would become a tag for each letter
        raise TypeError(f"Skill {skill_id!r}: tags is a list of texts, not one text.")
    if not tags or not all(tags):
        raise ValueError(f"Skill {skill_id!r}: pass tags=[…] with at least one tag.")


def _check_scopes(skill_id: str, scopes: Sequence[str]) -> None:
    """Refuse scopes that credentials or errors cannot carry."""
    if isinstance(scopes, str):
        raise TypeError(f"Skill {skill_id!r}: scopes is a list of texts, not one text.")
    for name in scopes:
        if fault := f"must not begin with {OWN}" if is_reserved(name) else name_fault(name):
            raise ValueError(f"Skill {skill_id!r}: the scope {name!r} {fault}.")
    if len(" ".join(scopes)) > _MOST_SCOPES:
        raise ValueError(f"Skill {skill_id!r}: its scopes have more than {_MOST_SCOPES} characters in all.")
