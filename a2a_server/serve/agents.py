"""The agents of a server: their lives, their cards and limits, and the directory that lists them (spec: DOOR-06)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from urllib.parse import quote

from a2a_proto import a2a_pb2 as pb
from a2a_server import __version__
from a2a_server.operations.limits import Limits
from a2a_server.operations.rpc.cards import CardBook
from a2a_server.operations.services import ServedAgent, ServedAgents
from a2a_server.operations.turns.registry import Slots
from a2a_server.ports.agent import AgentPort, HasLifespan, Outlet, Plan, TurnRequest, UnsupportedOperation
from a2a_server.ports.authenticator import Caller, CardSecurity
from a2a_server.protocol.errors import Violation
from a2a_server.protocol.names import TEXT
from a2a_server.serve.lifespan import AgentLife
from a2a_server.settings import Settings
from a2a_server.settings.agents import AgentTable

Agents = AgentPort | HasLifespan | Mapping[str, AgentPort | HasLifespan]
"""One agent for all tenants, or several by their tenants."""
LivingAgents = AgentPort | Mapping[str, AgentPort]
"""The same, with what their lifespans yield."""
MakeCards = Callable[..., CardBook]
"""Called with an agent, and by keyword with what differs from agent to agent."""


class AgentLives:
    """The lives of all agents of one server."""

    def __init__(self, grace: float, stack: AsyncExitStack) -> None:
        """`stack` closes what the agents have opened."""
        self._grace = grace
        self._stack = stack
        self._lives: list[AgentLife] = []

    async def open(self, agents: Agents) -> LivingAgents:
        """The agents whose turns have what their lifespans yield. They are opened one after the other."""
        if not isinstance(agents, Mapping):
            return await self._opened(agents)
        return {tenant: await self._opened(agent, tenant) for tenant, agent in agents.items()}

    async def _opened(self, agent: AgentPort | HasLifespan, tenant: str = "") -> AgentPort:
        life = AgentLife(agent, self._grace, tenant)
        self._lives.append(life)
        self._stack.push_async_callback(life.close)
        return await life.open()

    def draining(self) -> None:
        """The grace period begins."""
        for life in self._lives:
            life.draining()


def served_agents_of(
    settings: Settings, agents: LivingAgents, limits: Limits, security: CardSecurity, make_cards: MakeCards
) -> ServedAgents:
    tables = {table.tenant: table for table in settings.agents}
    given = set(agents) if isinstance(agents, Mapping) else set()
    if given != tables.keys() or agents == {}:
        raise ValueError(f"there are agents for {sorted(given)}, and settings of agents for {sorted(tables)}")
    if not isinstance(agents, Mapping):
        return ServedAgents(make_cards(agents, security=security).served(limits))
    shared = Slots(limits)

    def served(table: AgentTable) -> ServedAgent:
        schemes, own = settings.auth.schemes_of(table.tenant), table.limits(limits)
        more = {} if table.push else {"push_notifications": False}
        cards = make_cards(agents[table.tenant], security=security_of(security, schemes, table.scopes), **more)
        return cards.served(own, None if table.has_slots else shared, listed=table.listed)

    by_tenant = {tenant: served(table) for tenant, table in tables.items()}
    root = by_tenant.get(settings.root_tenant)
    if root is None:
        directory = Directory(settings.directory, {name: one.card for name, one in by_tenant.items() if one.listed})
        root = make_cards(directory, security=security, push_notifications=False).served(limits, shared)
    return ServedAgents(root, by_tenant)


def security_of(security: CardSecurity, schemes: Collection[str], scopes: Collection[str]) -> CardSecurity:
    """What the card of one agent says about callers: only schemes that lead to it, and the scopes that it needs."""
    kept = [known for known in security.requirements if set(schemes).issuperset(known.schemes)]
    requirements = []
    for requirement in kept or security.requirements:  # an agent that nobody can call yet is not one that is open
        needed = pb.SecurityRequirement()
        needed.CopyFrom(requirement)
        for listed in needed.schemes.values():
            listed.list.extend(sorted(set(scopes).difference(listed.list)))
        requirements.append(needed)
    named = {name for requirement in requirements for name in requirement.schemes}
    return CardSecurity({name: it for name, it in security.schemes.items() if name in named}, requirements)


class Directory:
    """The root card of a server with several agents: its skills are the agents. It does no work itself."""

    def __init__(self, name: str, cards: Mapping[str, pb.AgentCard]) -> None:
        """`cards` are those of the agents that everybody may know, by their tenants."""
        text = "A directory of agents. Each skill is an agent; call it with its tenant."
        self._tenants = sorted(cards)
        self._card = pb.AgentCard(
            name=name,
            description=text,
            version=__version__,
            skills=[_entry(*one) for one in cards.items()],
            default_input_modes=[TEXT],
            default_output_modes=[TEXT],
        )

    @property
    def card(self) -> pb.AgentCard:
        return self._card

    def extended_card(self, caller: Caller) -> pb.AgentCard | None:
        del caller
        return None

    def check(self, request: pb.SendMessageRequest, extensions: Collection[str]) -> Sequence[Violation]:
        del request, extensions
        return [Violation("tenant", f"must name an agent: {', '.join(self._tenants)}")]

    def plan(self, request: pb.SendMessageRequest, state: bytes) -> Plan:
        del request, state
        return Plan()

    async def run(self, request: TurnRequest, outlet: Outlet) -> None:
        """Refuse what was begun before there was a directory."""
        raise UnsupportedOperation("This is a directory of agents.")


def _entry(tenant: str, card: pb.AgentCard) -> pb.AgentSkill:
    place = f"/{quote(tenant, safe='')}/.well-known/agent-card.json"
    text = f"{card.description} Its tenant is {tenant}, and its card is at {place}."
    tags: Iterable[str] = dict.fromkeys(["agent", *(tag for skill in card.skills for tag in skill.tags)])
    return pb.AgentSkill(id=tenant, name=card.name, description=text, tags=tags)
