"""What metadata says about a call: version, extensions, idempotency key, tenant, caller."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import discovery_pb2
from a2a_server.adapters.defaults import Anonymous
from a2a_server.ports.authenticator import Caller, CardSecurity, Credentials
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.transport.open_streams import OpenStreams
from a2a_server.transport.pipeline import Pipeline
from a2a_server.transport.steps import CallRules, Extensions, Tenants, standard
from tests.unit.transport.doors import Door, Refusal, Seen, open_door, refused

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


@pytest.mark.parametrize("tenant", ["x" * 256, "a\x00b", ".x"])
async def test_a_tenant_that_no_store_could_keep_is_refused(tenant: str) -> None:
    async with open_door() as door:
        answer = await refused(lambda: get(door, [], tenant=tenant))
    assert list(answer.fields) == ["tenant"]


HIDDEN = ("tasks", "v1", "extendedAgentCard", ".well-known", ".x", "message:send", "message:stream")


@pytest.mark.req("TENA-07")
@pytest.mark.parametrize("name", [*HIDDEN, "a/b", "a\nb", "x" * 256])
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


SPOKEN = "a2a-server-spoken"
VERSION = "a2a-version"
SCHEMES = "a2a-server-schemes"


class Called(Seen):
    """A pipeline in front of operations that note what they were told."""

    def pipeline(self, rules: CallRules | None = None) -> Pipeline:
        names = ("GetTask", "SendMessage", "CreateTaskPushNotificationConfig")
        operations = {name: self.answering(pb.Task(id="t")) for name in names}
        operations["SendStreamingMessage"] = self.streaming("a")
        return Pipeline(operations, standard(Anonymous(), rules or CallRules()), OpenStreams())


def envelope(**metadata: str) -> Credentials:
    return Credentials({name.replace("_", "-"): (value,) for name, value in metadata.items()})


async def version_of(told: Credentials, *, spoken: str = "1.0", rules: CallRules | None = None) -> str:
    called = Called()
    await called.pipeline(rules).unary("GetTask", pb.GetTaskRequest(id="t"), told, spoken=spoken)
    return called.calls[0].version


async def refused_call(
    told: Credentials, *, spoken: str = "1.0", rules: CallRules | None = None, rpc: str = "GetTask"
) -> A2AError:
    called = Called()
    with pytest.raises(A2AError) as caught:
        await called.pipeline(rules).unary(rpc, pb.GetTaskRequest(id="t"), told, spoken=spoken)
    assert not called.calls
    return caught.value


@pytest.mark.req("VERS-01", "VERS-04")
@pytest.mark.parametrize("version", [None, "", "0.3", "0.3.0", " 0.3 ", "0.3.99"])
@pytest.mark.parametrize("strict", [False, True])
async def test_who_speaks_0_3_need_not_say_so(version: str | None, strict: bool) -> None:  # noqa: FBT001 - a parameter
    told = envelope() if version is None else envelope(a2a_version=version)
    assert await version_of(told, spoken="0.3", rules=CallRules(strict_version=strict)) == "0.3"


@pytest.mark.req("VERS-02", "VERS-08", "VERS-09")
@pytest.mark.parametrize("version", ["1.0", "1.0.1", "0.2.5", "0.30", "x", "0.3,1.0"])
async def test_another_version_than_the_one_that_is_spoken_contradicts_it(version: str) -> None:
    error = await refused_call(envelope(a2a_version=version), spoken="0.3")
    assert error.reason is Reason.VERSION_NOT_SUPPORTED
    where = " A2A 1.0 is spoken by paths without /v1, by methods such as SendMessage, and by the package lf.a2a.v1."
    hint = where if version.startswith("1.0") else ""
    assert error.message == f'This interface speaks A2A 0.3; the request asks for "{version}".{hint}'
    assert error.metadata == {"requestedVersion": version, "supportedVersions": "1.0,0.3"}


async def test_versions_that_disagree_are_none_on_0_3_either() -> None:
    error = await refused_call(Credentials({VERSION: ("0.3", "1.0")}), spoken="0.3")
    assert error.metadata["requestedVersion"] == "0.3,1.0"


@pytest.mark.req("VERS-01", "VERS-07")
@pytest.mark.parametrize("spoken", ["1.0", "0.3", "draft"])
async def test_a_gateway_says_what_its_client_spoke(spoken: str) -> None:
    assert await version_of(envelope(a2a_server_spoken=spoken)) == spoken
    called = Called()
    stream = await called.pipeline().stream(
        "SendStreamingMessage", pb.SendMessageRequest(), envelope(a2a_server_spoken=spoken)
    )
    assert [len(batch) async for batch in stream.items] == [1]
    assert called.calls[0].version == spoken


@pytest.mark.parametrize("spoken", ["0.2", "0.3.0", "1.0.1", "", "Draft"])
async def test_a_gateway_that_says_anything_else_is_refused(spoken: str) -> None:
    error = await refused_call(envelope(a2a_server_spoken=spoken))
    assert error.reason is Reason.VERSION_NOT_SUPPORTED
    assert f'its client speaks "{spoken}"' in error.message
    assert error.metadata == {"requestedVersion": spoken, "supportedVersions": "1.0,0.3"}


async def test_two_answers_to_what_was_spoken_are_none() -> None:
    error = await refused_call(Credentials({SPOKEN: ("0.3", "0.3")}))
    assert error.metadata["requestedVersion"] == "0.3,0.3"


@pytest.mark.req("VERS-02")
async def test_a_gateway_itself_speaks_1_0_whatever_its_client_speaks() -> None:
    """It says so, or servers that go by the letter would take the call for one of 0.3."""
    told = envelope(a2a_server_spoken="0.3", a2a_version="1.0")
    assert await version_of(told) == "0.3"
    assert await version_of(told, rules=CallRules(strict_version=True)) == "0.3"


@pytest.mark.req("VERS-02")
@pytest.mark.parametrize("version", ["0.3", "2.0"])
async def test_a_gateway_that_speaks_another_version_is_refused(version: str) -> None:
    error = await refused_call(envelope(a2a_server_spoken="0.3", a2a_version=version))
    assert error.reason is Reason.VERSION_NOT_SUPPORTED
    assert error.metadata["requestedVersion"] == version


async def test_a_door_knows_better_than_metadata() -> None:
    assert await version_of(envelope(a2a_server_spoken="draft"), spoken="0.3") == "0.3"


@pytest.mark.req("VERS-02", "VERS-08")
async def test_a_server_without_0_3_speaks_it_to_nobody() -> None:
    off = CallRules(legacy=False)
    assert await version_of(envelope(), rules=off) == "1.0"
    error = await refused_call(envelope(a2a_server_spoken="0.3"), rules=off)
    assert error.metadata == {"requestedVersion": "0.3", "supportedVersions": "1.0"}
    asked = await refused_call(envelope(a2a_version="0.3"), rules=off)
    assert asked.metadata["supportedVersions"] == "1.0"
    assert asked.message == 'This interface speaks A2A 1.0; the request asks for "0.3".'


@pytest.mark.req("VERS-02", "VERS-03")
@pytest.mark.parametrize(
    ("told", "strict", "says"),
    [
        (envelope(a2a_version="0.3"), False, 'asks for "0.3"'),
        (envelope(a2a_version="0.3.0"), False, 'asks for "0.3.0"'),
        (envelope(), True, "names no version, which counts as 0.3"),
        (envelope(a2a_version=""), True, "names no version, which counts as 0.3"),
    ],
)
async def test_who_asks_for_a_version_that_is_spoken_elsewhere_is_told_where(
    told: Credentials, *, strict: bool, says: str
) -> None:
    error = await refused_call(told, rules=CallRules(strict_version=strict))
    where = "A2A 0.3 is spoken under /v1, by methods such as message/send, and by the package a2a.v1."
    assert error.message == f"This interface speaks A2A 1.0; the request {says}. {where}"


@pytest.mark.req("VERS-02")
@pytest.mark.parametrize("version", ["2.0", "0.2", "x", "1.0,0.3"])
async def test_who_asks_for_what_nobody_speaks_is_told_no_place(version: str) -> None:
    error = await refused_call(envelope(a2a_version=version))
    assert error.message == f'This interface speaks A2A 1.0; the request asks for "{version}".'


# -- schemes


async def schemes_of(told: Credentials, rpc: str = "SendMessage", spoken: str = "0.3") -> list[str]:
    called = Called()
    await called.pipeline().unary(rpc, pb.SendMessageRequest(), told, spoken=spoken)
    return [*called.calls[0].schemes]


@pytest.mark.req("LPSH-02")
async def test_all_schemes_that_were_offered_are_told_in_their_order() -> None:
    assert await schemes_of(envelope(a2a_server_schemes="Bearer, Basic,,HMAC")) == ["Bearer", "Basic", "HMAC"]
    assert await schemes_of(Credentials({SCHEMES: ("Basic", "Bearer", "Basic")})) == ["Basic", "Bearer"]
    assert await schemes_of(envelope(a2a_server_schemes="Basic", a2a_server_spoken="0.3"), spoken="1.0") == ["Basic"]
    assert await schemes_of(envelope()) == []


async def test_1_0_has_room_for_one_scheme_and_takes_no_others_from_metadata() -> None:
    assert await schemes_of(envelope(a2a_server_schemes="Bearer"), spoken="1.0") == []


@pytest.mark.parametrize(
    ("rpc", "field"),
    [
        ("SendMessage", "configuration.task_push_notification_config.authentication.scheme"),
        ("CreateTaskPushNotificationConfig", "authentication.scheme"),
    ],
)
@pytest.mark.parametrize("value", ["Bea rer", "a=b", "ü", "x" * 65, ",".join(f"s{number}" for number in range(17))])
async def test_what_is_no_list_of_schemes_is_refused_by_the_name_of_its_member(
    rpc: str, field: str, value: str
) -> None:
    error = await refused_call(envelope(a2a_server_schemes=value), spoken="0.3", rpc=rpc)
    assert error.reason is Reason.INVALID_PARAMS
    assert [fault.field for fault in error.violations] == [field]
    assert "at most 16" in error.violations[0].description
