"""Lets agents call other agents, as the settings allow (spec: AGNT-03)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from a2a_server.adapters.cards import card_fault
from a2a_server.adapters.remote_agents import HostCredentials, OutgoingRules, RemoteAgents, RemoteConnections
from a2a_server.client import CallerCredentials, FoundCard, Network
from a2a_server.domain.hosts import HostList
from a2a_server.ports.calling import CallsOthers
from a2a_server.serve.agents import LivingAgents
from a2a_server.serve.parts import trust_of
from a2a_server.settings import Settings
from a2a_server.settings.calls import CallCredentials


def calling(settings: Settings, agents: LivingAgents, stack: AsyncExitStack) -> LivingAgents:
    """The agents whose turns can call others. They share connections, which are opened by the first call."""
    several = agents if isinstance(agents, Mapping) else {"": agents}
    if not any(isinstance(agent, CallsOthers) for agent in several.values()):
        return agents
    calls = settings.calls
    rules = OutgoingRules(
        policy=calls.policy,
        credentials=[_shown(one) for one in calls.credentials],
        versions=calls.versions,
        transports=calls.transports,
        signed=calls.signed,
        timeout=calls.timeout,
        trust=trust_of(calls.trust),
    )
    others = RemoteAgents(RemoteConnections(rules, signature_fault))
    stack.push_async_callback(others.close)
    able = {tenant: it.with_others(others) if isinstance(it, CallsOthers) else it for tenant, it in several.items()}
    return able if isinstance(agents, Mapping) else able[""]


def _shown(one: CallCredentials) -> HostCredentials:
    given = CallerCredentials(bearer=one.bearer.get_secret_value(), api_key=one.api_key.get_secret_value())
    return HostCredentials(HostList.of(one.hosts), given)


async def signature_fault(network: Network, found: FoundCard) -> str:
    """Say why the signatures of a card prove nothing; empty if one of them is valid."""
    async with network.new_session() as session:
        return await card_fault(session, found.url, found.document)
