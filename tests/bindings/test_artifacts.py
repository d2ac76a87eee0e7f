"""Artifacts: what chunks add up to, and what one costs (spec: ARTF, DURA-05, MSGS-03)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, Turn
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.records import Write
from a2a_server.ports.store import Store
from tests.bindings.actors import COMPLETED, Actor, chunk, log_of, status, texts, watch_writes
from tests.support.house import MemoryStore, fold
from tests.support.world import kinds, say, serving


def emitting(*events: pb.StreamResponse) -> Actor:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for event in events:
            copy = pb.StreamResponse()
            copy.CopyFrom(event)
            outlet.emit(copy)
        outlet.emit(status(COMPLETED))

    return Actor(act)


@pytest.mark.req("ARTF-01", "MSGS-03")
async def test_an_update_makes_an_artifact_or_replaces_it(store: Store) -> None:
    agent = emitting(chunk("old"), chunk("b", artifact_id="b"), chunk("new", last=True))
    async with serving(agent, store=store) as world:
        task = await world.send(say())
        assert [(artifact.artifact_id, texts(artifact)) for artifact in task.artifacts] == [
            ("a", ["new"]),
            ("b", ["b"]),
        ]


@pytest.mark.req("ARTF-02")
async def test_an_append_adds_parts_and_starts_what_is_not_there(store: Store) -> None:
    agent = emitting(chunk("1", append=True), chunk("2", append=True), chunk("3", append=True, last=True))
    async with serving(agent, store=store) as world:
        items = await world.stream(say())
        assert kinds(items).count("artifact_update") == 3
        assert texts((await world.get(items[0].task.id)).artifacts[0]) == ["1", "2", "3"]


@pytest.mark.req("ARTF-03", "STAT-02")
async def test_nothing_is_appended_after_the_last_chunk(store: Store) -> None:
    agent = emitting(chunk("1"), chunk("2", append=True, last=True), chunk("3", append=True))
    async with serving(agent, store=store) as world:
        items = await world.stream(say())
        updates = [item.artifact_update for item in items if item.HasField("artifact_update")]
        assert [update.last_chunk for update in updates] == [False, True]
        task = await world.get(items[0].task.id)
        assert (texts(task.artifacts[0]), task.status.state) == (["1", "2"], COMPLETED)


@pytest.mark.req("ARTF-01", "ARTF-03")
async def test_a_replacement_begins_anew(store: Store) -> None:
    agent = emitting(chunk("1", last=True), chunk("2"), chunk("3", append=True, last=True))
    async with serving(agent, store=store) as world:
        assert texts((await world.send(say())).artifacts[0]) == ["2", "3"]


@pytest.mark.req("ARTF-01", "ARTF-02", "ARTF-03", "AGNT-01")
async def test_authors_need_not_know_about_chunks(store: Store) -> None:
    agent = Agent("Writer", "Writes.", "1.0.0")

    @agent.skill(id="write", tags=["text"])
    async def write(turn: Turn) -> None:
        async with turn.artifact("poem") as out:
            for word in ("roses", "are", "red"):
                await out.write(word)

    async with serving(agent, store=store) as world:
        items = await world.stream(say())
        updates = [item.artifact_update for item in items if item.HasField("artifact_update")]
        assert [(update.append, update.last_chunk) for update in updates] == [
            (False, False),
            (True, False),
            (True, True),
        ]
        task = await world.get(items[0].task.id)
        assert [(artifact.name, texts(artifact)) for artifact in task.artifacts] == [("poem", ["roses", "are", "red"])]


EVENTS = st.lists(
    st.builds(
        chunk,
        st.text(max_size=3),
        artifact_id=st.sampled_from("ab"),
        append=st.booleans(),
        last=st.booleans(),
    ),
    max_size=12,
)


@pytest.mark.req("ARTF-04", "SUBS-02")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS)
async def test_the_stored_task_is_what_a_client_assembles(events: list[pb.StreamResponse]) -> None:
    async with serving(emitting(*events)) as world:
        items = await world.stream(say())
        assembled = items[0].task
        fold(assembled, items[1:])
        assert assembled == await world.get(assembled.id)


# -- what a chunk costs


def long_answer(chunks: int) -> Actor:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(chunks):
            outlet.emit(chunk("0123456789", append=number > 0))
            await outlet.durable()  # each chunk in a commit of its own: nothing is saved by grouping
        outlet.emit(status(COMPLETED))

    return Actor(act)


async def costs(chunks: int) -> tuple[list[Write], int]:
    """The writes of a long answer, and the bytes of all snapshots among them."""
    store = MemoryStore()
    writes = watch_writes(store)
    async with serving(long_answer(chunks), store=store) as world:
        task = await world.send(say())
        assert len(texts(task.artifacts[0])) == chunks
        assert len(await log_of(world.core, task.id)) == chunks + 3
    return writes, sum(len(write.artifacts or b"") for write in writes)


@pytest.mark.req("DURA-05")
async def test_a_chunk_is_one_append_however_long_the_answer_is() -> None:
    """Counted, not timed: entries and bytes per chunk, snapshots included."""
    short, long = 100, 4_000
    few, few_bytes = await costs(short)
    many, many_bytes = await costs(long)
    chunks = [write for write in many if any(entry.event.HasField("artifact_update") for entry in write.entries)]
    assert len(chunks) == long
    assert all(len(write.entries) == 1 and write.head is None for write in chunks[1:-1])
    sizes = {len(entry.wire) for write in chunks[1:] for entry in write.entries}
    assert len(sizes) <= 2
    assert few_bytes / short < 40
    assert many_bytes / long < 3 * few_bytes / short  # rewritten so rarely that it stays proportional
    assert sum(write.artifacts is not None for write in many) < 10
    assert len(few) - short == len(many) - long


@pytest.mark.req("DURA-05", "ARTF-04")
async def test_reading_in_the_middle_of_a_long_answer_sees_all_of_it(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(600):
            outlet.emit(chunk(f"{number:0>500}", append=number > 0))
            await outlet.room()
            if number % 150 == 149:
                await outlet.durable()
                task = await world.get(request.task_id)
                seen.append(len(texts(task.artifacts[0])))
        outlet.emit(status(COMPLETED))

    seen: list[int] = []
    async with serving(Actor(act), store=store) as world:
        task = await world.send(say())
        assert seen == [150, 300, 450, 600]
        assert texts(task.artifacts[0]) == [f"{number:0>500}" for number in range(600)]
