"""Fetches cards, checks them and prints them (spec: CLI-16, -52, -67, -68)."""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.api import field_behavior_pb2
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.connected_agent import calling, connected, find_card
from a2a_server.cli.client.failures import CARD_INVALID, CommandFailure
from a2a_server.cli.client.output import tell, write_json
from a2a_server.cli.client.plain_text import one_line
from a2a_server.cli.client.sources import GivenSettings
from a2a_server.client import FoundCard, Network
from a2a_server.protocol.errors import Reason
from a2a_server.protocol.json_v1 import V1

_KEY_SECONDS: Final = 10.0


def show_card(told: GivenSettings, *, validate: bool, extended: bool) -> None:
    asyncio.run(_show(told, validate=validate, extended=extended))


async def _show(told: GivenSettings, *, validate: bool, extended: bool) -> None:
    async with calling(told) as calls:
        if extended:
            async with connected(told) as agent:
                calls.agent = agent
                offered = agent.remote.card.capabilities.extended_agent_card
                agent.need(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED, offered=offered)
                card = await agent.remote.get_extended_agent_card()
                found = FoundCard(card, json.loads(V1.encode(card)))
        else:
            found = await find_card(told)
        verdict = await _signatures(found, insecure=told.values.insecure)
    if validate and (faults := list(faults_of(found.card))):
        raise CommandFailure(CARD_INVALID, "; ".join(faults), hint="Tell whoever runs the agent.")
    if told.values.output == "json":
        write_json(found.document)
        tell(f"Signatures: {verdict}")
    else:
        sys.stdout.writelines(f"{label}: {one_line(value)}\n" for label, value in _fields(found.card, verdict) if value)


async def _signatures(found: FoundCard, *, insecure: bool) -> str:
    """Say what the signatures are worth. Whatever cannot be checked does not count as verified."""
    if not found.card.signatures:
        return "absent"
    if not found.url:
        return "unverifiable (only a card that was fetched names the place of its keys)"
    from a2a_server.serve.calling import signature_fault  # noqa: PLC0415 - takes a while, and few cards are signed

    warnings.simplefilter("ignore")  # of the library, about algorithms that others have chosen
    try:
        async with asyncio.timeout(_KEY_SECONDS):
            fault = await signature_fault(Network(insecure=insecure), found)
    except TimeoutError:
        fault = f"its keys did not come within {_KEY_SECONDS:g} s"
    return f"unverifiable ({fault})" if fault else "verified"


def faults_of(message: Message, path: str = "") -> Iterator[str]:
    """Name every required field that is empty."""
    for field in message.DESCRIPTOR.fields:
        name = f"{path}{field.json_name}"
        needed = field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        held: Any = getattr(message, field.name)
        missing = not message.HasField(field.name) if field.message_type and not field.is_repeated else not held
        if needed and missing:
            yield f"{name} is missing"
        elif field.message_type is None or field.message_type.full_name.startswith("google."):
            continue
        elif not field.is_repeated:
            if message.HasField(field.name):
                yield from faults_of(held, f"{name}.")
        elif isinstance(held, Mapping):
            for key, value in held.items():
                yield from faults_of(value, f"{name}.{key}.") if isinstance(value, Message) else ()
        else:
            for number, value in enumerate(held):
                yield from faults_of(value, f"{name}[{number}].")


def _fields(card: pb.AgentCard, verdict: str) -> Iterator[tuple[str, str]]:
    yield "Name", card.name
    yield "Description", card.description
    yield "Version", card.version
    yield "Provider", " ".join(filter(None, (card.provider.organization, card.provider.url)))
    yield "Documentation", card.documentation_url
    offers = card.capabilities
    yield "Streaming", _yes(offers.streaming)
    yield "Push notifications", _yes(offers.push_notifications)
    yield "Extended card", _yes(offers.extended_agent_card)
    for extension in offers.extensions:
        yield "Extension", f"{extension.uri}{' (required)' if extension.required else ''}"
    for interface in card.supported_interfaces:
        tenant = f" tenant {interface.tenant}" if interface.tenant else ""
        yield "Interface", f"{interface.protocol_binding} {interface.protocol_version} {interface.url}{tenant}"
    for name, scheme in sorted(card.security_schemes.items()):
        yield "Security scheme", f"{name}: {_scheme(scheme)}"
    for requirement in card.security_requirements:
        yield "Security requirement", " and ".join(sorted(requirement.schemes)) or "none"
    yield "Input modes", ", ".join(card.default_input_modes)
    yield "Output modes", ", ".join(card.default_output_modes)
    for skill in card.skills:
        yield "Skill", f"{skill.id}: {skill.name}"
        yield "Skill description", skill.description
        yield "Skill tags", ", ".join(skill.tags)
        yield from (("Skill example", example) for example in skill.examples)
    yield "Signatures", verdict


def _yes(offered: bool) -> str:  # noqa: FBT001 - one value, one word
    return "yes" if offered else "no"


def _scheme(scheme: pb.SecurityScheme) -> str:
    match scheme.WhichOneof("scheme"):
        case "api_key_security_scheme":
            key = scheme.api_key_security_scheme
            return f"API key in the {key.location} {key.name}"
        case "http_auth_security_scheme":
            return f"HTTP {scheme.http_auth_security_scheme.scheme}"
        case "oauth2_security_scheme":
            flow = scheme.oauth2_security_scheme.flows.WhichOneof("flow") or "no flow"
            return f"OAuth 2.0, {flow.replace('_', ' ')}"
        case "open_id_connect_security_scheme":
            return f"OpenID Connect {scheme.open_id_connect_security_scheme.open_id_connect_url}"
        case "mtls_security_scheme":
            return "mutual TLS"
    return "unknown"
