"""Cards: one main URL, other names for the same members, and twins that travel as bytes."""

from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import LegacyOptions
from a2a_server.protocol.v0_3 import cards
from a2a_server.protocol.v0_3.cards import carry, superset

Json = dict[str, Any]


def interface(url: str, binding: str = "JSONRPC", version: str = "0.3", tenant: str = "") -> pb.AgentInterface:
    return pb.AgentInterface(url=url, protocol_binding=binding, protocol_version=version, tenant=tenant)


def doors(*interfaces: pb.AgentInterface, options: LegacyOptions | None = None) -> list[tuple[str, str]]:
    card = pb.AgentCard(supported_interfaces=interfaces)
    legacy = cards.downgrade(card, options) if options else cards.downgrade(card)
    assert (legacy.url, legacy.preferred_transport) == (
        legacy.additional_interfaces[0].url,
        legacy.additional_interfaces[0].transport,
    )
    return [(found.url, found.transport) for found in legacy.additional_interfaces]


@pytest.mark.req("LCRD-03")
def test_the_first_that_speaks_0_3_is_the_main_one_and_all_are_listed() -> None:
    assert doors(
        interface("x.example:443", "GRPC", "1.0"),
        interface("https://x.example/a2a", "JSONRPC", "0.3"),
        interface("https://x.example/next", "HTTP+JSON", "1.0"),
        interface("https://x.example/rest", "HTTP+JSON", "0.3.1"),
    ) == [("https://x.example/a2a", "JSONRPC"), ("https://x.example/rest", "HTTP+JSON")]


@pytest.mark.req("LCRD-04")
def test_one_url_has_one_transport() -> None:
    assert doors(interface("u:x", "JSONRPC"), interface("u:x", "HTTP+JSON"), interface("u:y", "HTTP+JSON")) == [
        ("u:x", "JSONRPC"),
        ("u:y", "HTTP+JSON"),
    ]


@pytest.mark.parametrize(
    ("given", "options", "written"),
    [
        pytest.param(interface("x.example:443", "GRPC"), None, "x.example:443", id="as-it-is"),
        pytest.param(interface("http://x.example:80", "GRPC"), None, "http://x.example:80", id="has-a-scheme"),
        pytest.param(interface("x.example", "JSONRPC"), None, "x.example", id="not-grpc"),
        pytest.param(
            interface("x.example:443", "GRPC"), LegacyOptions(grpc_urls=True), "https://x.example:443", id="bare"
        ),
    ],
)
def test_0_3_may_write_grpc_addresses_as_urls(
    given: pb.AgentInterface, options: LegacyOptions | None, written: str
) -> None:
    assert doors(given, options=options)[0][0] == written


@pytest.mark.parametrize("version", ["1.0", "", "0.30", "0.2", "0.3.x", "10.3"])
def test_a_card_without_an_interface_of_0_3_has_no_0_3_form(version: str) -> None:
    with pytest.raises(A2AError, match=r"no interface that speaks A2A 0\.3") as refused:
        doors(interface("u:x", version=version))
    assert refused.value.reason is Reason.VERSION_NOT_SUPPORTED


# What 1.0 has and 0.3 has not; both are on the list of losses.
ONLY_NEW = {"lf.a2a.v1.OAuthFlows": {"device_code"}, "lf.a2a.v1.AuthorizationCodeOAuthFlow": {"pkce_required"}}


def assert_twins(new: Descriptor, old: Descriptor | None) -> None:
    assert old is not None
    if new.full_name == old.full_name:  # one and the same, like Struct
        return
    extra = ONLY_NEW.get(new.full_name, set())
    shape = {field.number: (field.type, field.is_repeated) for field in new.fields if field.name not in extra}
    assert shape == {field.number: (field.type, field.is_repeated) for field in old.fields}, new.full_name
    renamed = {
        (field.name, old.fields_by_number[field.number].name)
        for field in new.fields
        if field.name not in extra and field.name != old.fields_by_number[field.number].name
    }
    assert renamed <= {("security_requirements", "security")}
    for field in new.fields:
        if field.message_type and field.name not in extra:
            assert_twins(field.message_type, old.fields_by_number[field.number].message_type)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (pb.AgentProvider, v03.AgentProvider),
        (pb.AgentExtension, v03.AgentExtension),
        (pb.AgentSkill, v03.AgentSkill),
        (pb.SecurityScheme, v03.SecurityScheme),
        (pb.SecurityRequirement, v03.Security),
    ],
)
def test_what_travels_as_bytes_has_the_same_shape(new: Any, old: Any) -> None:
    assert_twins(new.DESCRIPTOR, old.DESCRIPTOR)


def test_what_is_lost_does_not_travel_as_an_unknown_field() -> None:
    card = pb.AgentCard(supported_interfaces=[interface("u:x")])
    card.security_schemes["s"].oauth2_security_scheme.flows.device_code.token_url = "u:t"
    legacy = cards.downgrade(card)
    assert b"u:t" not in legacy.SerializeToString()
    assert legacy.security_schemes["s"].oauth2_security_scheme.HasField("flows")


def test_what_a_peer_sent_beyond_its_version_gets_no_meaning() -> None:
    flows = pb.OAuthFlows(device_code=pb.DeviceCodeOAuthFlow(token_url="u:t"))
    stranger = v03.OAuthFlows.FromString(flows.SerializeToString())
    target = pb.OAuthFlows()
    carry(stranger, target)
    assert target.SerializeToString() == b""
    assert stranger.SerializeToString() == flows.SerializeToString()  # left as it was


def test_where_both_have_a_value_1_0_is_right() -> None:
    assert superset({"a": 1, "b": [1], "c": {}}, {"a": 2, "b": [1, 2], "c": 3}) == {"a": 1, "b": [1], "c": {}}
