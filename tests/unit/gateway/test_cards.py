"""The card as a gateway shows it (spec: CARD-03, CARD-04, LCRD-02 to LCRD-04, CACH)."""

import json
import os
import subprocess
import sys
from email.utils import formatdate
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import make_mocked_request
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from multidict import CIMultiDict
from structlog.testing import capture_logs

from a2a_gateway.cards.agent_card import Cards, CardWriter, LegacyCards
from a2a_gateway.cards.card_file import CardFileError, UpstreamWithCard, read_card
from a2a_gateway.cards.interfaces import doors_at, old_doors_at
from a2a_gateway.upstream import Answer, CallContext, UpstreamAnswer, UpstreamStream
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.v0_3 import cards as compat
from tests.support.upstreams import CARD, PLAIN, rpc

BASE = "http://127.0.0.1:8080"
GRPC = pb.AgentInterface(url="a.example:443", protocol_binding="GRPC", protocol_version="1.0")
CUSTOM = pb.AgentInterface(url="https://a.example/x", protocol_binding="urn:x", protocol_version="1.0")
THEIRS = doors_at("https://inner.example")
OURS = doors_at(BASE)
OLD_GRPC = pb.AgentInterface(url="http://a.example:80", protocol_binding="GRPC", protocol_version="0.3")
OLD_THEIRS = old_doors_at("https://inner.example")
OLD_OURS = old_doors_at(BASE)
LEGACY = LegacyCards()


def card(*doors: pb.AgentInterface) -> pb.AgentCard:
    return pb.AgentCard(name="A", supported_interfaces=doors, signatures=[pb.AgentCardSignature(signature="s")])


def shown(*doors: pb.AgentInterface, base: str = "", **choices: Any) -> list[pb.AgentInterface]:
    made = Cards(base=BASE, max_age=60, **choices).with_doors(card(*doors), base)
    return list(made.supported_interfaces)


@pytest.mark.req("CARD-03", "CARD-04", "CARD-05", "CARD-06")
@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        ([], OURS),
        ([GRPC], [GRPC, *OURS]),
        ([GRPC, *THEIRS], [GRPC, *OURS]),
        ([*THEIRS, GRPC], [*OURS, GRPC]),
        ([THEIRS[1], GRPC, THEIRS[0], CUSTOM], [*OURS, GRPC, CUSTOM]),
        ([GRPC, THEIRS[0], CUSTOM], [GRPC, *OURS, CUSTOM]),
    ],
)
def test_our_doors_stand_where_theirs_were(declared: list[pb.AgentInterface], wanted: list[pb.AgentInterface]) -> None:
    assert shown(*declared) == wanted


def test_doors_elsewhere_can_be_left_out() -> None:
    assert shown(GRPC, *THEIRS, CUSTOM, keep_others=False) == OURS


@pytest.mark.req("DOOR-05")
@pytest.mark.parametrize("base", ["https://public.example/a2a", "https://public.example/a2a/"])
def test_a_better_known_url_is_used(base: str) -> None:
    assert [door.url for door in shown(base=base)] == ["https://public.example/a2a", "https://public.example/a2a/"]


def test_the_tenant_of_a_door_stays() -> None:
    doors = shown(pb.AgentInterface(url="a:1", protocol_binding="GRPC", protocol_version="1.0", tenant="north"))
    assert [(door.protocol_binding, door.tenant) for door in doors] == [
        ("GRPC", "north"),
        ("HTTP+JSON", "north"),
        ("JSONRPC", "north"),
    ]


# -- the doors of 0.3


@pytest.mark.req("CARD-03", "CARD-04", "CARD-06", "LCRD-02", "LCRD-03", "LCRD-04")
@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        ([], [*OURS, *OLD_OURS]),
        ([GRPC], [GRPC, *OURS, *OLD_OURS]),
        ([GRPC, OLD_GRPC], [GRPC, *OURS, *OLD_OURS, OLD_GRPC]),  # who reads `url` alone speaks JSON-RPC
        ([*OLD_THEIRS, GRPC], [GRPC, *OURS, *OLD_OURS]),  # 1.0 first
        ([GRPC, *THEIRS, OLD_GRPC, *OLD_THEIRS], [GRPC, *OURS, OLD_GRPC, *OLD_OURS]),  # as their server prefers it
        ([*THEIRS, OLD_THEIRS[0], OLD_GRPC], [*OURS, *OLD_OURS, OLD_GRPC]),
    ],
)
def test_doors_of_0_3_stand_behind_those_of_1_0(
    declared: list[pb.AgentInterface], wanted: list[pb.AgentInterface]
) -> None:
    assert shown(*declared, legacy=LEGACY) == wanted


def test_without_0_3_only_doors_elsewhere_may_speak_it() -> None:
    assert shown(GRPC, *THEIRS, *OLD_THEIRS, OLD_GRPC) == [GRPC, *OURS, OLD_GRPC]


