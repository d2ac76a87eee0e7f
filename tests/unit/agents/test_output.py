"""Artifacts in the making: append, last_chunk, the chunk that is held back, and ids."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import InvalidAgentResponse, Turn, text_part
from a2a_server.agents.agent import Saved
from a2a_server.agents.output import LINGER
from tests.unit.agents.conftest import Clockless


def flags(events: Sequence[pb.StreamResponse]) -> list[tuple[str, bool, bool]]:
    updates = [event.artifact_update for event in events]
    return [(update.artifact.parts[0].text, update.append, update.last_chunk) for update in updates]


async def test_the_first_chunk_starts_and_the_last_ends_the_artifact(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact("story") as out:
        for text in ("a", "b", "c"):
            await out.write(text)
    assert flags(outlet.events) == [("a", False, False), ("b", True, False), ("c", True, True)]


async def test_one_chunk_is_first_and_last(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact() as out:
        await out.write("all")
    assert flags(outlet.events) == [("all", False, True)]


async def test_without_a_chunk_there_is_no_artifact(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact():
        pass
    assert not outlet.events


async def test_only_the_first_chunk_carries_the_label(turn: Turn, outlet: Clockless) -> None:
    label = {"description": "d", "media_type": "text/markdown", "metadata": {"k": 1}, "extensions": ["urn:x"]}
    async with turn.artifact("n", artifact_id="mine", **label) as out:  # type: ignore[arg-type]
        await out.write("# a")
        await out.write("b")
    first, second = (event.artifact_update.artifact for event in outlet.events)
    assert (first.artifact_id, first.name, first.description) == ("mine", "n", "d")
    assert first.metadata["k"] == 1
    assert list(first.extensions) == ["urn:x"]
    assert second == pb.Artifact(artifact_id="mine", parts=[pb.Part(text="b", media_type="text/markdown")])


async def test_a_chunk_waits_for_its_successor(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact() as out:
        await out.write("a")
        assert not outlet.events
        await out.write("b")
        assert flags(outlet.events) == [("a", False, False)]


async def test_a_chunk_does_not_wait_for_long(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact() as out:
        await out.write("a")
        before = asyncio.get_running_loop().time()
        await outlet.heard.wait()
        assert asyncio.get_running_loop().time() - before < 50 * LINGER
        assert flags(outlet.events) == [("a", False, False)]
    assert flags(outlet.events) == [("a", False, False)]  # no event without content says that it was the last


async def test_every_chunk_of_a_slow_source_goes_out_by_itself(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact() as out:
        for text in ("a", "b"):
            outlet.heard.clear()
            await out.write(text)
            await outlet.heard.wait()
    assert flags(outlet.events) == [("a", False, False), ("b", True, False)]


async def test_the_timer_counts_from_the_newest_chunk(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact() as out:
        await out.write("a")
        await asyncio.sleep(0.6 * LINGER)
        await out.write("b")
        await asyncio.sleep(0.6 * LINGER)  # the timer set for "a" has fired meanwhile
        await out.write("c")
    assert flags(outlet.events)[-1] == ("c", True, True)


async def test_the_timer_finds_nothing_to_do_when_the_artifact_has_ended(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact() as out:
        await out.write("a")
    await asyncio.sleep(2 * LINGER)
    assert flags(outlet.events) == [("a", False, True)]


async def test_a_held_chunk_leaves_before_what_is_said_after_it(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact() as out:
        await out.write("a")
        await turn.status("hm")
        await out.write("b")
    kinds = [event.WhichOneof("payload") for event in outlet.events]
    assert kinds == ["artifact_update", "status_update", "artifact_update"]
    assert outlet.events[-1].artifact_update.last_chunk


async def test_two_artifacts_at_once_keep_the_order_of_their_chunks(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact("x") as x, turn.artifact("y") as y:
        await x.write("x1")
        await y.write("y1")
        await x.write("x2")
    assert flags(outlet.events) == [
        ("x1", False, False),
        ("y1", False, False),
        ("x2", True, True),
    ]
    assert [event.artifact_update.artifact.artifact_id for event in outlet.events] == [
        "t-1",
        "t-2",
        "t-1",
    ]


async def test_an_exception_leaves_what_was_written_and_marks_nothing_as_last(turn: Turn, outlet: Clockless) -> None:
    async def write() -> None:
        async with turn.artifact() as out:
            await out.write("a")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await write()
    assert flags(outlet.events) == [("a", False, False)]


async def test_a_question_inside_the_block_is_the_last_event(turn: Turn, outlet: Clockless) -> None:
    async with turn.artifact() as out:
        await out.write("a")
        await turn.ask("More?")
    assert [event.WhichOneof("payload") for event in outlet.events] == ["artifact_update", "status_update"]


@pytest.mark.req("ARTF-03")
async def test_a_finished_artifact_takes_nothing_more(turn: Turn) -> None:
    async with turn.artifact() as out:
        await out.write("a")
    with pytest.raises(InvalidAgentResponse, match="finished"):
        await out.write("b")


async def test_a_part_without_content_is_refused_where_it_is_written(turn: Turn, outlet: Clockless) -> None:
    with pytest.raises(InvalidAgentResponse, match="one of text"):
        async with turn.artifact() as out:
            await out.write(pb.Part())
    assert not outlet.events


async def test_an_artifact_at_once_is_complete(turn: Turn, outlet: Clockless) -> None:
    await turn.add_artifact([text_part("a"), text_part("b")], "n", description="d")
    [event] = outlet.events
    artifact = pb.Artifact(artifact_id="t-1", name="n", description="d", parts=[text_part("a"), text_part("b")])
    assert event.artifact_update == pb.TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True)


async def test_an_id_of_the_author_s_own_stays(turn: Turn, outlet: Clockless) -> None:
    await turn.add_artifact("x", artifact_id="mine")
    await turn.add_artifact("y")
    assert [event.artifact_update.artifact.artifact_id for event in outlet.events] == ["mine", "t-1"]


async def test_the_id_is_known_before_the_first_chunk(turn: Turn) -> None:
    async with turn.artifact() as first, turn.artifact() as second:
        assert (second.artifact_id, first.artifact_id, second.artifact_id) == ("t-1", "t-2", "t-1")


async def names(turn: Turn, outlet: Clockless) -> list[str]:
    del outlet.events[:]
    await turn.add_artifact("a")
    async with turn.artifact() as out:
        await out.write("b")
    return [event.artifact_update.artifact.artifact_id for event in outlet.events]


@pytest.mark.req("CTX-14")
async def test_another_turn_or_task_gives_new_ids_and_the_same_name(
    turn_of: Callable[..., Turn], outlet: Clockless
) -> None:
    assert await names(turn_of(), outlet) == ["t-1", "t-2"]
    assert {event.artifact_update.artifact.name for event in outlet.events} == {"skill"}
    assert await names(turn_of(number=7), outlet) == ["t-7-1", "t-7-2"]
    assert await names(turn_of(task_id="u"), outlet) == ["u-1", "u-2"]
    assert {event.artifact_update.artifact.name for event in outlet.events} == {"skill"}


async def test_a_rerun_gives_the_same_ids(turn_of: Callable[..., Turn], outlet: Clockless) -> None:
    assert await names(turn_of(rerun=True), outlet) == ["t-1", "t-2"]


async def test_a_rerun_leaves_alone_what_was_finished_at_its_checkpoint(
    turn_of: Callable[..., Turn], outlet: Clockless
) -> None:
    first = turn_of()
    await first.add_artifact("one")
    await first.checkpoint()
    saved = Saved.load(outlet.blob)
    assert await names(turn_of(rerun=True, saved=saved), outlet) == ["t-2", "t-3"]
    assert await names(turn_of(number=4, saved=saved), outlet) == ["t-4-1", "t-4-2"]


async def test_a_rerun_writes_anew_what_was_open_at_its_checkpoint(
    turn_of: Callable[..., Turn], outlet: Clockless
) -> None:
    first = turn_of()
    async with first.artifact() as out:
        await out.write("half")
        await first.add_artifact("whole")
        await first.checkpoint()
    assert await names(turn_of(rerun=True, saved=Saved.load(outlet.blob)), outlet) == ["t-1", "t-2"]
