"""Which tenants there are is told to nobody: one that a caller may not enter is like one that nobody has (TENA-04)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import grpc
import pytest

from a2a_proto import discovery_pb2, discovery_pb2_grpc
from a2a_server.serve import Server, relaying
from a2a_server.settings import Settings
from tests.support import strangers
from tests.support.http import get, house, once, port_of, post
from tests.support.stage import Stage
from tests.support.strangers import A2A, NAME, Probe, told

CARD = "/.well-known/agent-card.json"
OWNERS = {"ann": "south", "ben": "north", "cleo": "b co"}
CALLERS = {"nobody": "", "a wrong credential": "Bearer wrong", "of another tenant": f"Bearer {'ann' * 12}"}
TENANTS = list(OWNERS.values())
DRAFT = {"profiles": ["draft"]}

# Names as long as each other, because answers say how long they are.
ASKED = [*((caller, "north", "ghost") for caller in CALLERS), ("of another tenant", "b co", "x co")]


def credentials() -> dict[str, object]:
    known = [
        {"owner": owner, "tenant": tenant, "hash": f"sha256:{hashlib.sha256((owner * 12).encode()).hexdigest()}"}
        for owner, tenant in OWNERS.items()
    ]
    return {"tokens": [{**one, "extended_card": True} for one in known]}


def fields(caller: str) -> list[str]:
    return [f"Authorization: {said}"] if (said := CALLERS[caller]) else []


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    agent = Stage(extended=lambda card, _: card).agent
    unbounded = {"wrong_credentials": 0}  # the tests present many
    async with house(agent, auth=credentials(), tenants=TENANTS, gateway=DRAFT, rates=unbounded) as running:
        yield running


@pytest.fixture(params=["one process", "a gateway of its own"])
async def port(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[int]:
    """Where HTTP is spoken."""
    async with AsyncExitStack() as stack:
        if request.param == "one process":
            yield port_of(server)
        else:
            upstream = {"addresses": [str(server.grpc)]}
            alone = Settings(http="127.0.0.1:0", upstream=upstream, tenants=TENANTS, gateway=DRAFT)
            yield (await stack.enter_async_context(relaying(alone))).port


@pytest.mark.req("TENA-04", "AUTZ-02", "AUTZ-03")
@pytest.mark.parametrize(("caller", "known", "unknown"), ASKED)
async def test_over_http_a_forbidden_tenant_is_like_one_that_nobody_has(
    port: int, caller: str, known: str, unknown: str
) -> None:
    """Every route, version and profile, right and wrong: status, headers and body, byte for byte."""
    said, differing = fields(caller), []
    for probe in strangers.probes():
        if await told(port, probe, known, said) != await told(port, probe, unknown, said):
            differing.append(probe)  # noqa: PERF401 - as above
    assert not differing


@pytest.mark.req("TENA-04", "AUTZ-02", "AUTZ-03")
@pytest.mark.parametrize("caller", CALLERS)
async def test_over_grpc_too(server: Server, caller: str) -> None:
    said = [("authorization", CALLERS[caller])] if CALLERS[caller] else []
    async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
        for call in strangers.calls():
            assert await call.told(channel, "north", said) == await call.told(channel, "ghost", said), call


async def test_the_comparison_sees_what_there_is_to_see(server: Server) -> None:
    """Every RPC has a path, and whoever belongs to a tenant is told other things there than elsewhere."""
    paths, said = set(strangers.paths()), fields("of another tenant")
    assert len(paths) > 4 * len(A2A.methods)
    assert {"/TENANT/tasks/x:cancel", "/TENANT/v1/message:send", "/TENANT/v1/card", "/draft/TENANT/v1/tasks"} <= paths
    for probe in (
        Probe("GET", f"/{NAME}/tasks"),
        Probe("GET", f"/{NAME}/v1/tasks"),
        Probe("GET", f"/draft/{NAME}/v1/tasks"),
        Probe("POST", f"/{NAME}", (), b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}'),
    ):
        assert await told(port_of(server), probe, "south", said) != await told(port_of(server), probe, "ghost", said)
    hers = Probe("GET", f"/{NAME}/v1/tasks", escapes=True).about("south", *said)
    assert (await once(port_of(server), hers)).status == 200


@pytest.mark.req("TENA-04", "CACH-03")
@pytest.mark.parametrize("path", [CARD, "/.well-known/agent.json"])
async def test_a_card_does_not_say_whether_anybody_has_asked_for_it(server: Server, path: str) -> None:
    """A date would: it is that of the first request."""
    plain, theirs = [await once(port_of(server), get(f"{prefix}{path}")) for prefix in ("", "/north")]
    assert "Last-Modified" in plain.headers
    assert "Last-Modified" not in theirs.headers
    since, tag = "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT", f"If-None-Match: {theirs.headers['ETag']}"
    assert (await once(port_of(server), get(path, since))).status == 304
    assert (await once(port_of(server), get(f"/north{path}", since))).status == 200
    assert (await once(port_of(server), get(f"/north{path}", tag))).status == 304


# -- names that begin with a dot

DOTTED = (".well-known", "%2Ewell-known", ".x")


@pytest.mark.req("CONF-49", "TENA-07")
@pytest.mark.parametrize("tenants", [[], ["north"]])
@pytest.mark.parametrize("name", DOTTED)
async def test_a_name_that_begins_with_a_dot_is_no_tenants(name: str, tenants: list[str]) -> None:
    """A client that is given a card's URL instead of the server's asks for the first of these."""
    rest = (CARD, "/.well-known/agent.json", "/tasks", "/tasks/x", "/extendedAgentCard", "/v1/tasks", "/v1/card", "")
    drafts = (f"/draft/{name}/tasks", f"/draft/{name}/v1/tasks", f"/draft/{name}{CARD}")
    async with house(Stage().agent, tenants=tenants, gateway=DRAFT) as server:
        for path in (*(f"/{name}{it}" for it in rest), *drafts):
            for verb in ("GET", "HEAD", "OPTIONS"):
                answer = await once(port_of(server), get(path, verb=verb), head=verb == "HEAD")
                assert answer.status == 404, (verb, path)
            assert (await once(port_of(server), post(path))).status == 404, path
        assert (await once(port_of(server), get(CARD))).status == 200


@pytest.mark.req("CONF-49", "TENA-01")
async def test_nor_is_it_one_over_grpc() -> None:
    async with house(Stage().agent) as server, grpc.aio.insecure_channel(str(server.grpc)) as channel:
        stub = discovery_pb2_grpc.DiscoveryStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.GetAgentCard(discovery_pb2.GetAgentCardRequest(tenant=".well-known"))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
