"""Who calls, by the word of a trusted proxy; and every way for somebody else to say so."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import grpc
import pytest
from pydantic import ValidationError

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.adapters.auth.proxy import ProxyTrust, forwarded
from a2a_server.ports.authenticator import Caller, Credentials
from a2a_server.serve import relaying
from a2a_server.settings import Settings
from a2a_server.transport.pipeline import Admission
from tests.support.authority import Authority
from tests.support.callers import EVERYWHERE, FAR, NEAR, House, bearer, house
from tests.support.tls_callers import context_of, secure_house

HERE = {"networks": ["127.0.0.0/8", "::1"]}
ELSEWHERE = {"networks": ["192.0.2.0/24"]}
NAMES = {"owner_header": "X-Forwarded-User", "tenant_header": "X-Tenant", "groups_header": "x-groups"}
ANN = {"X-Forwarded-User": "ann", "X-Tenant": "north", "X-Groups": "readers, a2a:GetTask"}
SECRET = {"secret_header": "x-proxy-secret", "secret_hash": f"sha256:{hashlib.sha256(b's3cret').hexdigest()}"}
NOBODY = "UNAUTHENTICATED"


class Seen:
    """Who has come through."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []

    def __call__(self, call: Admission) -> None:
        self.callers.append(call.caller)

    async def who(self, here: House, door: str, headers: Mapping[str, str] | list[tuple[str, str]]) -> str:
        """Ask for a task that nobody has, and say as whom that was."""
        self.callers.clear()
        pairs = [*headers.items()] if isinstance(headers, Mapping) else headers
        code = await (_over_grpc if door.startswith("grpc") else _over_http)(here, door, pairs)
        if code != "NOT_FOUND":
            assert not self.callers
            return code
        (caller,) = self.callers
        return f"{caller.tenant}/{caller.owner}" if caller.tenant else caller.owner


async def _over_grpc(here: House, door: str, pairs: list[tuple[str, str]]) -> str:
    metadata = [(name.lower(), value) for name, value in pairs]
    try:
        if door == "grpc":
            await a2a_pb2_grpc.A2AServiceStub(here.channel).GetTask(pb.GetTaskRequest(id="none"), metadata=metadata)
        else:
            asked = v03.GetTaskRequest(name="tasks/none")
            await a2a_v0_3_pb2_grpc.A2AServiceStub(here.channel).GetTask(asked, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    raise AssertionError("nobody has this task")


async def _over_http(here: House, door: str, pairs: list[tuple[str, str]]) -> str:
    base, kind = (here.gateway if door.startswith("far-") else here.base), door.removeprefix("far-")
    if kind.startswith("rest"):
        path = "/v1/tasks/none" if kind.endswith("0.3") else "/tasks/none"
        request = here.session.get(base + path, headers=pairs)
    else:
        method = "tasks/get" if kind.endswith("0.3") else "GetTask"
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "none"}}
        request = here.session.post(base + "/", json=body, headers=pairs)
    async with request as answer:
        text = await answer.json(content_type=None)
        found = text["error"]["code"] == -32001 if answer.status == 200 else answer.status == 404
        return "NOT_FOUND" if found else NOBODY  # or a refusal of names that metadata cannot have


def settings(trust: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"auth": {"proxy": {**NAMES, **trust, **more}}}


@pytest.mark.req("GATE-10", "AUTN-05")
async def test_a_trusted_proxy_says_who_calls_at_every_door() -> None:
    seen, trusting = Seen(), settings(HERE)
    async with house(gateway=True, relay=trusting, steps=[seen], **trusting) as here:
        for door in EVERYWHERE:
            assert await seen.who(here, door, ANN) == "north/ann", door
            assert seen.callers[0].scopes == frozenset({"readers", "a2a:GetTask"})
            assert await seen.who(here, door, {}) == NOBODY, door
            for wrong in ({"X-Forwarded-User": "ann"}, {**ANN, "X-Forwarded-User": "a" * 256}):
                assert await seen.who(here, door, wrong) == NOBODY, (door, wrong)
            assert await seen.who(here, door, [*ANN.items(), ("X-Forwarded-User", "eve")]) == NOBODY, door
            assert await seen.who(here, door, [*ANN.items(), ("X-Tenant", "south")]) == NOBODY, door


