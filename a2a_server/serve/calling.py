"""Lets an agent call other agents, as the settings allow (spec: AGNT-03)."""

from __future__ import annotations

from contextlib import AsyncExitStack

from a2a_server.adapters.cards import card_fault
from a2a_server.adapters.remote_agents import HostCredentials, OutgoingRules, RemoteAgents
from a2a_server.client import CallerCredentials, FoundCard, Network
from a2a_server.domain.hosts import HostList
from a2a_server.ports.agent import AgentPort
from a2a_server.ports.calling import CallsOthers
from a2a_server.serve.parts import trust_of
from a2a_server.settings import Settings
from a2a_server.settings.calls import CallCredentials


def calling(settings: Settings, agent: AgentPort, stack: AsyncExitStack) -> AgentPort:
    """The agent whose turns can call others; connections are opened by its first call."""
    if not isinstance(agent, CallsOthers):
        return agent
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
    others = RemoteAgents(rules, signature_fault)
    stack.push_async_callback(others.close)
    return agent.with_others(others)


def _shown(one: CallCredentials) -> HostCredentials:
    given = CallerCredentials(bearer=one.bearer.get_secret_value(), api_key=one.api_key.get_secret_value())
    return HostCredentials(HostList.of(one.hosts), given)


async def signature_fault(network: Network, found: FoundCard) -> str:
    """Say why the signatures of a card prove nothing; empty if one of them is valid."""
    async with network.new_session() as session:
        return await card_fault(session, found.url, found.document)
