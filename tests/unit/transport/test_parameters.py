"""What metadata says about a call: version, extensions, idempotency key, tenant, caller."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.ports.authenticator import Caller, CardSecurity, Credentials
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.transport.steps import RESERVED, CallRules, Extensions, Tenants
from tests.unit.transport.doors import Door, Refusal, open_door, refused

Lines = list[tuple[str, str]]


def get(door: Door, metadata: Lines, tenant: str = "") -> Any:
    return door.stub.GetTask(pb.GetTaskRequest(id="t", tenant=tenant), metadata=metadata)


async def refusal(metadata: Lines, rules: CallRules | None = None) -> Refusal:
    async with open_door(rules=rules) as door:
        answer = await refused(lambda: get(door, metadata))
        assert door.seen.calls == []
        return answer


# -- version


@pytest.mark.req("VERS-01", "VERS-04", "GRPC-03", "SPAR-01")
@pytest.mark.parametrize(
    "lines",
    [
        [("a2a-version", "1.0")],
        [("a2a-version", "1.0.3")],  # the patch plays no part
        [("a2a-version", "1.0"), ("a2a-version", "1.0")],
        [("a2a-version", "")],  # CONF-16: people use grpcurl
        [],
    ],
)
async def test_version_1_0_is_served(lines: Lines) -> None:
    async with open_door() as door:
        assert await get(door, lines)
        assert door.seen.calls[0].version == "1.0"


@pytest.mark.req("VERS-02", "VERS-05", "VERS-08", "VERS-09")
@pytest.mark.parametrize(
    ("values", "requested"),
    [
        (["0.3"], "0.3"),
        (["2.0"], "2.0"),
        (["1"], "1"),
        (["1.0.0.0"], "1.0.0.0"),
        (["1.0-rc1"], "1.0-rc1"),
        (["v1.0"], "v1.0"),
        (["1.0", "0.3"], "1.0,0.3"),
        (["x" * 500], "x" * 100),
    ],
)
async def test_other_versions_are_refused_and_the_supported_ones_named(values: list[str], requested: str) -> None:
    answer = await refusal([("a2a-version", value) for value in values])
    assert answer.code == grpc.StatusCode.FAILED_PRECONDITION
    assert answer.reason == "VERSION_NOT_SUPPORTED"
    assert answer.info is not None
    assert dict(answer.info.metadata) == {"requestedVersion": requested, "supportedVersions": "1.0,0.3"}


@pytest.mark.req("VERS-03")
@pytest.mark.parametrize("lines", [[], [("a2a-version", "")]])
async def test_strictly_no_version_means_0_3(lines: Lines) -> None:
    answer = await refusal(lines, CallRules(strict_version=True))
    assert answer.reason == "VERSION_NOT_SUPPORTED"
    assert answer.info is not None
    assert answer.info.metadata["requestedVersion"] == "0.3"


@pytest.mark.parametrize("version", ["", "0.3", "nonsense"])
async def test_the_public_card_needs_no_version(version: str) -> None:
    async with open_door(rules=CallRules(strict_version=True)) as door:
        card = await door.discovery.GetAgentCard(
            discovery_pb2.GetAgentCardRequest(), metadata=[("a2a-version", version)]
        )
        assert card.name == "Echo"


# -- extensions

DECLARED = CallRules(extensions=Extensions(frozenset({"urn:a", "urn:b"})))
REQUIRED = Extensions(frozenset({"urn:a", "urn:b"}), required=("urn:b",))


async def activated(door: Door, lines: Lines) -> tuple[Mapping[str, str], frozenset[str]]:
    call = get(door, lines)
    metadata = dict(await call.initial_metadata())
    await call
    return metadata, door.seen.calls[-1].extensions


@pytest.mark.req("EXTN-02", "EXTN-03", "EXTN-05", "SPAR-01", "SPAR-03", "GRPC-03", "GRPC-05")
@pytest.mark.parametrize(
    ("values", "active"),
    [
        (["urn:a"], ["urn:a"]),
        (["urn:b,urn:a"], ["urn:b", "urn:a"]),  # in the order of the request
        ([" urn:a ,, urn:a "], ["urn:a"]),
        (["urn:a", "urn:b"], ["urn:a", "urn:b"]),  # repeated lines are one list
        (["urn:unknown, urn:a"], ["urn:a"]),
        (["URN:A", "urn:a/v2"], []),  # values are case-sensitive, and another version is another extension
        ([], []),
    ],
)
async def test_what_is_asked_for_and_declared_is_active(values: list[str], active: list[str]) -> None:
    async with open_door(rules=DECLARED) as door:
        metadata, extensions = await activated(door, [("a2a-extensions", value) for value in values])
    assert extensions == frozenset(active)
    assert metadata.get("a2a-extensions") == (", ".join(active) if active else None)


@pytest.mark.req("EXTN-03", "GRPC-05")
async def test_a_stream_names_its_extensions_before_its_first_item() -> None:
    async with open_door(rules=DECLARED) as door:
        call = door.stub.SendStreamingMessage(pb.SendMessageRequest(), metadata=[("a2a-extensions", "urn:b")])
        assert dict(await call.initial_metadata())["a2a-extensions"] == "urn:b"
        assert [item async for item in call]


@pytest.mark.req("EXTN-04", "EXTN-05")
@pytest.mark.parametrize("values", [[], ["urn:a"], ["urn:b/v2"]])
@pytest.mark.parametrize("rpc", ["SendMessage", "SendStreamingMessage"])
async def test_a_send_must_list_what_the_card_requires(rpc: str, values: list[str]) -> None:
    metadata = [("a2a-extensions", value) for value in values]
    async with open_door(rules=CallRules(extensions=REQUIRED)) as door:
        call = getattr(door.stub, rpc)(pb.SendMessageRequest(), metadata=metadata)
        answer = await refused(lambda: call.read() if rpc == "SendStreamingMessage" else call)
        assert door.seen.calls == []
    assert (answer.code, answer.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "EXTENSION_SUPPORT_REQUIRED")
    assert answer.info is not None
    assert dict(answer.info.metadata) == {"extension": "urn:b"}


@pytest.mark.req("EXTN-04")
async def test_reads_need_it_only_when_configured_and_the_public_card_never() -> None:
    async with open_door(rules=CallRules(extensions=REQUIRED)) as door:
        assert await get(door, [])
        assert await door.stub.SendMessage(pb.SendMessageRequest(), metadata=[("a2a-extensions", "urn:b")])
    async with open_door(rules=CallRules(extensions=replace(REQUIRED, everywhere=True))) as door:
        assert (await refused(lambda: get(door, []))).reason == "EXTENSION_SUPPORT_REQUIRED"
        assert await get(door, [("a2a-extensions", "urn:b")])
        assert await door.discovery.GetAgentCard(discovery_pb2.GetAgentCardRequest())


async def test_a_huge_extension_list_is_refused() -> None:
    answer = await refusal([("a2a-extensions", "x" * 5000)] * 2)
    assert answer.code == grpc.StatusCode.INVALID_ARGUMENT
    assert list(answer.fields) == ["a2a-extensions"]


# -- idempotency key


async def test_the_idempotency_key_reaches_the_operation() -> None:
    async with open_door() as door:
        await get(door, [("idempotency-key", "order 7/b")])
        await get(door, [])
        assert [call.idempotency_key for call in door.seen.calls] == ["order 7/b", ""]


@pytest.mark.parametrize("values", [("",), ("x" * 256,), ("a\tb",), ("é",), ("a", "b")])
async def test_a_bad_idempotency_key_is_refused(values: tuple[str, ...]) -> None:
    async with open_door() as door:
        with pytest.raises(A2AError) as caught:
            await door.pipeline.unary("GetTask", pb.GetTaskRequest(), Credentials({"idempotency-key": values}))
    assert caught.value.reason is Reason.INVALID_PARAMS
    assert [violation.field for violation in caught.value.violations] == ["idempotency-key"]


# -- tenants and callers


class ByName:
    """Takes the caller's name from the metadata, so that tests can be anybody."""

    required = True
    card = CardSecurity()

    async def authenticate(self, credentials: Credentials) -> Caller:
        (name,) = credentials.metadata["x-name"]
        owner, _, tenant = name.partition("@")
        return Caller(owner, authenticated=True, tenant=tenant)