SPELLINGS = (
    *("X-Forwarded-User", "x-forwarded-user", "X-FORWARDED-USER", "X_Forwarded_User", "X-Forwarded_User"),
    *("Grpc-Metadata-X-Forwarded-User", "grpc-metadata-x-forwarded-user", "Grpc-Metadata-X_Forwarded_User"),
    *("Grpc-Metadata-X-Forwarded-User-Bin", "grpcgateway-x-forwarded-user", "A2A-X-Forwarded-User"),
    *("Grpc-Metadata-Grpcgateway-X-Forwarded-User", "Grpc-Metadata-Grpc-Metadata-X-Forwarded-User"),
)


def attacks(door: str) -> list[dict[str, str]]:
    tenants = {"X-Tenant": "north", "Grpc-Metadata-X-Tenant": "north"}
    names = SPELLINGS if not door.startswith("grpc") else [name for name in SPELLINGS if "rpc-" not in name.lower()]
    return [{name: "YW5u" if name.endswith("Bin") else "ann", **_fit(door, tenants)} for name in names] + [
        {**_fit(door, tenants), "X-Forwarded-User": "ann", "X-Forwarded-For": "127.0.0.1"},
        {**_fit(door, tenants), "X-Forwarded-User": "ann", "Forwarded": "for=127.0.0.1"},
    ]


def _fit(door: str, headers: Mapping[str, str]) -> dict[str, str]:
    """gRPC refuses names of its own before anything is sent."""
    return {name: text for name, text in headers.items() if not (door.startswith("grpc") and "rpc-" in name.lower())}


@pytest.mark.req("GATE-10", "AUTN-03")
@pytest.mark.parametrize("relay", [{}, settings(HERE), settings(ELSEWHERE)], ids=["plain", "trusting", "wary"])
async def test_nobody_else_says_who_calls(relay: dict[str, Any]) -> None:
    seen = Seen()
    async with house(gateway=True, relay=relay, steps=[seen], **settings(ELSEWHERE)) as here:
        for door in EVERYWHERE:
            for headers in attacks(door):
                assert await seen.who(here, door, headers) == NOBODY, (door, headers)


@pytest.mark.req("GATE-10", "AUTN-03")
@pytest.mark.parametrize(
    "relay",
    [
        {},
        settings(ELSEWHERE),
        {"gateway": {"forward_headers": ["*"]}},
        {**settings(ELSEWHERE), "gateway": {"forward_headers": ["*"], "trusted_proxies": ["127.0.0.1"]}},
    ],
    ids=["unaware", "wary", "open", "open and wary"],
)
async def test_a_gateway_that_is_trusted_speaks_for_nobody_it_does_not_trust(relay: dict[str, Any]) -> None:
    seen, trusting = Seen(), {"auth": {"proxy": {"owner_header": "x-forwarded-user", **HERE}}}
    async with house(gateway=True, relay=relay, steps=[seen], **trusting) as here:
        for door in FAR:
            for headers in attacks(door):
                assert await seen.who(here, door, headers) == NOBODY, (door, headers)


@pytest.mark.req("GATE-10", "AUTN-03")
async def test_what_a_trusted_proxy_passes_on_does_not_count_in_other_spellings() -> None:
    """The client of a proxy may send anything that the proxy does not know."""
    seen = Seen()
    trusting = {"auth": {"proxy": {"owner_header": "x-forwarded-user", **HERE}}}
    async with house(gateway=True, relay=trusting, steps=[seen], **trusting) as here:
        for door in (*NEAR, *FAR):
            for headers in attacks(door):
                if not {"x-forwarded-user"} & {name.lower() for name in headers}:
                    assert await seen.who(here, door, headers) == NOBODY, (door, headers)
                    told = {**headers, "X-Forwarded-User": "bob"}
                    assert await seen.who(here, door, told) in {"bob", NOBODY}, (door, headers)


