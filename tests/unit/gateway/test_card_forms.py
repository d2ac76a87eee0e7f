"""Which form of a card whom is told, and the three forms themselves (spec: LCRD, CARD, CONF-41, -42, -47, -68)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types as v03_types
from google.protobuf.json_format import ParseDict
from hypothesis import given

from a2a_gateway.cards.agent_card import LegacyCards, form_of
from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.v0_3 import cards
from tests.property.messages import messages
from tests.support.door_draft import draft_door
from tests.support.door_upstream import Scripted

Json = dict[str, Any]

LEGACY = LegacyCards()

FLOW = {"tokenUrl": "u:t", "refreshUrl": "u:r", "scopes": {"read": "to read"}}
NEEDS = [{"schemes": {"key": {}, "flow": {"list": ["read", "write"]}}}, {"schemes": {"tls": {}}}]
OLD_NEEDS = [{"key": [], "flow": ["read", "write"]}, {"tls": []}]
SKILL: Json = {"id": "s", "name": "S", "description": "D", "tags": ["t"], "examples": ["e"], "inputModes": ["a/b"]}
EXTENSION: Json = {"uri": "x:y", "description": "D", "required": True, "params": {"k": [1]}}
SHARED: Json = {
    "name": "N",
    "description": "D",
    "version": "7",
    "provider": {"url": "u:p", "organization": "O"},
    "documentationUrl": "u:d",
    "iconUrl": "u:i",
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/markdown"],
}
CARD: Json = SHARED | {
    "supportedInterfaces": [
        {"url": "x:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        {"url": "u:x", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        {"url": "u:y", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3", "tenant": "north"},
    ],
    "capabilities": {
        "streaming": True,
        "pushNotifications": False,
        "extendedAgentCard": True,
        "extensions": [EXTENSION],
    },
    "securitySchemes": {
        "key": {"apiKeySecurityScheme": {"description": "d", "location": "header", "name": "X-Key"}},
        "token": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
        "flow": {"oauth2SecurityScheme": {"flows": {"clientCredentials": FLOW}, "oauth2MetadataUrl": "u:m"}},
        "user": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "u:o"}},
        "tls": {"mtlsSecurityScheme": {}},
    },
    "securityRequirements": NEEDS,
    "skills": [SKILL | {"securityRequirements": NEEDS}],
    "signatures": [{"protected": "p", "signature": "s"}],
}
OLD_SCHEMES: Json = {
    "key": {"type": "apiKey", "description": "d", "in": "header", "name": "X-Key"},
    "token": {"type": "http", "scheme": "Bearer", "bearerFormat": "JWT"},
    "flow": {"type": "oauth2", "flows": {"clientCredentials": FLOW}, "oauth2MetadataUrl": "u:m"},
    "user": {"type": "openIdConnect", "openIdConnectUrl": "u:o"},
    "tls": {"type": "mutualTLS"},
}
OLD_CARD: Json = SHARED | {
    "protocolVersion": "0.3.0",
    "url": "u:x",
    "preferredTransport": "JSONRPC",
    "additionalInterfaces": [{"url": "u:x", "transport": "JSONRPC"}, {"url": "u:y", "transport": "HTTP+JSON"}],
    "capabilities": {
        "streaming": True,
        "pushNotifications": False,
        "stateTransitionHistory": False,
        "extensions": [EXTENSION],
    },
    "supportsAuthenticatedExtendedCard": True,
    "securitySchemes": OLD_SCHEMES,
    "security": OLD_NEEDS,
    "skills": [SKILL | {"security": OLD_NEEDS}],
}


def card_of(json: Json) -> pb.AgentCard:
    return ParseDict(json, pb.AgentCard())


def bare(**members: Any) -> pb.AgentCard:
    """Next to nothing, but for a door."""
    return card_of({"supportedInterfaces": CARD["supportedInterfaces"][1:2]} | members)


@pytest.mark.req("LCRD-02", "LCRD-03", "LMAP-02")
def test_the_form_of_the_0_3_schema() -> None:
    assert orjson.loads(LEGACY.card_0_3(card_of(CARD))) == OLD_CARD


@pytest.mark.req("LCRD-02", "LRES-05")
def test_the_form_that_all_clients_of_0_3_can_read() -> None:
    """The official ones: models of the schema, and the proto with what it does not know left out."""
    told = orjson.loads(LEGACY.card_0_3_both(card_of(CARD)))
    model = v03_types.AgentCard.model_validate(told)
    assert model == v03_types.AgentCard.model_validate(OLD_CARD)
    message = ParseDict(told, v03.AgentCard(), ignore_unknown_fields=True)
    assert message.security_schemes == cards.downgrade(card_of(CARD)).security_schemes
    without = orjson.loads(LEGACY.card_0_3_both(bare()))
    assert without == orjson.loads(LEGACY.card_0_3(bare()))


@pytest.mark.req("LCRD-02")
def test_what_0_3_requires_is_always_there() -> None:
    told = orjson.loads(LEGACY.card_0_3(bare(skills=[{}], provider={})))
    assert told == {
        "protocolVersion": "0.3.0",
        "name": "",
        "description": "",
        "url": "u:x",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": "u:x", "transport": "JSONRPC"}],
        "provider": {"url": "", "organization": ""},
        "version": "",
        "capabilities": {"streaming": False, "pushNotifications": False, "stateTransitionHistory": False},
        "defaultInputModes": [],
        "defaultOutputModes": [],
        "skills": [{"id": "", "name": "", "description": "", "tags": []}],
        "supportsAuthenticatedExtendedCard": False,
    }
    v03_types.AgentCard.model_validate(told)


@pytest.mark.parametrize(
    ("scheme", "told"),
    [
        (
            {"oauth2SecurityScheme": {"flows": {"authorizationCode": {"pkceRequired": True}}}},
            {"type": "oauth2", "flows": {"authorizationCode": {"authorizationUrl": "", "tokenUrl": "", "scopes": {}}}},
        ),
        (
            {"oauth2SecurityScheme": {"flows": {"implicit": {}}}},
            {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "", "scopes": {}}}},
        ),
        (
            {"oauth2SecurityScheme": {"flows": {"password": {}}}},
            {"type": "oauth2", "flows": {"password": {"tokenUrl": "", "scopes": {}}}},
        ),
        ({"oauth2SecurityScheme": {"flows": {"deviceCode": {"tokenUrl": "u:t"}}}}, {"type": "oauth2", "flows": {}}),
        ({"oauth2SecurityScheme": {}}, {"type": "oauth2", "flows": {}}),
        ({"apiKeySecurityScheme": {}}, {"type": "apiKey", "in": "", "name": ""}),
        ({"httpAuthSecurityScheme": {}}, {"type": "http", "scheme": ""}),
        ({"openIdConnectSecurityScheme": {}}, {"type": "openIdConnect", "openIdConnectUrl": ""}),
        ({}, None),  # of a kind that nobody here knows
    ],
)
def test_every_kind_of_scheme(scheme: Json, told: Json | None) -> None:
    found = orjson.loads(LEGACY.card_0_3(bare(securitySchemes={"s": scheme})))["securitySchemes"]
    assert found == ({} if told is None else {"s": told})


def test_no_security_at_all_is_an_alternative_too() -> None:
    assert orjson.loads(LEGACY.card_0_3(bare(securityRequirements=[{}])))["security"] == [{}]


@pytest.mark.req("LCRD-01")
def test_the_official_sdk_reads_the_0_3_form() -> None:
    card = v03_types.AgentCard.model_validate_json(LEGACY.card_0_3(card_of(CARD)))
    assert card.model_dump(mode="json", by_alias=True, exclude_none=True) == {
        name: [{key: value for key, value in skill.items() if value is not None} for skill in value]
        if name == "skills"
        else value
        for name, value in OLD_CARD.items()
    }


# -- the superset


def test_the_superset_of_a_whole_card() -> None:
    told = orjson.loads(LEGACY.both(card_of(CARD)))
    assert told == CARD | OLD_CARD | {
        "capabilities": CARD["capabilities"] | OLD_CARD["capabilities"],
        "securitySchemes": {name: scheme | OLD_SCHEMES[name] for name, scheme in CARD["securitySchemes"].items()},
        "skills": [SKILL | {"securityRequirements": NEEDS, "security": OLD_NEEDS}],
    }


@pytest.mark.parametrize(
    "flows",
    [
        {"deviceCode": {"deviceAuthorizationUrl": "u:d", "tokenUrl": "u:t", "scopes": {}}},
        {"authorizationCode": {"authorizationUrl": "u:a", "tokenUrl": "u:t", "scopes": {}, "pkceRequired": True}},
    ],
)
def test_nothing_that_1_0_says_is_lost_for_who_looks_at_the_old_members_first(flows: Json) -> None:
    """As the official SDK does, which takes a scheme with a `type` for one of 0.3."""
    card = bare(securitySchemes={"s": {"oauth2SecurityScheme": {"flows": flows}}})
    assert parse_agent_card(orjson.loads(LEGACY.both(card))).security_schemes["s"] == card.security_schemes["s"]


def test_the_official_sdk_reads_the_superset_in_both_its_versions() -> None:
    card, told = card_of(CARD), LEGACY.both(card_of(CARD))
    assert parse_agent_card(orjson.loads(told)) == card
    assert v03_types.AgentCard.model_validate_json(told).model_dump(exclude={"signatures"}) == (
        v03_types.AgentCard.model_validate(OLD_CARD).model_dump(exclude={"signatures"})
    )


def test_a_card_that_speaks_no_0_3_has_no_old_form() -> None:
    card = card_of(CARD | {"supportedInterfaces": CARD["supportedInterfaces"][:1]})
    for write in (LEGACY.card_0_3, LEGACY.card_0_3_both, LEGACY.both):
        with pytest.raises(A2AError) as refused:
            write(card)
        assert refused.value.reason is Reason.VERSION_NOT_SUPPORTED


def test_the_same_card_is_written_once() -> None:
    legacy, doors = LegacyCards(), CARD["supportedInterfaces"][:2]
    same, again = bare(supportedInterfaces=doors), bare(supportedInterfaces=doors)
    assert legacy.card_0_3(same) is legacy.card_0_3(again)
    assert legacy.both(same) is legacy.both(again)
    assert legacy.both(same) != legacy.card_0_3(same)
    assert legacy.card_0_3(bare(supportedInterfaces=doors, name="other")) != legacy.card_0_3(same)
    assert V1.decode(orjson.loads(legacy.both(same)), pb.AgentCard).supported_interfaces


@pytest.mark.req("TENA-04")
def test_a_card_with_doors_of_0_3_alone_is_not_kept() -> None:
    """It may be a tenant's, and a faster answer would tell that somebody has asked for it."""
    legacy = LegacyCards()
    assert legacy.card_0_3(bare()) is not legacy.card_0_3(bare())
    assert legacy.both(bare()) is not legacy.both(bare())