@pytest.mark.req("TENA-01", "TENA-06")
@pytest.mark.parametrize(
    ("caller", "asked", "default", "tenant"),
    [
        ("ann", "", "", ""),
        ("ann", "north", "", "north"),
        ("ann", "", "main", "main"),
        ("ann@south", "", "main", "south"),  # what the caller is bound to comes before the default
        ("ann@south", "south", "main", "south"),
    ],
)
async def test_the_tenant_is_named_bound_or_default(caller: str, asked: str, default: str, tenant: str) -> None:
    async with open_door(rules=CallRules(tenants=Tenants(default=default)), authenticator=ByName()) as door:
        await get(door, [("x-name", caller)], tenant=asked)
        scope = door.seen.calls[0].scope
    assert (scope.tenant, scope.owner) == (tenant, "ann")


@pytest.mark.req("TENA-04")
async def test_foreign_and_unknown_tenants_are_refused_alike() -> None:
    rules = CallRules(tenants=Tenants(frozenset({"north", "south"})))
    async with open_door(rules=rules, authenticator=ByName()) as door:
        foreign = await refused(lambda: get(door, [("x-name", "ann@north")], tenant="south"))
        unknown = await refused(lambda: get(door, [("x-name", "ann@north")], tenant="nowhere"))
        unbound = await refused(lambda: get(door, [("x-name", "ann")], tenant="nowhere"))
        none = await refused(lambda: get(door, [("x-name", "ann")]))
        assert await get(door, [("x-name", "ann")], tenant="south")
    assert foreign.code == grpc.StatusCode.PERMISSION_DENIED
    assert foreign == unknown == unbound == none