@pytest.mark.req("GATE-10")
async def test_others_are_who_their_own_credentials_say() -> None:
    seen, token = Seen(), {"owner": "tom", "hash": f"sha256:{hashlib.sha256(b'token').hexdigest()}"}
    auth: dict[str, Any] = {"proxy": {**NAMES, **ELSEWHERE}, "tokens": [token]}
    async with house(steps=[seen], auth=auth) as here:
        for door in NEAR:
            assert await seen.who(here, door, {**ANN, **bearer("token")}) == "tom", door
    auth = {"proxy": {**NAMES, **HERE}, "tokens": [token]}
    async with house(steps=[seen], auth=auth) as here:
        for door in NEAR:
            assert await seen.who(here, door, {**ANN, **bearer("token")}) == NOBODY, door  # two callers


@pytest.mark.req("GATE-10")
async def test_every_condition_must_be_met() -> None:
    seen, secret = Seen(), {"X-Proxy-Secret": "s3cret"}
    for trust, met in ((SECRET, True), ({**SECRET, **HERE}, True), ({**SECRET, **ELSEWHERE}, False)):
        async with house(steps=[seen], **settings(trust)) as here:
            for door in NEAR:
                assert await seen.who(here, door, {**ANN, **secret}) == ("north/ann" if met else NOBODY), door
                for wrong in ({}, {"X-Proxy-Secret": "secret"}, {"X-Proxy-Secret": ""}):
                    assert await seen.who(here, door, {**ANN, **wrong}) == NOBODY, door
                twice = [*ANN.items(), ("X-Proxy-Secret", "s3cret"), ("X-Proxy-Secret", "no")]
                assert await seen.who(here, door, twice) == NOBODY, door


@pytest.mark.req("GATE-10")
async def test_the_address_that_counts_is_that_of_the_connection() -> None:
    seen = Seen()
    said = {**ANN, "X-Forwarded-For": "192.0.2.7"}
    for trust, who in ((HERE, "north/ann"), (ELSEWHERE, NOBODY)):
        relay: dict[str, Any] = {**settings(trust), "gateway": {"trusted_proxies": ["127.0.0.1"]}}
        async with house(gateway=True, relay=relay, steps=[seen], **settings(HERE)) as here:
            assert await seen.who(here, "far-rest", said) == who


@pytest.mark.req("GATE-10")
async def test_a_proxy_is_known_by_its_certificate_and_hands_on_those_of_its_clients(tmp_path: Path) -> None:
    ca = Authority(tmp_path)
    proxy, client = ca.issue("dns:proxy.example"), ca.issue("dns:ann.clients.example")
    eve = ca.issue("dns:eve.clients.example")
    rules = [{"name": "dns:**"}, {"name": "uri:spiffe://prod.example/*"}]
    trust = {"certificates": ["dns:proxy.example"], "certificate_header": "client-cert"}
    shown = f":{_base64(client.der)}:"
    async with secure_house(ca, auth={"certificates": rules, "proxy": trust}) as here:
        for door in ("grpc", "grpc-0.3", "rest", "jsonrpc", "jsonrpc-0.3"):
            assert await here.told(door, proxy, {"Client-Cert": shown}) == "ann.clients.example"
            for nothing in ("", "::", ":AAAA:", "junk"):
                assert await here.told(door, proxy, {"Client-Cert": nothing} if nothing else {}) == NOBODY
            assert await here.told(door, eve, {"Client-Cert": shown}) == "eve.clients.example"
        assert await here.told("rest", proxy, {"Grpc-Metadata-Client-Cert": shown}) == NOBODY