@pytest.mark.req("LCRD-02", "LCRD-04")
@pytest.mark.parametrize("base", ["https://public.example/a2a", "https://public.example/a2a/"])
def test_json_rpc_of_0_3_has_the_main_url_and_no_url_has_two_transports(base: str) -> None:
    doors = compat.downgrade(Cards(base=base, max_age=60, legacy=LEGACY).with_doors(card(), ""))
    assert (doors.url, doors.preferred_transport) == ("https://public.example/a2a/", "JSONRPC")
    assert [(door.url, door.transport) for door in doors.additional_interfaces] == [
        ("https://public.example/a2a/", "JSONRPC"),
        ("https://public.example/a2a", "HTTP+JSON"),
    ]


def test_clients_of_0_3_find_a_tenant_in_the_url() -> None:
    """If they have paths of their own."""
    doors = [
        pb.AgentInterface(url=f"{tenant or 'a'}:1", protocol_binding="GRPC", protocol_version="1.0", tenant=tenant)
        for tenant in ("", "north", "south")
    ]
    for tenants, named in ((True, ("north", "south")), (False, ())):
        found = [door for door in shown(*doors, legacy=LEGACY, tenants=tenants) if door.protocol_version == "0.3"]
        assert found == [*OLD_OURS, *(door for name in named for door in old_doors_at(f"{BASE}/{name}"))]


# -- forms


@pytest.mark.req("LCRD-01")
@pytest.mark.parametrize(
    ("asked", "members"), [([], {"url", "supportedInterfaces"}), (["1.0"], {"supportedInterfaces"}), (["0.3"], {"url"})]
)
def test_the_form_is_that_of_the_version(asked: list[str], members: set[str]) -> None:
    cards = Cards(base=BASE, max_age=60, legacy=LEGACY)
    told = orjson.loads(cards.written(cards.with_doors(card(), ""), asked))
    assert {"url", "supportedInterfaces"} & set(told) == members


@pytest.mark.parametrize(("form", "members"), [("1.0", {"supportedInterfaces"}), ("0.3", {"url"})])
def test_the_operator_chooses_for_who_does_not(form: Any, members: set[str]) -> None:
    cards = Cards(base=BASE, max_age=60, legacy=LEGACY, form=form)
    told = orjson.loads(cards.written(cards.with_doors(card(), ""), []))
    assert {"url", "supportedInterfaces"} & set(told) == members


def test_a_card_whose_doors_all_speak_1_0_has_one_form() -> None:
    """Where every door belongs to a tenant whom 0.3 cannot name."""
    cards = Cards(base=BASE, max_age=60, legacy=LEGACY)
    theirs = card(pb.AgentInterface(url="a:1", protocol_binding="GRPC", protocol_version="1.0", tenant="north"))
    assert "url" not in orjson.loads(cards.written(cards.with_doors(theirs, ""), []))


def test_a_signature_stays_only_on_the_card_that_was_signed() -> None:
    cards = Cards(base=BASE, max_age=60)
    ours, other = card(GRPC, *OURS), card(GRPC)
    assert cards.with_doors(ours, "") is ours
    assert not cards.with_doors(other, "").signatures
    assert other.signatures  # which may be anybody's


def ask(*pairs: tuple[str, str]) -> Any:
    return make_mocked_request("GET", "/", headers=CIMultiDict(pairs))


JSON = b'{"name":"A"}'
CARDS = Cards(base=BASE, max_age=60)
FIRST = CARDS.answer(ask(), card(), JSON, ())
TAG = dict(FIRST.headers)["ETag"]
SINCE = dict(FIRST.headers)["Last-Modified"]


@pytest.mark.req("CACH-01", "CACH-02", "CACH-03")
def test_anybody_may_keep_the_card_for_a_while() -> None:
    fields = dict(FIRST.headers)
    assert (FIRST.status, FIRST.body, FIRST.content_type) == (200, JSON, "application/json")
    assert fields["Cache-Control"] == "public, max-age=60"
    assert fields["Access-Control-Allow-Origin"] == "*"
    assert fields["Vary"] == "A2A-Version"
    assert TAG[0] == TAG[-1] == '"'


@pytest.mark.req("CACH-02", "CACH-03")
@pytest.mark.parametrize(
    ("pairs", "known"),
    [
        ([("If-None-Match", TAG)], True),
        ([("If-None-Match", f"W/{TAG}")], True),
        ([("If-None-Match", f'"a,b", W/"c" ,{TAG}')], True),
        ([("If-None-Match", '"a"'), ("If-None-Match", TAG)], True),
        ([("If-None-Match", "*")], True),
        ([("If-None-Match", '"*"')], False),
        ([("If-None-Match", TAG.strip('"'))], False),
        ([("If-None-Match", '"a"')], False),
        ([("If-None-Match", '"a"'), ("If-Modified-Since", formatdate(usegmt=True))], False),  # the tag rules
        ([("If-Modified-Since", SINCE)], True),
        ([("If-Modified-Since", "Mon, 01 Jan 2001 00:00:00 GMT")], False),
        ([("If-Modified-Since", "Mon, 01 Jan 2001 00:00:00 +9999999999999")], False),
        ([("If-Modified-Since", "yesterday")], False),
        ([("If-Modified-Since", "")], False),
        ([], False),
    ],
)
def test_who_has_it_already_gets_no_copy(pairs: list[tuple[str, str]], known: bool) -> None:  # noqa: FBT001
    answer = CARDS.answer(ask(*pairs), card(), JSON, [("A2A-Extensions", "urn:x")])
    assert (answer.status, answer.body) == ((304, b"") if known else (200, JSON))
    fields = dict(answer.headers)
    assert fields["ETag"] == TAG
    assert {"Cache-Control", "Vary", "Last-Modified", "Access-Control-Allow-Origin"} <= set(fields)


