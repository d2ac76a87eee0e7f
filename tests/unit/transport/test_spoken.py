"""What a call is told about the version its client spoke, and what goes with that."""

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.defaults import Anonymous
from a2a_server.ports.authenticator import Credentials
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.transport.open_streams import OpenStreams
from a2a_server.transport.pipeline import Pipeline
from a2a_server.transport.steps import CallRules, standard
from tests.unit.transport.doors import Seen

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


async def refusal(
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
    error = await refusal(envelope(a2a_version=version), spoken="0.3")
    assert error.reason is Reason.VERSION_NOT_SUPPORTED
    where = " A2A 1.0 is spoken by paths without /v1, by methods such as SendMessage, and by the package lf.a2a.v1."
    hint = where if version.startswith("1.0") else ""
    assert error.message == f'This interface speaks A2A 0.3; the request asks for "{version}".{hint}'
    assert error.metadata == {"requestedVersion": version, "supportedVersions": "1.0,0.3"}


async def test_versions_that_disagree_are_none_on_0_3_either() -> None:
    error = await refusal(Credentials({VERSION: ("0.3", "1.0")}), spoken="0.3")
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
    error = await refusal(envelope(a2a_server_spoken=spoken))
    assert error.reason is Reason.VERSION_NOT_SUPPORTED
    assert f'its client speaks "{spoken}"' in error.message
    assert error.metadata == {"requestedVersion": spoken, "supportedVersions": "1.0,0.3"}


async def test_two_answers_to_what_was_spoken_are_none() -> None:
    error = await refusal(Credentials({SPOKEN: ("0.3", "0.3")}))
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
    error = await refusal(envelope(a2a_server_spoken="0.3", a2a_version=version))
    assert error.reason is Reason.VERSION_NOT_SUPPORTED
    assert error.metadata["requestedVersion"] == version


async def test_a_door_knows_better_than_metadata() -> None:
    assert await version_of(envelope(a2a_server_spoken="draft"), spoken="0.3") == "0.3"


@pytest.mark.req("VERS-02", "VERS-08")
async def test_a_server_without_0_3_speaks_it_to_nobody() -> None:
    off = CallRules(legacy=False)
    assert await version_of(envelope(), rules=off) == "1.0"
    error = await refusal(envelope(a2a_server_spoken="0.3"), rules=off)
    assert error.metadata == {"requestedVersion": "0.3", "supportedVersions": "1.0"}
    asked = await refusal(envelope(a2a_version="0.3"), rules=off)
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
    error = await refusal(told, rules=CallRules(strict_version=strict))
    where = "A2A 0.3 is spoken under /v1, by methods such as message/send, and by the package a2a.v1."
    assert error.message == f"This interface speaks A2A 1.0; the request {says}. {where}"


@pytest.mark.req("VERS-02")
@pytest.mark.parametrize("version", ["2.0", "0.2", "x", "1.0,0.3"])
async def test_who_asks_for_what_nobody_speaks_is_told_no_place(version: str) -> None:
    error = await refusal(envelope(a2a_version=version))
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
    error = await refusal(envelope(a2a_server_schemes=value), spoken="0.3", rpc=rpc)
    assert error.reason is Reason.INVALID_PARAMS
    assert [fault.field for fault in error.violations] == [field]
    assert "at most 16" in error.violations[0].description
