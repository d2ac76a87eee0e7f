"""An agent made of functions: its card, its skills, and the choice among them (spec: AGNT-01, CARD-09, SEND-15)."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.calling import PassedOn
from a2a_server.agents.extensions import Extension
from a2a_server.agents.output import EVENTS, TurnEvent, TurnOutput
from a2a_server.agents.parts import Chunk, check_json
from a2a_server.agents.registration import LifespanFunction, Opener, check_skill, opener
from a2a_server.agents.turn import Result, Turn
from a2a_server.ports.agent import SKILL_KEY, InvalidAgentResponse, Outlet, Plan, TurnRequest
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.calling import OtherAgents
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.names import TEXT

Yield: TypeAlias = Chunk | pb.Artifact | TurnEvent | pb.Message
"""What a skill may yield."""
SkillFunction: TypeAlias = Callable[[Turn], Awaitable[Result]] | Callable[[Turn], AsyncIterator[Yield]]
ExtendCard: TypeAlias = Callable[[pb.AgentCard, Caller], pb.AgentCard | None]
_Function = TypeVar("_Function", bound=SkillFunction)
_ExtendCard = TypeVar("_ExtendCard", bound=ExtendCard)
_Lifespan = TypeVar("_Lifespan", bound=LifespanFunction)

_WHOLE = (*EVENTS, pb.Message, pb.Artifact)


@dataclass(frozen=True, slots=True)
class Skill:
    """One thing the agent can do."""

    function: SkillFunction
    plan: Plan
    streams: bool
    """Whether the function is an async generator."""


class Agent:
    """Give it skills with `@agent.skill`, and serve it. The first skill answers messages that name none."""

    def __init__(  # noqa: PLR0913 - an agent card has that many members
        self,
        name: str,
        description: str,
        version: str,
        *,
        provider: pb.AgentProvider | None = None,
        documentation_url: str | None = None,
        icon_url: str | None = None,
        default_input_modes: Sequence[str] = (),
        default_output_modes: Sequence[str] = (TEXT,),
        streaming: bool = True,
        extensions: Sequence[Extension] = (),
        extended: ExtendCard | None = None,
        lifespan: LifespanFunction | None = None,
    ) -> None:
        for member, text in (("name", name), ("description", description), ("version", version)):
            if not text:
                raise ValueError(f"An agent needs a {member}.")
        self._extensions = {extension.uri: extension for extension in extensions}
        if len(self._extensions) < len(extensions):
            raise ValueError(f"Agent {name!r}: two extensions have the same URI.")
        self._skills: dict[str, Skill] = {}
        self._default = ""
        self._extend = extended
        self._open: Opener | None = None if lifespan is None else opener(lifespan, self)
        self._resources: Any = None
        self._others: OtherAgents | None = None
        self._card = pb.AgentCard(
            name=name,
            description=description,
            version=version,
            provider=provider,
            documentation_url=documentation_url,
            icon_url=icon_url,
            default_input_modes=default_input_modes,
            default_output_modes=default_output_modes,
            capabilities=pb.AgentCapabilities(
                streaming=streaming,
                extensions=[extension.card() for extension in extensions],
                extended_agent_card=extended is not None,
            ),
        )

    # -- what authors call

    def skill(  # noqa: PLR0913 - a skill in the card has that many members
        self,
        *,
        id: str,  # noqa: A002 - the protocol's name for it
        name: str | None = None,
        description: str | None = None,
        tags: Sequence[str] = (),
        examples: Sequence[str] = (),
        input_modes: Sequence[str] = (),
        output_modes: Sequence[str] = (),
        restartable: bool = False,
        direct: bool = False,
        may_refuse: bool = False,
        scopes: Sequence[str] = (),
    ) -> Callable[[_Function], _Function]:
        """Register an async function, or an async generator, that answers messages.

        The description defaults to the function's docstring, and without one to the agent's own description.
        `restartable` skills run again after a crash, from their last checkpoint. `direct` skills may answer with
        `turn.reply` without making a task. Skills that `may_refuse` may raise an error of the protocol before their
        first event, and then there is no task (AGNT-12). `scopes` are what a caller needs to send it messages, where
        the server limits what callers may do; without them it gets PERMISSION_DENIED (GATE-07).
        """

        def register(function: _Function) -> _Function:
            check_skill(function, id, tags, scopes)
            text = description or inspect.getdoc(function) or self._card.description
            card = pb.AgentSkill(
                id=id,
                name=name or _title(id),
                description=text,
                tags=tags,
                examples=examples,
                input_modes=input_modes,
                output_modes=output_modes,
            )
            plan = Plan(
                restartable=restartable,
                direct=direct,
                may_refuse=may_refuse,
                sound=True,
                skill=id,
                scopes=frozenset(scopes),
            )
            self._register(card, function, plan)
            return function

        return register

    def extended(self, function: _ExtendCard) -> _ExtendCard:
        """Register the function that makes the extended card, from a copy of the public card and the caller."""
        if self._extend is not None:
            raise ValueError(f"Agent {self._card.name!r}: there is a function for the extended card already.")
        self._extend = function
        self._card.capabilities.extended_agent_card = True
        return function

    def lifespan(self, function: _Lifespan) -> _Lifespan:
        """Register what opens at the start and closes at the end; what it yields is `turn.resources`."""
        if self._open is not None:
            raise ValueError(f"Agent {self._card.name!r}: there is a lifespan already.")
        self._open = opener(function, self)
        return function

    def with_resources(self, resources: object) -> Agent:
        """The same agent, whose turns have these resources."""
        other = copy(self)
        other._resources = resources  # noqa: SLF001 - it is one of us
        return other

    def with_others(self, others: OtherAgents) -> Agent:
        other = copy(self)
        other._others = others  # noqa: SLF001 - as above
        return other

    def _register(self, card: pb.AgentSkill, function: SkillFunction, plan: Plan) -> None:
        if card.id in self._skills:
            raise ValueError(f"Agent {self._card.name!r}: two skills have the id {card.id!r}.")
        self._default = self._default or card.id
        self._skills[card.id] = Skill(function, plan, inspect.isasyncgenfunction(function))
        self._card.skills.append(card)

    # -- what the server calls

    @asynccontextmanager
    async def living(self) -> AsyncIterator[Agent]:
        """This agent with what its lifespan yields. Each server that runs it has a lifespan of its own."""
        if self._open is None:
            yield self
            return
        async with self._open() as resources:
            yield self.with_resources(resources)

    @property
    def card(self) -> pb.AgentCard:
        if not self._skills:
            raise ValueError(f"Agent {self._card.name!r} has no skill: decorate a function with @agent.skill(…).")
        copy = pb.AgentCard()
        copy.CopyFrom(self._card)
        return copy

    @property
    def skill_scopes(self) -> Mapping[str, frozenset[str]]:
        return {name: skill.plan.scopes for name, skill in self._skills.items() if skill.plan.scopes}

    def extended_card(self, caller: Caller) -> pb.AgentCard | None:
        return None if self._extend is None else self._extend(self.card, caller)

    def check(self, request: pb.SendMessageRequest, extensions: Collection[str]) -> Sequence[Violation]:
        faults = []
        named = _named(request)
        if named is not None and named not in self._skills:
            faults.append(Violation(f"metadata.{SKILL_KEY}", f"must be one of: {', '.join(self._skills)}"))
        for uri in extensions:
            if extension := self._extensions.get(uri):
                faults.extend(extension.faults(request))
        return faults

    def plan(self, request: pb.SendMessageRequest, state: bytes) -> Plan:
        try:
            begun = Saved.load(state).skill if state else ""
        except InvalidAgentResponse:
            return Plan()  # the turn itself reports it
        named = begun or (_named(request) if request.HasField("metadata") else None)
        skill = self._skills.get(self._default if named is None else named)
        return Plan() if skill is None else skill.plan

    async def run(self, request: TurnRequest, outlet: Outlet) -> None:
        saved = Saved.load(request.state) if request.state else Saved()
        # A task stays with the skill that it began with, whatever a later message names.
        default = self._default
        skill_id = saved.skill or (request.plan.skill if request.plan else _named(request)) or default
        skill = self._skills.get(skill_id, _GONE)
        output = TurnOutput(outlet)
        turn = Turn(
            *(request, output, skill_id, saved),
            direct=skill.plan.direct,
            default=skill_id == default,
            resources=self._resources,
            others=self._others,
        )
        try:
            answer: Any = skill.function(turn)
            if skill.streams:
                await _relay(turn, output, answer)
            else:
                turn._deliver(await answer)  # noqa: SLF001 - authors return instead
        except* PassedOn:  # the turn has asked what another agent asks, perhaps from within a TaskGroup
            pass
        finally:
            output.close()
        if not output.stopped:
            turn._conclude()  # noqa: SLF001 - as above


async def _relay(turn: Turn, output: TurnOutput, items: AsyncGenerator[Yield]) -> None:
    """Stream the yielded values into one artifact. Events, messages and whole artifacts are sent in between."""
    async with aclosing(items), turn.artifact() as out:
        async for item in items:
            if isinstance(item, _WHOLE):
                turn._deliver(item)  # noqa: SLF001 - not for authors, who yield instead
                await output.room()
            elif item is not None:
                await out.write(item)


async def _gone(turn: Turn) -> None:
    await turn.fail(f"This task began with the skill {turn.skill!r}, which is no longer offered.")


_GONE = Skill(_gone, Plan(), streams=False)
"""Answers for a skill that a task began with and the agent no longer has."""


def _title(skill_id: str) -> str:
    """A name for people: `book-a-table` becomes `Book a table`."""
    words = skill_id.replace("-", " ").replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _named(request: pb.SendMessageRequest | TurnRequest) -> str | None:
    """The skill that a request asks for, if any. A value that is no text counts as an empty name."""
    named = request.metadata.fields.get(SKILL_KEY)
    return None if named is None else named.string_value


@dataclass(slots=True)
class Saved:
    """What a task remembers between turns: its skill, the author's state, and how far the last turn had come."""

    skill: str = ""
    turn: int = 0
    """The turn that saved it."""
    artifacts: int = 0
    """How many artifacts that turn had finished. A rerun continues after them instead of replacing them."""
    values: dict[str, Any] = field(default_factory=dict)
    calls: dict[str, Any] = field(default_factory=dict)
    """The calls to other agents that have not ended, by their names."""
    written: bytes = b""
    """What the store has, or will have with the next event."""

    @classmethod
    def load(cls, blob: bytes) -> Saved:
        if not blob:
            return cls()
        try:
            kept = json.loads(blob)
            return cls(kept["skill"], kept["turn"], kept["artifacts"], kept["state"], kept.get("calls", {}), blob)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidAgentResponse("the saved state of the task was not written by this kind of agent") from error

    def dump(self) -> bytes:
        check_json(self.values, "state")
        kept = {"skill": self.skill, "turn": self.turn, "artifacts": self.artifacts, "state": self.values}
        return self._dumped(kept)

    def dump_calls(self, skill: str) -> bytes:
        """Return what was saved last, with the calls of now: the author's state is not ours to save."""
        empty = {"skill": skill, "turn": 0, "artifacts": 0, "state": {}}
        return self._dumped(json.loads(self.written) if self.written else empty)

    def _dumped(self, kept: dict[str, Any]) -> bytes:
        kept.pop("calls", None)
        whole = kept | {"calls": self.calls} if self.calls else kept
        self.written = json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        return self.written