@pytest.mark.req("CACH-02")
def test_another_card_has_another_tag() -> None:
    assert dict(CARDS.answer(ask(), card(), b'{"name":"B"}', ()).headers)["ETag"] != TAG


def test_cards_that_nobody_asks_for_again_are_forgotten() -> None:
    cards = Cards(base=BASE, max_age=60)
    for number in range(1000):
        cards.answer(ask(), card(), b'{"name":"%d"}' % number, ())
    assert len(cards._first_sent_at) <= 256  # noqa: SLF001 - there is no other way to see it


@pytest.mark.req("CACH-02")
def test_all_replicas_tell_a_card_in_the_same_bytes() -> None:
    """And so does one that was started again: protobuf's maps have an order of their own in each process."""
    told = {
        subprocess.run(
            [sys.executable, "-m", "tests.unit.gateway.card_texts"],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in range(4)
    }
    (texts,) = told
    assert all(orjson.loads(text) for text in texts.split(b"\n"))


CARD_FILE: dict[str, Any] = {
    "name": "Filed",
    "description": "From a file.",
    "version": "7",
    "supported_interfaces": [{"url": "a:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "default_output_modes": ["text/plain"],
    "skills": [],
}


class Other:
    """The upstream itself."""

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        return Answer(pb.Task(id=method.name))

    async def stream(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamStream:
        raise LookupError(method.name)

    async def identify(self, context: CallContext) -> str:
        """Everybody may call."""
        return ""

    async def ready(self) -> bool:
        return True


async def test_the_card_is_the_files_and_everything_else_the_upstreams(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text(json.dumps(CARD_FILE))
    upstream = UpstreamWithCard(Other(), read_card(str(path)))
    card = (await upstream.unary(CARD, pb.GetTaskRequest(), PLAIN)).message
    assert isinstance(card, pb.AgentCard)
    assert (card.name, card.supported_interfaces[0].url) == ("Filed", "a:1")
    assert (await upstream.unary(rpc("GetTask"), pb.GetTaskRequest(), PLAIN)).message == pb.Task(id="GetTask")
    with pytest.raises(LookupError, match="SubscribeToTask"):
        await upstream.stream(rpc("SubscribeToTask"), pb.SubscribeToTaskRequest(), PLAIN)
    assert await upstream.ready()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            '{"nope": 1, "name": null}',
            r"lacks name, description, .*capabilities, .*skills; cards have no member nope$",
        ),
        (
            json.dumps({**CARD_FILE, "skills": [{"id": "a", "name": "A", "description": "B"}]}),
            r"lacks skills\[0\].tags$",
        ),
        (json.dumps({**CARD_FILE, "provider": {"url": "https://a.example"}}), r"lacks provider\.organization$"),
        (
            json.dumps({**CARD_FILE, "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header"}}}}),
            r"lacks securitySchemes\[key\]\.apiKeySecurityScheme\.name$",
        ),
        ("{", "is no agent card: "),
        ('{"name": 7}', r"is no agent card: name: "),
        ("[]", "is no agent card: "),
        (None, "cannot read '.*': No such file"),
    ],
)
def test_a_file_that_is_no_card_is_named_with_its_fault(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "card.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CardFileError, match=f"gateway.card: .*{why}"):
        read_card(str(path))


def test_members_of_another_version_are_no_fault_and_strange_ones_are_named(tmp_path: Path) -> None:
    """A card as servers tell it has the members of 0.3, too; a later version may have some that nobody knows yet."""
    path = tmp_path / "card.json"
    older = {"url": "http://a.example", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0", "security": []}
    path.write_text(json.dumps(CARD_FILE | older))
    with capture_logs() as logs:
        assert read_card(str(path)).name == "Filed"
        assert not logs
        path.write_text(json.dumps(CARD_FILE | {"newMember": 1, "iconURL": "https://a.example/icon"}))
        assert read_card(str(path)).name == "Filed"
    (entry,) = logs
    assert (entry["event"], entry["members"]) == ("gateway.card_members_unknown", ["iconURL", "newMember"])


@pytest.mark.req("TENA-04")
def test_nothing_is_kept_of_a_tenants_card() -> None:
    """It would be there sooner the second time, and strangers could fill the place with names."""
    written = []

    def write(shown: pb.AgentCard) -> dict[str, str]:
        written.append(shown)
        return {"name": shown.name}

    writer, plain = CardWriter(write), card()
    theirs = card(pb.AgentInterface(url="a:1", protocol_binding="GRPC", protocol_version="1.0", tenant="north"))
    for _ in range(3):
        assert writer(plain) == writer(theirs)
    assert len(written) == 4
