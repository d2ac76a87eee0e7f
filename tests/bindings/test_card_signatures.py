"""Whatever card is served verifies against its signatures, at every door, in every version (spec: SIGN, XCARD)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, discovery_pb2, discovery_pb2_grpc
from a2a_server.agents import Agent
from a2a_server.ports.authenticator import Caller
from a2a_server.serve import Server, relaying
from a2a_server.settings import Settings
from tests.support.card_keys import EC, ED, OTHER, RSA, TOKEN, header_of, kids, letter, members, pem, valid
from tests.support.house import V1
from tests.support.http import get, house, once, port_of, post
from tests.support.stage import Stage

CARD = "/.well-known/agent-card.json"
JWKS = "/.well-known/jwks.json"
KEYS = {"signing_keys": [pem(EC)]}
ROOT = {"owner": "root", "hash": "sha256:" + hashlib.sha256(b"root-token").hexdigest(), "extended_card": True}
AUTH = {"tokens": [ROOT]}
ASKING = "Authorization: Bearer root-token"
PUBLIC = {
    "1.0": (CARD, "A2A-Version: 1.0"),
    "0.3": (CARD, "A2A-Version: 0.3"),
    "both": (CARD,),
    "0.2": ("/.well-known/agent.json",),
    "draft": (f"/draft{CARD}",),
    "a tenant's": (f"/north{CARD}", "A2A-Version: 1.0"),
    "a tenant's of 0.3": (f"/north{CARD}", "A2A-Version: 0.3"),
}


def extend(card: pb.AgentCard, _: Caller) -> pb.AgentCard:
    card.skills.add(id="secret", name="Sécret", description="", tags=["test"])
    card.capabilities.extensions.add(uri="urn:x").params.update({"": "", "half": 0.5, "many": 1e21, "\U0001f600": []})
    return card


@asynccontextmanager
async def served(where: str, agent: Agent | None = None, **more: Any) -> AsyncIterator[tuple[Server, int]]:
    """A server, and the port of its HTTP door, or of a gateway before it with the same settings."""
    told = {"card": KEYS, "auth": AUTH, "gateway": {"profiles": ["draft"]}, **more}
    async with AsyncExitStack() as stack:
        stage = agent or Stage(extended=extend).agent
        server = await stack.enter_async_context(house(stage, **told))
        if where == "one process":
            yield server, port_of(server)
        else:
            alone = Settings(http="127.0.0.1:0", upstream={"addresses": [str(server.grpc)]}, **told)
            yield server, (await stack.enter_async_context(relaying(alone))).port


async def fetched(port: int, path: str, *fields: str) -> Any:
    answer = await once(port, get(path, *fields))
    assert answer.status == 200, answer.body
    return answer.json


@pytest.mark.req("SIGN-01", "SIGN-02", "SIGN-03", "SIGN-06")
@pytest.mark.parametrize("where", ["one process", "a gateway of its own"])
@pytest.mark.parametrize("asked", PUBLIC)
async def test_a_card_in_every_form_verifies(where: str, asked: str) -> None:
    async with served(where, tenants=["north"]) as (_, port):
        card, keys = await fetched(port, *PUBLIC[asked]), await fetched(port, JWKS)
        assert valid(card, keys)
        changed = {**card, "description": "Not what was signed."}
        assert not valid(changed, keys)


@pytest.mark.req("SIGN-06")
async def test_clients_who_know_only_1_0_may_read_the_card_of_both() -> None:
    """They ignore the members of 0.3, and canonicalize what they know."""
    async with served("one process") as (_, port):
        card, keys = await fetched(port, CARD), await fetched(port, JWKS)
        assert "url" in card
        assert valid(card, keys, letter(V1.decode(card, pb.AgentCard)))


@pytest.mark.req("SIGN-04", "SIGN-05")
async def test_what_a_signature_says() -> None:
    async with served("one process", auth={}) as (_, port):
        card, keys = await fetched(port, CARD, "A2A-Version: 1.0"), await fetched(port, JWKS)
        (entry,) = card["signatures"]
        assert entry.keys() == {"protected", "signature"}
        assert not {"=", "+", "/"} & set(entry["protected"] + entry["signature"])
        kid, base = EC.thumbprint(), f"http://127.0.0.1:{port}"
        assert header_of(entry) == {"alg": "ES256", "kid": kid, "typ": "JOSE", "jku": base + JWKS}
        (key,) = keys["keys"]
        public = EC.as_dict(private=False)
        assert key == {
            **{name: public[name] for name in ("kty", "crv", "x", "y")},
            "kid": kid,
            "use": "sig",
            "alg": "ES256",
        }


@pytest.mark.req("SIGN-01", "SIGN-04")
async def test_every_private_key_signs_and_every_key_is_published(tmp_path: Path) -> None:
    (tmp_path / "rsa.pem").write_text(pem(RSA))
    named = {**ED.as_dict(private=True), "kid": "2026-11"}
    keys = [pem(EC), f"file:{tmp_path / 'rsa.pem'}", json.dumps(named), pem(OTHER, private=False)]
    async with served("one process", auth={}, card={"signing_keys": keys}) as (_, port):
        card, published = await fetched(port, CARD, "A2A-Version: 1.0"), await fetched(port, JWKS)
        assert [header_of(entry)["alg"] for entry in card["signatures"]] == ["ES256", "RS256", "EdDSA"]
        assert valid(card, published) == card["signatures"]
        assert [*kids(card["signatures"])] == [EC.thumbprint(), RSA.thumbprint(), "2026-11"]
        assert [key["kid"] for key in published["keys"]] == [*kids(card["signatures"]), OTHER.thumbprint()]
        assert not {"d", "p", "q"} & {name for key in published["keys"] for name in key}


@pytest.mark.req("SIGN-01")
async def test_a_key_is_replaced_while_clients_know_only_one_of_both() -> None:
    async def seen(*keys: str) -> tuple[Any, Any]:
        async with served("one process", auth={}, card={"signing_keys": keys}) as (_, port):
            return await fetched(port, CARD, "A2A-Version: 1.0"), await fetched(port, JWKS)

    old, between, new = await seen(pem(EC)), await seen(pem(OTHER), pem(EC)), await seen(pem(OTHER))
    named = [[*kids(valid(card, keys))] for card, keys in (old, between, new)]
    assert named == [[EC.thumbprint()], [OTHER.thumbprint(), EC.thumbprint()], [OTHER.thumbprint()]]


@pytest.mark.req("SIGN-06", "CACH-02")
@pytest.mark.parametrize("path", [CARD, f"/north{CARD}"])
async def test_equal_cards_have_equal_signatures(path: str) -> None:
    """So replicas agree about the ETag, and a client that comes back gets 304."""
    async with served("one process", tenants=["north"]) as (_, port):
        first, again = await once(port, get(path)), await once(port, get(path))
        assert first.body == again.body
        assert (await once(port, get(path, f"If-None-Match: {first.headers['ETag']}"))).status == 304


@pytest.mark.req("SIGN-06", "DOOR-05")
async def test_a_card_for_clients_behind_a_proxy_names_the_key_set_that_they_can_reach() -> None:
    proxied = "Forwarded: for=192.0.2.1;proto=https;host=public.example"
    gateway = {"trusted_proxies": ["127.0.0.1"], "profiles": ["draft"]}
    async with served("one process", gateway=gateway, tenants=["north"]) as (_, port):
        keys = await fetched(port, JWKS)
        for path, *fields in PUBLIC.values():
            card = await fetched(port, path, *fields, proxied)
            assert valid(card, keys)
            assert {header_of(entry)["jku"] for entry in card["signatures"]} == {f"https://public.example{JWKS}"}


def called(method: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).encode()


@pytest.mark.req("SIGN-06", "XCARD-01")
@pytest.mark.parametrize("where", ["one process", "a gateway of its own"])
async def test_the_extended_card_verifies_at_every_door(where: str) -> None:
    async with served(where) as (server, port):
        keys = await fetched(port, JWKS)
        rest = await fetched(port, "/extendedAgentCard", ASKING)
        methods = "GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"
        jsonrpc, old = [(await once(port, post("/", called(name), ASKING))).json["result"] for name in methods]
        old_rest = await fetched(port, "/v1/card", ASKING)
        draft = await fetched(port, "/draft/v1/extendedAgentCard", ASKING)
        for card in (rest, jsonrpc, old, old_rest, draft):
            assert "secret" in [skill["id"] for skill in card["skills"]]
            assert valid(card, keys)
        async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
            call = a2a_pb2_grpc.A2AServiceStub(channel).GetExtendedAgentCard
            told = await call(pb.GetExtendedAgentCardRequest(), metadata=[("authorization", "Bearer root-token")])
        assert valid(members(told), keys, letter(told))


@pytest.mark.req("SIGN-06")
@pytest.mark.parametrize("tenant", ["", "north"])
async def test_discovery_over_grpc_verifies(tenant: str) -> None:
    async with served("one process", tenants=["north"]) as (server, port):
        async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
            call = discovery_pb2_grpc.DiscoveryStub(channel).GetAgentCard
            card = await call(discovery_pb2.GetAgentCardRequest(tenant=tenant))
        assert valid(members(card), await fetched(port, JWKS), letter(card))
        jku = header_of(members(card)["signatures"][0])["jku"]
        assert jku == f"http://127.0.0.1:{port}{JWKS}"


@pytest.mark.req("SIGN-06")
@pytest.mark.parametrize("asked", PUBLIC)
async def test_a_gateway_without_keys_shows_no_signature_that_it_has_broken(asked: str) -> None:
    """It names URLs of its own, so the server's signatures do not cover its card."""
    async with served("one process", tenants=["north"]) as (server, _):
        upstream, profiles = {"addresses": [str(server.grpc)]}, {"profiles": ["draft"]}
        alone = Settings(http="127.0.0.1:0", upstream=upstream, tenants=["north"], gateway=profiles)
        async with relaying(alone) as address:
            assert "signatures" not in await fetched(address.port, *PUBLIC[asked])
            assert (await once(address.port, get(JWKS))).status == 404


