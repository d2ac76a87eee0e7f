"""What signatures of cards cover: RFC 8785 beside other people's programs, and which members stay (spec: SIGN)."""

from __future__ import annotations

import importlib
import json
import math
import shutil
import struct
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any, cast

import pytest
import rfc8785
from a2a.compat.v0_3 import types as v03_types
from google.api import field_behavior_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from hypothesis import example, given, settings
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from tests.property.messages import JSON, messages
from tests.support.house import V1, LegacyCards, signed_cards

signing: Any = importlib.import_module("a2a.utils.signing")  # its types are of its own protos
CARDS = messages(pb.AgentCard)
INTEGERS = st.integers(-(2**53) + 1, 2**53 - 1)
VALUES: st.SearchStrategy[Any] = st.recursive(
    JSON | INTEGERS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4)
)
NUMBERS = [0.0, -0.0, 1.0, 1e21, 1e20, 999999999999999900000.0, 1e-6, 1e-7, 5e-324, 1.7976931348623157e308, 0.1 + 0.2]
NUMBERS += [-1.5, 123456.789, 2.0**53, 2.0**60, 9007199254740993.0, 4.35, 1e23, 333333333.3333332, -1e-9]
TEXTS = ["", '"\\\b\f\n\r\t', "\x00\x1f\x7f\x80", "\u2028\u2029", "€\U0001f600ﬀ", "</script>", "\ufeff"]
NODE = """
const text = (value) => Array.isArray(value) ? `[${value.map(text)}]`
  : value !== null && typeof value === "object"
    ? `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${text(value[name])}`)}}`
    : JSON.stringify(value);
let input = "";
process.stdin.on("data", (chunk) => { input += chunk; });
process.stdin.on("end", () => process.stdout.write(JSON.stringify(JSON.parse(input).map(text))));
"""


@pytest.mark.req("SIGN-02")
@given(VALUES)
@example({"\ufb00": 1, "\U0001f600": 2})  # sorted by UTF-16, in which the second name is the first
def test_canonical_json_is_that_of_the_reference(value: Any) -> None:
    assert signed_cards.canonical(value).encode() == rfc8785.dumps(value)


@pytest.mark.req("SIGN-02")
@settings(max_examples=2000)
@given(st.integers(0, 2**64 - 1))
def test_every_double_is_written_as_the_reference_writes_it(bits: int) -> None:
    (value,) = struct.unpack("d", struct.pack("Q", bits))
    if math.isfinite(value):
        assert signed_cards.canonical(value).encode() == rfc8785.dumps(value)
    else:
        with pytest.raises(ValueError, match="is not JSON"):
            signed_cards.canonical(value)


@pytest.mark.req("SIGN-02")
@settings(max_examples=10, deadline=None)
@given(st.lists(VALUES, min_size=20, max_size=60))
def test_canonical_json_is_that_of_ecmascript(values: list[Any]) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    told = [*NUMBERS, *TEXTS, dict(zip(TEXTS, NUMBERS, strict=False)), *values]
    done = subprocess.run([node, "-e", NODE], input=json.dumps(told), capture_output=True, text=True, check=True)
    assert [signed_cards.canonical(value) for value in told] == json.loads(done.stdout)


def is_required(field: FieldDescriptor) -> bool:
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]


def by_the_rules(message: Message) -> dict[str, Any]:
    """SIGN-03, read off the descriptors."""
    told: dict[str, Any] = {}
    for field in cast("Any", message).DESCRIPTOR.fields:
        if field.name == "signatures":
            continue
        value = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            if not is_required(field):
                continue
        elif not field.has_presence and not is_required(field) and not value:
            continue
        told[field.json_name] = _json(field, value)
    return told


def _json(field: FieldDescriptor, value: Any) -> Any:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"]
        return {name: _json_of_one(inner, value[name]) for name in value}
    return [_json_of_one(field, it) for it in value] if field.is_repeated else _json_of_one(field, value)


