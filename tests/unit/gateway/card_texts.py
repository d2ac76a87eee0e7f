"""Run as a program: everything that is told of one card, as a process with its own order of maps tells it."""

import sys

import orjson

from a2a_gateway.cards.agent_card import Cards, LegacyCards
from a2a_gateway.openapi import document
from a2a_gateway.routing.table import Table
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.draft.json import card_json

NAMES = [f"{name}-{number}" for number in range(5) for name in ("oauth", "key", "mtls")]


def card() -> pb.AgentCard:
    made = pb.AgentCard(name="A", version="1")
    for name in NAMES:
        flow = made.security_schemes[name].oauth2_security_scheme.flows.client_credentials
        flow.scopes.update({scope: scope.upper() for scope in NAMES})
        made.skills.add(id=name).security_requirements.add().schemes[name].list.append("x")
    for name in NAMES:
        made.security_requirements.add().schemes[name].list.extend(NAMES)
        made.security_requirements[0].schemes[name].list.append("y")
    extension = made.capabilities.extensions.add(uri="urn:x")
    extension.params.update({name: [dict.fromkeys(NAMES, 1)] for name in NAMES})
    made.signatures.add(signature="s").header.update(dict.fromkeys(NAMES, 1))
    return made


def texts() -> list[bytes]:
    cards = Cards(base="http://a.example", max_age=60, legacy=LegacyCards())
    told = card()
    told.supported_interfaces.extend(cards.with_doors(told, "").supported_interfaces)  # which leaves it signed
    shown = cards.with_doors(told, "")
    forms = [cards.written(shown, asked) for asked in ((), ("1.0",), ("0.3",))]
    return [*forms, orjson.dumps(card_json(shown)), orjson.dumps(document(Table([]), card=shown))]


if __name__ == "__main__":
    sys.stdout.buffer.write(b"\n".join(texts()))