# -- who is told which


@pytest.mark.req("VERS-04", "VERS-06")
@pytest.mark.parametrize(
    ("asked", "form"),
    [
        ([], "both"),
        ([""], "both"),
        ([" "], "both"),
        (["1.0"], "1.0"),
        (["1.0.7"], "1.0"),
        (["0.3"], "0.3"),
        (["0.3.0"], "0.3"),
        ([" 0.3 "], "0.3"),
        (["0.3", "0.3.1"], "0.3"),
        (["", "1.0"], "1.0"),
    ],
)
def test_the_version_that_is_asked_for(asked: list[str], form: str) -> None:
    assert form_of(asked, default="auto", legacy=True) == form


@pytest.mark.req("VERS-02", "VERS-08", "VERS-09")
@pytest.mark.parametrize(
    ("asked", "legacy", "shown"),
    [
        (["7.0"], True, "7.0"),
        (["1"], True, "1"),
        (["1.0."], True, "1.0."),
        (["1.0.0.0"], True, "1.0.0.0"),
        (["v1.0"], True, "v1.0"),
        (["1.0,0.3"], True, "1.0,0.3"),
        (["1.0", "0.3"], True, "1.0,0.3"),
        (["\u0660.3"], True, "\u0660.3"),  # a digit, but not one of ours
        (["0.30"], True, "0.30"),
        (["0.3"], False, "0.3"),
        (["x" * 1000], True, "x" * 100),
    ],
)
def test_any_other_version_is_not_supported(asked: list[str], legacy: bool, shown: str) -> None:  # noqa: FBT001
    with pytest.raises(A2AError) as refused:
        form_of(asked, default="auto", legacy=legacy)
    assert refused.value.reason is Reason.VERSION_NOT_SUPPORTED
    offered = ["1.0", "0.3"] if legacy else ["1.0"]
    assert refused.value.metadata == {"requestedVersion": shown, "supportedVersions": ",".join(offered)}
    assert refused.value.message == (
        f'This card is available for A2A {" or ".join(offered)}; the request asks for "{shown}".'
    )


