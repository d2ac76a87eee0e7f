"""Extensions: declared, activated, required, checked (spec: EXTN, SPAR-03, GRPC-05, CONF-20)."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.agents import Extension, Violation
from tests.support.calls import every_call
from tests.support.house import CallRules, Extensions
from tests.support.stage import Stage
from tests.support.world import World, refused, say, serving

NAME = "a2a-extensions"
PLACE, TONE = "https://example.com/ext/place/v1", "https://example.com/ext/tone/v1"


def check_place(request: pb.SendMessageRequest) -> Iterator[Violation | str]:
    """The extension's own rules: `place` is a text, and the message says that it follows the extension."""
    fields = request.metadata.fields
    if PLACE not in fields or fields[PLACE].WhichOneof("kind") != "string_value":
        yield f"{PLACE} must be a text"
    if PLACE not in request.message.extensions:
        yield Violation("message.extensions", f"must name {PLACE}")


def stage(*, required: bool = False, checked: bool = False) -> Stage:
    place = Extension(PLACE, "Says where.", required=False, params={"zoom": 3}, check=check_place if checked else None)
    tone = Extension(TONE, "Says how to say it.", required=required)
    return Stage(extensions=[place, tone])


def asking(*values: str) -> tuple[tuple[str, str], ...]:
    return tuple((NAME, value) for value in values)


async def activated(world: World, *values: str) -> list[str]:
    """What the response says was activated."""
    call = world.stub.SendMessage(say(), metadata=asking(*values))
    await call
    return [str(value) for name, value in await call.initial_metadata() if name == NAME]


@pytest.mark.req("EXTN-01")
async def test_the_card_declares_what_is_supported() -> None:
    async with serving(stage(required=True).agent) as world:
        card = await world.discovery.GetAgentCard(GetAgentCardRequest())

    place, tone, replay = card.capabilities.extensions
    assert (place.uri, place.description, place.required, dict(place.params)) == (
        PLACE,
        "Says where.",
        False,
        {"zoom": 3},
    )
    assert (tone.uri, tone.required, tone.HasField("params")) == (TONE, True, False)
    assert (replay.uri, replay.required, replay.HasField("params")) == ("urn:a2a-server:replay:v1", False, False)


@pytest.mark.req("EXTN-02", "EXTN-03", "EXTN-05", "EXTN-10", "GRPC-03", "GRPC-05", "SPAR-01", "SPAR-03")
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([PLACE], [PLACE]),
        ([f"{PLACE},{TONE}"], [f"{PLACE}, {TONE}"]),
        ([f"  {TONE} ,, {PLACE}  ,"], [f"{TONE}, {PLACE}"]),
        ([TONE, PLACE], [f"{TONE}, {PLACE}"]),
        ([PLACE, PLACE], [PLACE]),
        (["https://example.com/ext/unknown"], []),
        ([f"https://example.com/ext/unknown, {PLACE}"], [PLACE]),
        ([PLACE.replace("v1", "v2")], []),
        ([PLACE.removesuffix("/v1")], []),
        ([f"{PLACE}/"], []),
        ([PLACE.upper()], []),
        ([" "], []),
    ],
)
async def test_what_is_asked_for_and_declared_is_active(values: list[str], expected: list[str]) -> None:
    cast = stage()
    async with serving(cast.agent) as world:
        assert await activated(world, *values) == expected
    assert sorted(cast.turns[0].extensions) == sorted(", ".join(expected).split(", ") if expected else [])


@pytest.mark.req("EXTN-03", "GRPC-05")
async def test_streams_and_reads_name_what_was_activated_too() -> None:
    async with serving(stage().agent) as world:
        for call in (
            world.stub.ListTasks(pb.ListTasksRequest(), metadata=asking(PLACE)),
            world.stub.SendStreamingMessage(say(), metadata=asking(PLACE)),
        ):
            assert (NAME, PLACE) in tuple(await call.initial_metadata())
            call.cancel()