def _json_of_one(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is None:
        return value
    return MessageToDict(value) if field.message_type.full_name == "google.protobuf.Struct" else by_the_rules(value)


@pytest.mark.req("SIGN-03")
@settings(max_examples=300, deadline=None)
@given(CARDS)
def test_members_stay_or_go_by_their_presence(card: pb.AgentCard) -> None:
    assert signed_cards.to_the_spec(card).decode() == signed_cards.canonical(by_the_rules(card))


@pytest.mark.req("SIGN-03", "SIGN-06")
@settings(max_examples=300, deadline=None)
@given(CARDS)
def test_the_form_of_1_0_is_the_letter_as_it_is_served(card: pb.AgentCard) -> None:
    served = json.loads(V1.encode(card))
    assert signed_cards.canonical_bytes(served) == signed_cards.to_the_spec(card)
    assert signed_cards.to_the_spec(V1.decode(served, pb.AgentCard)) == signed_cards.to_the_spec(card)


@pytest.mark.req("SIGN-06")
@settings(max_examples=300, deadline=None)
@given(CARDS)
def test_the_official_sdk_reads_the_same(card: pb.AgentCard) -> None:
    try:
        theirs = signing._canonicalize_agent_card(card)  # noqa: SLF001 - its signer and its verifier both call it
    except signing.CanonicalizationError:
        return  # of numbers that JSON cannot tell apart
    assert signed_cards.to_sdk(card).decode() == ("{}" if theirs == "null" else theirs)


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: kept for name, it in value.items() if (kept := _without_empty(it)) is not None} or None
    if isinstance(value, list):
        return [kept for it in value if (kept := _without_empty(it)) is not None] or None
    return None if value == "" else value


KINDS = ("http_auth", "api_key", "open_id_connect", "mtls")


@pytest.mark.req("SIGN-06")
@settings(max_examples=200, deadline=None)
@given(CARDS, st.lists(st.sampled_from(["JSONRPC", "GRPC", "HTTP+JSON"]), min_size=1, max_size=3), st.booleans())
def test_the_official_sdk_of_0_3_reads_the_same(card: pb.AgentCard, doors: list[str], both: bool) -> None:  # noqa: FBT001
    """Its models stand in for it; tests/interop asks the SDK itself."""
    for number, door in enumerate(doors):
        url = f"https://a.example/{number}"
        card.supported_interfaces.add(url=url, protocol_binding=door, protocol_version="0.3")
    for name in [name for name, scheme in card.security_schemes.items() if not _is_known_to_0_3(scheme)]:
        del card.security_schemes[name]
    card.signatures.add(protected="mine")
    seen = Seen()
    legacy = LegacyCards(signer=seen)
    read = v03_types.AgentCard.model_validate_json((legacy.both if both else legacy.card_0_3)(card))
    told = read.model_dump(exclude={"signatures"}, exclude_defaults=True, exclude_none=True, by_alias=True, mode="json")
    expected = json.dumps(_without_empty(told), separators=(",", ":"), sort_keys=True)
    assert seen.payloads[1].decode() == expected


class Seen:
    """Signs nothing, and knows what it was asked to sign."""

    payloads: Sequence[bytes] = ()

    def signed(self, card: pb.AgentCard, base: str) -> pb.AgentCard:
        raise AssertionError(base)

    def other_forms(
        self, signatures: Iterable[pb.AgentCardSignature], payloads: Sequence[bytes]
    ) -> list[dict[str, str]]:
        assert "mine" in [each.protected for each in signatures]
        self.payloads = payloads
        return []


def _is_known_to_0_3(scheme: pb.SecurityScheme) -> bool:
    kind = scheme.WhichOneof("scheme") or ""
    if kind == "api_key_security_scheme":
        scheme.api_key_security_scheme.location = "header"
    return kind.startswith(KINDS)


@pytest.mark.parametrize("value", [object(), {"a": b"bytes"}, [float("nan")]])
def test_what_is_no_json_has_no_canonical_form(value: Any) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        signed_cards.canonical(cast("object", value))