@pytest.mark.parametrize("default", ["1.0", "0.3"])
def test_the_operator_says_what_nobody_asked_for(default: Any) -> None:
    assert form_of([], default=default, legacy=True) == default
    assert form_of(["1.0"], default=default, legacy=True) == "1.0"
    assert form_of(["0.3"], default=default, legacy=True) == "0.3"


def test_without_0_3_there_is_one_form() -> None:
    assert form_of([], default="auto", legacy=False) == "1.0"


TWO_TENANTS = "/.well-known/agent-card.json"


@pytest.mark.req("DRFT-05")
async def test_each_tenant_has_the_doors_once() -> None:
    elsewhere = [
        pb.AgentInterface(url="h:1", protocol_binding="GRPC", protocol_version="1.0", tenant=tenant)
        for tenant in ("north", "south", "north")
    ]
    card = pb.AgentCard(name="A", supported_interfaces=elsewhere, signatures=[pb.AgentCardSignature(signature="s")])
    async with draft_door(Scripted(card)) as client:
        told = await client.told("GET", TWO_TENANTS)
        rest, rpc = client.base, f"{client.base}/"
    assert told["supportedInterfaces"] == [
        {"url": url, "protocolBinding": binding, "tenant": tenant}
        for tenant in ("north", "south")
        for url, binding in ((rest, "HTTP+JSON"), (rpc, "JSONRPC"))
    ]
    assert [(door["url"], door["transport"]) for door in told["additionalInterfaces"]] == [
        (rest, "HTTP+JSON"),
        (rpc, "JSONRPC"),
    ]
    assert "signatures" not in told