@pytest.mark.parametrize("tenant", ["x" * 256, "a\x00b"])
async def test_a_tenant_that_no_store_could_keep_is_refused(tenant: str) -> None:
    async with open_door() as door:
        answer = await refused(lambda: get(door, [], tenant=tenant))
    assert list(answer.fields) == ["tenant"]


@pytest.mark.req("TENA-07")
@pytest.mark.parametrize("name", [*sorted(RESERVED), "a/b", "a\nb", "x" * 256])
def test_tenants_that_routes_would_shadow_cannot_be_configured(name: str) -> None:
    with pytest.raises(ValueError, match="tenant"):
        Tenants(frozenset({name}))
    with pytest.raises(ValueError, match="tenant"):
        Tenants(default=name)


def test_the_default_must_be_served() -> None:
    with pytest.raises(ValueError, match="must be one of the tenants"):
        Tenants(frozenset({"a"}), "b")


@pytest.mark.req("AUTN-03")
async def test_nothing_inside_a_message_changes_who_calls() -> None:
    request = pb.SendMessageRequest(message=pb.Message(message_id="m", role=pb.ROLE_USER))
    for struct in (request.metadata, request.message.metadata):
        struct.update({"x-name": "bob", "owner": "bob", "authorization": "Bearer bob"})
    async with open_door(authenticator=ByName()) as door:
        await door.stub.SendMessage(request, metadata=[("x-name", "ann")])
        assert door.seen.calls[0].caller.owner == door.seen.calls[0].scope.owner == "ann"


async def test_draining_refuses_new_calls() -> None:
    async with open_door() as door:
        door.pipeline.draining = True
        answer = await refused(lambda: get(door, []))
    assert (answer.code, answer.retry_after) == (grpc.StatusCode.UNAVAILABLE, 1)
