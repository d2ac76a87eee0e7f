"""The settings of several agents in one server, one per tenant (spec: DOOR-06)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from a2a_server.domain.rights import name_fault
from a2a_server.operations.limits import Limits
from a2a_server.protocol.options import Bound, NameList, Span, all_are, wrong
from a2a_server.settings.sections import Section, tables
from a2a_server.transport.steps import tenant_fault

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

    from a2a_server.settings.model import Settings

DEMO = "a2a_server.demo:agent"

_LIMITS = "running_turns", "running_turns_per_caller", "turn_timeout", "cancel_grace"


class AgentTable(Section):
    """One of several agents in this server, with a tenant of its own."""

    tenant: str = Field(min_length=1)
    """The tenant that it serves. Its card is at /TENANT/.well-known/agent-card.json."""
    agent: str = ""
    """The agent: MODULE:NAME or path/to/file.py:NAME. Programs that pass agents to the server leave it out."""
    card: str = ""
    """A JSON file with its card, as `card.file`, if it is an `AgentExecutor` of the official SDK."""
    listed: bool = True
    """Whether everybody may read its card, and a root card that is a directory lists it. If not, strangers are told
    that there is no such agent."""
    scopes: Annotated[NameList, all_are(lambda name: not name_fault(name), "must be names of scopes")] = ()
    """The scopes or roles that a caller needs to call it at all; none = everybody who may call."""
    push: bool = True
    """Whether its tasks have webhooks, if `push.enabled`. Its card says so."""
    running_turns: Bound = 0
    """How many of its turns may run at once. They are then not counted with those of other agents; 0 = as in `limits`.
    """
    running_turns_per_caller: Bound = 0
    """How many of its turns one caller may have running at once. They are then not counted with those of other agents;
    0 = as in `limits`."""
    turn_timeout: Span = 0.0
    """How long one of its turns may run, in seconds; 0 = as in `limits`."""
    cancel_grace: Span = 0.0
    """How long it may clean up after a cancel, in seconds; 0 = as in `limits`."""

    @field_validator("tenant")
    @classmethod
    def _is_usable(cls, value: str) -> str:
        if fault := tenant_fault(value):
            raise ValueError(fault)
        return value

    @property
    def has_slots(self) -> bool:
        """Whether its running turns are counted apart from those of the others."""
        return bool(self.running_turns or self.running_turns_per_caller)

    def limits(self, shared: Limits) -> Limits:
        """The limits of this agent: its own, and for the others those that all agents have."""
        own = {name: value for name in _LIMITS if (value := getattr(self, name))}
        return replace(shared, **own)


def _distinct(entries: tuple[AgentTable, ...]) -> tuple[AgentTable, ...]:
    counted = Counter(entry.tenant for entry in entries)
    if twice := [tenant for tenant, times in counted.items() if times > 1]:
        raise ValueError(f'several agents have the tenant "{twice[0]}"; each needs one of its own')
    return entries


AgentTables = Annotated[
    tuple[AgentTable, ...],
    BeforeValidator(tables('[{"tenant": "weather", "agent": "weather.py"}]')),
    AfterValidator(_distinct),
]


def agent_faults(settings: Settings) -> Iterator[PydanticCustomError]:
    """What the settings of agents say against each other, and against those of tenants."""
    if settings.directory and not settings.agents:
        yield wrong("directory", settings.directory, "lists several agents; there are no [[agents]]", reads=("agents",))
    if not settings.agents:
        return
    if settings.directory and not any(entry.listed for entry in settings.agents):
        yield wrong("directory", settings.directory, "would list nobody: all [[agents]] have listed = false")
    if settings.root_tenant in {entry.tenant for entry in settings.agents if not entry.listed}:
        message = "its card is at the root, and it has listed = false; set default_tenant or directory"
        yield wrong("agents", settings.root_tenant, message, reads=("default_tenant", "directory"))
    if settings.agent != DEMO:
        yield wrong("agent", settings.agent, "is one agent, and [[agents]] are several; choose one", reads=("agents",))
    if settings.tenants:
        yield wrong("tenants", list(settings.tenants), "leave it out: the tenants are those of [[agents]]")
    if settings.directory and settings.default_tenant:
        message = "has no effect with `directory`: calls must name a tenant; leave out one of them"
        yield wrong("default_tenant", settings.default_tenant, message, reads=("directory",))