@pytest.mark.req("GATE-10")
async def test_a_gateway_ends_tls_and_passes_on_who_called(tmp_path: Path) -> None:
    ca = Authority(tmp_path)
    gateway, client, other = ca.issue("dns:localhost", "dns:gateway.internal"), ca.issue("dns:ann.example"), None
    trust = {"certificates": ["dns:gateway.internal"], "certificate_header": "client-cert"}
    rules = [{"name": "dns:*.example"}, {"name": "dns:gateway.internal", "owner": "nobody but itself"}]
    async with secure_house(ca, auth={"certificates": rules, "proxy": trust}) as here:
        files = {"cert": str(gateway.path), "key": str(gateway.path), "client_ca": str(ca.path)}
        upstream = {"addresses": [str(here.server.grpc)], "ca": str(ca.path), "server_name": "localhost"}
        own = {"cert": str(gateway.path), "key": str(gateway.path)}
        for proxy, who in (({"certificate_header": "client-cert"}, "ann.example"), ({}, NOBODY)):
            relay = Settings.model_validate(
                {
                    "http": "127.0.0.1:0",
                    "tls": {**files, "client_certificates": "optional"},
                    "upstream": {**upstream, **own},
                    "auth": {"proxy": proxy},
                }
            )
            async with relaying(relay) as at:
                for door in ("rest", "rest-0.3", "jsonrpc", "jsonrpc-0.3"):
                    for presented, expected in ((client, who), (other, NOBODY)):
                        connector = aiohttp.TCPConnector(ssl=context_of(ca, presented))
                        async with aiohttp.ClientSession(connector=connector) as session:
                            forged = {"Client-Cert": f":{_base64(ca.issue('dns:eve.example').der)}:"}
                            for said in ({}, forged, {"Grpc-Metadata-" + n: v for n, v in forged.items()}):
                                told = await here.over_http(session, f"https://{at}", door, said)
                                assert told == expected, (door, said.keys())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.req("GATE-10")
def test_certificates_are_read_as_proxies_write_them(tmp_path: Path) -> None:
    one = Authority(tmp_path).issue("uri:spiffe://prod.example/ann")
    pem = quote(one.pem.decode(), safe="")
    names = (("uri", "spiffe://prod.example/ann"), ("dns", "ann.example"))
    envoy = "By=spiffe://prod.example/me;Hash=00;URI=spiffe://prod.example/ann;DNS=Ann.example"
    for value, expected in {
        f":{_base64(one.der)}:": (one.der, ()),
        quote(one.pem.decode(), safe=" -=/+\r"): (one.pem, ()),
        f'Hash=00;Cert="{pem}";URI=spiffe://prod.example/other': (one.pem, ()),
        envoy: (b"", names),
        f"URI=spiffe://prod.example/first,{envoy}": (b"", names),
        f'Subject="CN=\\"x\\",URI=spiffe://prod.example/no;";{envoy}': (b"", names),
        f'{envoy},Subject="URI=spiffe://prod.example/no"': (b"", ()),
        "URI=spiffe://prod.example/ann;Cert=junk": (b"", ()),
        'Cert="': (b"", ()),
        "junk": (b"", ()),
        "": (b"", ()),
        ":": (b"", ()),
        "-----BEGIN": (b"", ()),
    }.items():
        assert forwarded(value) == expected, value


def test_where_proxies_may_say_nothing_a_client_near_them_keeps_its_certificate() -> None:
    """Networks alone name no header; its certificate must still be checked against the revoked ones."""
    trust = ProxyTrust(headers=frozenset(), networks=[ip_network("192.0.2.0/24")])
    client = Credentials({}, certificate=b"its own", via="192.0.2.7")
    assert trust.apply(client) is client


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"owner_header": "x-user"}, "which say what proxy is trusted"),
        ({"owner_header": "authorization", **HERE}, "that has no other use"),
        ({"owner_header": "x_user", **HERE}, "letters, digits and dashes"),
        ({"owner_header": "a2a-version", **HERE}, "that has no other use"),
        ({"owner_header": "x-user", "tenant_header": "X-User", **HERE}, "one thing only"),
        ({"tenant_header": "x-tenant", **HERE}, "need owner_header"),
        ({"secret_header": "x-secret"}, "needed together"),
        ({**SECRET, "secret_hash": "s3cret"}, "never the secret itself"),
        ({"certificates": ["dns:proxy"]}, "needs tls.client_ca"),
        ({"certificate_header": "client-cert"}, "needs tls.client_ca"),
        ({"networks": ["nowhere"]}, "must be addresses or networks"),
    ],
)
def test_what_cannot_be_trusted_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Settings.model_validate({"auth": {"proxy": given}})