@pytest.mark.req("SIGN-06")
async def test_a_gateway_without_keys_passes_on_a_card_that_it_does_not_change() -> None:
    """Both are told the same public URLs, and the server signs for both."""
    public: dict[str, Any] = {"public_url": "https://agents.example", "public_grpc": "agents.example:443"}
    async with served("one process", gateway={}, **public) as (server, port):
        alone = Settings(http="127.0.0.1:0", upstream={"addresses": [str(server.grpc)]}, **public)
        async with relaying(alone) as address:
            keys = await fetched(port, JWKS)
            assert valid(await fetched(address.port, CARD, "A2A-Version: 1.0"), keys)
            both = await fetched(address.port, CARD)
            assert valid(both, keys, letter(V1.decode(both, pb.AgentCard)))
            assert "signatures" not in await fetched(address.port, CARD, "A2A-Version: 0.3")


def signed_file(tmp_path: Path, url: str) -> tuple[str, Mapping[str, Any]]:
    """A card in a file, which its author has signed."""
    doors = [
        pb.AgentInterface(url=url + slash, protocol_binding=binding, protocol_version="1.0")
        for slash, binding in (("", "HTTP+JSON"), ("/", "JSONRPC"))
    ]
    card = pb.AgentCard(name="Theirs", description="Signed.", version="1", supported_interfaces=doors)
    card.default_input_modes.append("text/plain")
    card.default_output_modes.append("text/plain")
    card.skills.add(id="a", name="A", description="A.", tags=["a"])
    card.capabilities.streaming = True
    from a2a_server.serve.parts import card_signer_of  # noqa: PLC0415 - for this author only

    author = card_signer_of(Settings(card={"signing_keys": [pem(OTHER)]}))
    assert author is not None
    file = tmp_path / "card.json"
    file.write_bytes(V1.encode(author.signed(card, "")))
    public = OTHER.as_dict(private=False)
    return str(file), {"keys": [{**public, "kid": OTHER.thumbprint()}]}


