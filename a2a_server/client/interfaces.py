"""Chooses the interface of a card that is called (spec: CLI-48, CLI-50, OP-14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.client.failures import AgentError, CallError, NoTransportError
from a2a_server.protocol.errors import Reason, major_minor
from a2a_server.protocol.names import CURRENT, LEGACY

BINDINGS: Final = ("GRPC", "JSONRPC", "HTTP+JSON")
"""All that are spoken."""
VERSIONS: Final = (CURRENT, LEGACY)
_SPELLINGS: Final = {"rest": "HTTP+JSON", "http+json": "HTTP+JSON", "grpc": "GRPC", "jsonrpc": "JSONRPC"}


def binding_named(name: str) -> str:
    """Return a binding as cards spell it. Raises `CallError` if there is no such binding."""
    known = _SPELLINGS.get(name.strip().lower().replace("json-rpc", "jsonrpc"))
    if known is None:
        raise CallError(f"{name!r} is no transport; use GRPC, JSONRPC or HTTP+JSON.")
    return known


def versions_named(version: str | Iterable[str] | None) -> Sequence[str]:
    """Return the versions that may be spoken: 1.0 unless another one is asked for by name."""
    asked = (CURRENT,) if version is None else (version,) if isinstance(version, str) else tuple(version)
    versions = [major_minor(one.strip()) for one in asked]
    if unknown := [one for one in versions if one not in VERSIONS]:
        text = f"This client speaks A2A {' and '.join(VERSIONS)}, not {unknown[0]!r}."
        raise AgentError(text, reason=Reason.VERSION_NOT_SUPPORTED)
    return versions


def version_of(interface: pb.AgentInterface) -> str:
    return major_minor(interface.protocol_version.strip()) or CURRENT


def choose(card: pb.AgentCard, transports: Sequence[str], versions: Sequence[str]) -> pb.AgentInterface:
    """Return the first interface with the first of the transports that the card offers, or else its first at all.

    Of several versions the first one counts that the card offers.
    """
    offered = [it for it in card.supported_interfaces if it.protocol_binding in BINDINGS and it.url]
    if not offered:
        names = ", ".join(dict.fromkeys(it.protocol_binding for it in card.supported_interfaces)) or "none"
        raise NoTransportError(f"The card offers none of {', '.join(BINDINGS)}; it offers: {names}.")
    usable = next(filter(None, ([it for it in offered if version_of(it) == version] for version in versions)), [])
    if not usable:
        told = ", ".join(dict.fromkeys(map(version_of, offered)))
        text = f"The agent speaks A2A {told}, and the call asks for {', '.join(versions)}."
        raise AgentError(text, reason=Reason.VERSION_NOT_SUPPORTED)
    for transport in map(binding_named, transports):
        for interface in usable:
            if interface.protocol_binding == transport:
                return interface
    return usable[0]
