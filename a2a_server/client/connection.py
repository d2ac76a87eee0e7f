"""Connects to an agent: finds its card, chooses an interface, and opens the binding."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import orjson

from a2a_proto import a2a_pb2 as pb
from a2a_server.client.binding import Binding, ClientLimits, Pairs
from a2a_server.client.credentials import CallerCredentials, PresentedCredentials, present
from a2a_server.client.discovery import Discovery, FoundCard
from a2a_server.client.grpc_binding import GrpcBinding, target_of
from a2a_server.client.http import HttpCaller
from a2a_server.client.interfaces import choose, version_of, versions_named
from a2a_server.client.jsonrpc import CurrentForm, JsonRpcBinding
from a2a_server.client.network import Network
from a2a_server.client.older import OlderBinding, OldForm, read_either, write_proto
from a2a_server.client.remote import Remote
from a2a_server.client.rest import RestBinding
from a2a_server.client.wire import OnWire, WireLog
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import (
    EXTENSIONS_HEADER,
    LEGACY,
    OLD_EXTENSIONS_HEADER,
    REPLAY_URI,
    VERSION_HEADER,
)

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_LIMITS: Final = ClientLimits()
_NETWORK: Final = Network()


@asynccontextmanager
async def connect(  # noqa: PLR0913 - by keyword
    agent: str | pb.AgentCard | FoundCard,
    *,
    credentials: CallerCredentials | None = None,
    transports: Sequence[str] = (),
    version: str | Iterable[str] | None = None,
    extensions: Sequence[str] = (),
    headers: Mapping[str, str] = _NO_HEADERS,
    trace: Mapping[str, str] = _NO_HEADERS,
    timeout: float | None = 60.0,  # noqa: ASYNC109 - of the calls, not of this function
    insecure: bool = False,
    network: Network = _NETWORK,
    discovery: Discovery | None = None,
    limits: ClientLimits = _LIMITS,
    on_wire: OnWire | None = None,
) -> AsyncIterator[Remote]:
    """Connect to an agent for the duration of the block. Raises `CallError` if there is no way to call it.

    `agent`: a host or an origin, the URL of a card, a `file://` URL or a path of one, or the card itself.
    `credentials`: sent to the chosen interface only, and only where the card's security schemes ask for them.
    `transports`: the bindings to prefer, best first, of `GRPC`, `JSONRPC` and `HTTP+JSON`; otherwise the card's order.
    `version`: 1.0, unless another one is asked for; several = any of these, best first.
    `extensions`: URIs to activate. Those that the card requires are always declared.
    `headers`: sent with every call, as metadata over gRPC. `trace`: the same for `traceparent` and `tracestate`.
    `timeout`: seconds for each call, and for the beginning of each stream; None = no limit.
    `insecure`: does not check certificates. `network`: has further choices for connections.
    `discovery`: reads the card, and remembers cards over several connections.
    `on_wire`: sees each message that is sent or received, with secrets masked.
    """
    versions = versions_named(version)
    network = replace(network, insecure=True) if insecure else network
    async with AsyncExitStack() as stack:
        found = await _found(agent, discovery, Discovery(limits, timeout or 60.0, network, on_wire))
        interface = choose(found.card, transports, versions)
        presented = present(found.card, credentials)
        wire = WireLog(on_wire, credentials.secrets() if credentials else ())
        binding = await _open(stack, found, interface, presented, limits, wire, network)
        metadata = _metadata(found.card, version_of(interface), extensions, {**headers, **trace})
        remote = Remote(
            found=found,
            interface=interface,
            version=version_of(interface),
            unused_credentials=presented.unused,
            _binding=binding,
            _metadata=metadata,
            _stream_metadata=_with_replay(metadata, found.card, interface),
            _timeout=timeout,
        )
        stack.push_async_callback(remote.close)
        yield remote


async def _found(agent: str | pb.AgentCard | FoundCard, given: Discovery | None, own: Discovery) -> FoundCard:
    if isinstance(agent, FoundCard):
        return agent
    if isinstance(agent, pb.AgentCard):
        return FoundCard(agent, orjson.loads(V1.encode(agent)))
    if given is not None:
        return await given.find(agent)
    try:
        return await own.find(agent)
    finally:
        await own.close()


async def _open(  # noqa: PLR0913, PLR0917 - all that a binding is made of
    stack: AsyncExitStack,
    found: FoundCard,
    interface: pb.AgentInterface,
    presented: PresentedCredentials,
    limits: ClientLimits,
    wire: WireLog,
    network: Network,
) -> Binding:
    is_old = version_of(interface) == LEGACY
    if interface.protocol_binding == "GRPC":
        target = target_of(interface.url, found.url)
        grpc = GrpcBinding(await network.grpc_address(target), presented, limits, wire)
        return OlderBinding(grpc) if is_old else grpc
    session = await stack.enter_async_context(network.new_session())
    caller = HttpCaller(session, presented, limits, wire)
    if interface.protocol_binding == "JSONRPC":
        return JsonRpcBinding(interface.url, caller, OldForm() if is_old else CurrentForm(V1))
    if is_old:
        return OlderBinding(RestBinding(interface.url, caller, write_proto, read_either, sends_whole=True))
    return RestBinding(interface.url, caller, V1.encode, V1.decode)


def _metadata(card: pb.AgentCard, version: str, extensions: Sequence[str], headers: Mapping[str, str]) -> Pairs:
    required = (one.uri for one in card.capabilities.extensions if one.required)
    uris = ", ".join(dict.fromkeys((*extensions, *required)))
    name = OLD_EXTENSIONS_HEADER if version == LEGACY else EXTENSIONS_HEADER
    declared = ((name, uris),) if uris else ()
    return ((VERSION_HEADER, version), *declared, *headers.items())


def _with_replay(metadata: Pairs, card: pb.AgentCard, interface: pb.AgentInterface) -> Pairs:
    """Ask for the numbers of events where they do not come by themselves, as they do over HTTP."""
    offered = any(one.uri == REPLAY_URI for one in card.capabilities.extensions)
    if interface.protocol_binding != "GRPC" or version_of(interface) == LEGACY or not offered:
        return metadata
    declared = ", ".join([*(value for name, value in metadata if name == EXTENSIONS_HEADER), REPLAY_URI])
    return (*((name, value) for name, value in metadata if name != EXTENSIONS_HEADER), (EXTENSIONS_HEADER, declared))