@pytest.mark.req("SIGN-06")
@pytest.mark.parametrize("ours", [{}, KEYS])
async def test_the_authors_own_signatures_are_kept_while_they_hold(tmp_path: Path, ours: dict[str, Any]) -> None:
    path, keys = signed_file(tmp_path, "https://agents.example")
    told = {"http": "127.0.0.1:0", "upstream": {"addresses": ["127.0.0.1:1"]}, "card": ours}
    same = Settings(public_url="https://agents.example", gateway={"card": path}, legacy={"enabled": False}, **told)
    async with relaying(same) as address:
        card = await fetched(address.port, CARD)
        mine = {"keys": [*keys["keys"], {**EC.as_dict(private=False), "kid": EC.thumbprint()}]}
        assert [*kids(valid(card, mine))] == [OTHER.thumbprint(), *([EC.thumbprint()] if ours else [])]
    other = Settings(public_url="https://elsewhere.example", gateway={"card": path}, legacy={"enabled": False}, **told)
    async with relaying(other) as address:
        card = await fetched(address.port, CARD)
        assert [*kids(card.get("signatures", ()))] == ([EC.thumbprint()] if ours else [])


@pytest.mark.req("SIGN-06")
async def test_signatures_on_an_agents_card_do_not_outlive_its_completion() -> None:
    agent = Stage().agent
    agent.card.signatures.add(protected="e30", signature="AA")
    async with served("one process", agent=agent, card={}) as (server, port):
        assert "signatures" not in await fetched(port, CARD)
        assert not server.card.signatures


@pytest.mark.req("SIGN-04")
async def test_the_keys_of_webhooks_and_of_cards_are_in_one_set() -> None:
    push = {"allow_loopback": True, "signing_keys": [pem(OTHER), pem(EC)]}
    async with served("one process", push=push, card={"signing_keys": [pem(EC), pem(RSA)]}) as (_, port):
        published = await fetched(port, JWKS)
        assert [key["kid"] for key in published["keys"]] == [key.thumbprint() for key in (OTHER, EC, RSA)]


@pytest.mark.req("SIGN-01")
async def test_without_keys_nothing_is_signed() -> None:
    async with served("one process", card={}, auth={"tokens": [{**ROOT, "hash": TOKEN}]}) as (_, port):
        for path, *fields in PUBLIC.values():
            if not path.startswith("/north"):
                assert "signatures" not in await fetched(port, path, *fields)