@pytest.mark.req("EXTN-02")
async def test_a_follow_up_activates_for_itself() -> None:
    cast = stage()
    async with serving(cast.agent) as world:
        task = await world.send(say(skill="ask"), metadata=asking(PLACE))
        await world.send(say("red", task_id=task.id))
    assert [turn.extensions for turn in cast.turns] == [{PLACE}, frozenset()]


@pytest.mark.req("EXTN-04", "EXTN-05", "ERRS-01", "ERRS-03", "GEN-03")
@pytest.mark.parametrize("values", [[], [PLACE], [TONE.replace("v1", "v2")], [TONE.upper()]])
async def test_without_a_required_extension_no_message_is_taken(values: list[str]) -> None:
    cast = stage(required=True)
    async with serving(cast.agent) as world:
        for attempt in (
            world.send(say(), metadata=asking(*values)),
            world.stream(say(), metadata=asking(*values)),
        ):
            refusal = await refused(attempt)
            assert refusal.code.name == "FAILED_PRECONDITION"
            assert (refusal.reason, refusal.domain) == ("EXTENSION_SUPPORT_REQUIRED", "a2a-protocol.org")
            assert refusal.metadata == {"extension": TONE}
            assert TONE in refusal.message
        assert not (await world.stub.ListTasks(pb.ListTasksRequest())).tasks
        assert await activated(world, f"{PLACE},{TONE}") == [f"{PLACE}, {TONE}"]
    assert len(cast.turns) == 1


@pytest.mark.req("EXTN-04")
async def test_where_else_required_extensions_are_asked_for_is_a_setting() -> None:
    cast = stage(required=True)
    async with serving(cast.agent) as world:
        reasons = {name: (await heard(call())) for name, call in every_call(world).items()}
    assert {name for name, reason in reasons.items() if reason == "EXTENSION_SUPPORT_REQUIRED"} == {
        "SendMessage",
        "SendStreamingMessage",
    }

    everywhere = CallRules(extensions=Extensions.of(cast.agent.card.capabilities.extensions, everywhere=True))
    async with serving(cast.agent, rules=everywhere) as world:
        reasons = {name: (await heard(call())) for name, call in every_call(world).items()}
        assert (await world.discovery.GetAgentCard(GetAgentCardRequest())).name == "Stage"
    assert {name for name, reason in reasons.items() if reason != "EXTENSION_SUPPORT_REQUIRED"} == {
        "GetExtendedAgentCard"
    }


async def heard(call: Awaitable[object]) -> str:
    try:
        refusal = await refused(call)
    except AssertionError:
        return ""
    return refusal.reason


@pytest.mark.req("EXTN-06", "EXTN-07", "EXTN-08", "ERRS-05", "GEN-03")
async def test_a_request_that_breaks_an_extensions_rules_is_refused() -> None:
    cast = stage(checked=True)
    async with serving(cast.agent) as world:
        wrong = say()
        wrong.metadata[PLACE] = 7
        for attempt in (world.send(wrong, metadata=asking(PLACE)), world.stream(wrong, metadata=asking(PLACE))):
            refusal = await refused(attempt)
            assert refusal.code.name == "INVALID_ARGUMENT"
            assert refusal.fields == {
                "metadata": f"{PLACE} must be a text",
                "message.extensions": f"must name {PLACE}",
            }
        assert not cast.turns

        right = say()
        right.metadata[PLACE] = "here"
        right.message.extensions.append(PLACE)
        task = await world.send(right, metadata=asking(PLACE))
        assert list(task.history[0].extensions) == [PLACE]
        assert cast.turns[0].metadata[PLACE] == "here"


@pytest.mark.req("EXTN-02", "EXTN-08")
async def test_an_extension_that_is_not_activated_checks_nothing() -> None:
    cast = stage(checked=True)
    async with serving(cast.agent) as world:
        await world.send(say())
    assert not cast.turns[0].extensions


@pytest.mark.req("SPAR-03", "EXTN-08")
async def test_endless_lists_are_refused() -> None:
    async with serving(stage().agent) as world:
        many = ",".join(f"https://example.com/{number}" for number in range(400))
        refusal = await refused(world.send(say(), metadata=asking(many)))
    assert refusal.fields == {NAME: "must have at most 8192 characters in all"}