@pytest.mark.req("DRFT-05")
async def test_a_card_without_doors_gets_those_of_the_draft() -> None:
    skill = pb.AgentSkill(
        id="s", security_requirements=[pb.SecurityRequirement(schemes={"k": pb.StringList(list=["read"])})]
    )
    async with draft_door(Scripted(pb.AgentCard(name="A", skills=[skill]))) as client:
        told = await client.told("GET", TWO_TENANTS)
        assert [door["url"] for door in told["supportedInterfaces"]] == [client.base, f"{client.base}/"]
    assert told["capabilities"] == {"stateTransitionHistory": False}
    assert told["supportsExtendedAgentCard"] is False
    assert told["skills"][0]["security"] == [{"schemes": {"k": {"list": ["read"]}}}]


DOOR = pb.AgentInterface(url="u:x", protocol_binding="JSONRPC", protocol_version="0.3")


def missing(whole: Any, part: Any, path: str = "card") -> list[str]:
    """Where the part has what the whole has not."""
    if isinstance(part, dict) and isinstance(whole, dict):
        absent = [f"{path}.{name}" for name in part if name not in whole]
        return absent + [
            fault for name in part if name in whole for fault in missing(whole[name], part[name], f"{path}.{name}")
        ]
    if isinstance(part, list) and isinstance(whole, list) and len(whole) == len(part):
        pairs = enumerate(zip(whole, part, strict=True))
        return [fault for at, (mine, theirs) in pairs for fault in missing(mine, theirs, f"{path}[{at}]")]
    return [] if whole == part else [f"{path} is {whole!r}, not {part!r}"]


@given(messages(pb.AgentCard))
def test_the_superset_has_every_member_of_both_forms_and_no_other(card: pb.AgentCard) -> None:
    card.supported_interfaces.append(DOOR)
    both, new, old = (orjson.loads(text) for text in (LEGACY.both(card), V1.encode(card), LEGACY.card_0_3(card)))
    assert missing(both, new) == []
    flags = [f"card.capabilities.{flag}" for flag in ("streaming", "pushNotifications")]
    assert set(missing(both, old)) <= set(flags)  # which are off where they are absent
    assert set(both) == set(new) | set(old)
    assert V1.decode(both, pb.AgentCard) == V1.decode(new, pb.AgentCard)
