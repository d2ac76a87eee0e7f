"""ListTasks: filters, pages, cursors, totals (spec: LIST)."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import product
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Turn
from a2a_server.ports.store import Store
from tests.support.house import Limits
from tests.support.stage import HandClock, Stage, texts
from tests.support.world import ByHeader, World, as_user, refused, say, serving

START = 1_700_000_000_000

COMPLETED, INPUT, FAILED = pb.TASK_STATE_COMPLETED, pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_FAILED
STATES = {"echo": COMPLETED, "ask": INPUT, "fail": FAILED}
ALLOWED = {name for name in pb.TaskState.keys() if name != "TASK_STATE_UNSPECIFIED"}  # noqa: SIM118 - no dict


def at(ms: int) -> Timestamp:
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


async def page(world: World, **fields: Any) -> pb.ListTasksResponse:
    metadata = fields.pop("metadata", None)
    answer: pb.ListTasksResponse = await world.stub.ListTasks(pb.ListTasksRequest(**fields), metadata=metadata)
    return answer


async def walk(world: World, **fields: Any) -> list[list[pb.Task]]:
    """All pages."""
    pages, token = [], ""
    while True:
        answer = await page(world, page_token=token, **fields)
        pages.append(list(answer.tasks))
        if not (token := answer.next_page_token):
            return pages


def ids(tasks: list[pb.Task]) -> list[str]:
    return [task.id for task in tasks]


async def fill(world: World, clock: HandClock, count: int, *, step: float = 1.0) -> list[str]:
    """Make finished tasks, one every `step` seconds; newest first."""
    made = []
    for _ in range(count):
        made.append((await world.send(say(skill="bare"))).id)
        clock.advance(step)
    return made[::-1]


@pytest.mark.req("LIST-07", "LIST-09", "LIST-10", "LIST-11")
async def test_a_caller_without_tasks_gets_an_empty_page(store: Store) -> None:
    async with serving(Stage().agent, store=store) as world:
        answer = await page(world)

    assert answer == pb.ListTasksResponse(page_size=50)


@pytest.mark.req("LIST-02", "LIST-03", "LIST-11", "LIST-16")
async def test_every_combination_of_filters(store: Store) -> None:
    clock = HandClock(START)
    async with serving(Stage().agent, store=store, clock=clock) as world:
        tasks = []
        for context, skill in product(("c-1", "c-2"), STATES):
            tasks.append(await world.send(say(skill=skill, context_id=context)))
            clock.advance(1)

        for context, state, since in product(
            ("", "c-1", "c-2", "c-3"), (0, COMPLETED, INPUT, pb.TASK_STATE_WORKING), (None, 0, 2500, 3000, 9000)
        ):
            expected = [
                task.id
                for task in reversed(tasks)
                if context in ("", task.context_id)
                and state in (0, task.status.state)
                and (since is None or task.status.timestamp.ToMilliseconds() >= START + since)
            ]
            stamp = None if since is None else at(START + since)
            answer = await page(world, context_id=context, status=state, status_timestamp_after=stamp)
            assert ids(list(answer.tasks)) == expected, (context, state, since)
            assert answer.total_size == len(expected)
            pages = await walk(world, context_id=context, status=state, status_timestamp_after=stamp, page_size=1)
            assert [task.id for each in pages for task in each] == expected


@pytest.mark.req("LIST-03")
async def test_the_time_filter_is_exact_to_the_nanosecond() -> None:
    async with serving(Stage().agent, clock=HandClock(START)) as world:
        await world.send(say(skill="bare"))
        same, later = at(START), at(START)
        later.nanos += 1

        assert (await page(world, status_timestamp_after=same)).total_size == 1
        assert (await page(world, status_timestamp_after=later)).total_size == 0


@pytest.mark.req("LIST-05")
async def test_a_task_that_moves_comes_first() -> None:
    clock = HandClock()
    async with serving(Stage().agent, clock=clock) as world:
        old = await world.send(say(skill="ask"))
        clock.advance(1)
        new = await world.send(say(skill="ask"))
        assert ids(list((await page(world)).tasks)) == [new.id, old.id]

        clock.advance(1)
        await world.send(say("red", task_id=old.id))
        assert ids(list((await page(world)).tasks)) == [old.id, new.id]


@pytest.mark.req("LIST-04", "LIST-06", "LIST-07", "LIST-09", "LIST-11")
@pytest.mark.parametrize("size", [1, 2, 3, 50, 59, 60, 61, 100, None])
async def test_a_walk_over_equal_times_yields_each_task_once(store: Store, size: int | None) -> None:
    async with serving(Stage().agent, store=store, clock=HandClock()) as world:
        made = {(await world.send(say(skill="bare"))).id for _ in range(60)}
        fields = {} if size is None else {"page_size": size}

        pages = await walk(world, **fields)
        assert await walk(world, **fields) == pages

        size = size or 50
        assert [len(each) for each in pages] == [size] * (60 // size) + [60 % size] * bool(60 % size)
        assert Counter(task.id for each in pages for task in each) == Counter(made)
        assert (await page(world, **fields)).page_size == size
        assert (await page(world, **fields)).total_size == 60


@pytest.mark.req("LIST-06")
async def test_a_walk_while_tasks_change_repeats_nothing_and_loses_nothing_that_rests(store: Store) -> None:
    clock = HandClock()
    async with serving(Stage().agent, store=store, clock=clock) as world:
        waiting = []
        for _ in range(6):
            waiting.append((await world.send(say(skill="ask"))).id)
            clock.advance(1)
        resting = await fill(world, clock, 6)

        seen, token = [], ""
        while True:
            answer = await page(world, page_size=2, page_token=token)
            seen += ids(list(answer.tasks))
            if waiting:
                await world.send(say("red", task_id=waiting.pop()))
                await world.send(say(skill="bare"))
                clock.advance(1)
            if not (token := answer.next_page_token):
                break

        assert len(seen) == len(set(seen))
        assert [task_id for task_id in seen if task_id in resting] == resting


@pytest.mark.req("LIST-08", "ERRS-05")
@pytest.mark.parametrize("size", [-1, 101, 2**31 - 1, -(2**31)])
async def test_page_sizes_outside_1_to_100_are_refused(size: int) -> None:
    async with serving(Stage().agent) as world:
        refusal = await refused(page(world, page_size=size))

    assert refusal.code.name == "INVALID_ARGUMENT"
    assert refusal.fields == {"page_size": f"must lie in 1..100, got {size}"}


@pytest.mark.req("LIST-08", "ERRS-05")
async def test_a_page_of_none_is_refused_in_json_and_means_nothing_over_grpc(door: str) -> None:
    """Released clients always write the field (CONF-79)."""
    async with serving(Stage().agent) as world:
        task = await world.send(say())
        if door == "grpc":
            assert ids(list((await page(world, page_size=0)).tasks)) == [task.id]
        else:
            refusal = await refused(page(world, page_size=0))
            assert refusal.code.name == "INVALID_ARGUMENT"
            assert refusal.fields == {"page_size": "must be a whole number from 1 to 100, got 0"}


@pytest.mark.req("LIST-12", "LIST-13")
async def test_artifacts_come_when_asked_for(store: Store) -> None:
    async with serving(Stage().agent, store=store) as world:
        await world.send(say("with", skill="echo"))

        plain = (await page(world)).tasks[0]
        assert not plain.artifacts
        assert plain.history
        assert not (await page(world, include_artifacts=False)).tasks[0].artifacts
        assert texts((await page(world, include_artifacts=True)).tasks[0]) == ["with"]


@pytest.mark.req("LIST-12", "LIST-13")
async def test_artifacts_of_a_task_that_is_being_worked_on(store: Store) -> None:
    stage = Stage()

    @stage.agent.skill(id="chunks", description="Writes and waits.", tags=["test"])
    async def chunks(turn: Turn) -> None:
        async with turn.artifact("log") as out:
            await out.write("one")
            await out.write("two")
            await turn.checkpoint()
            stage.turns.append(turn)
            await stage.release.wait()

    async with serving(stage.agent, store=store) as world:
        await world.send(say(skill="chunks", configuration={"return_immediately": True}))
        while not stage.turns:  # noqa: ASYNC110 - the skill runs in the same loop
            await asyncio.sleep(0)
        task = (await page(world, include_artifacts=True)).tasks[0]
        assert (task.status.state, texts(task)) == (pb.TASK_STATE_WORKING, ["one", "two"])
        assert not (await page(world)).tasks[0].artifacts
        stage.release.set()


@pytest.mark.req("LIST-07", "LIST-10", "LIST-11")
async def test_a_page_of_heavy_tasks_holds_fewer_of_them(store: Store) -> None:
    """The next page goes on where it ends, and a task that is too large for any page is one of its own."""
    stage = Stage()

    @stage.agent.skill(id="heavy", description="Says as much as it is told to.", tags=["test"])
    async def heavy(turn: Turn) -> str:
        return "x" * int(turn.text)

    clock, limits = HandClock(START), Limits(page_bytes=10_000)
    async with serving(stage.agent, store=store, clock=clock, limits=limits) as world:
        made = []
        for size in (4_000, 30_000, 4_000, 4_000, 10, 10):
            made.append((await world.send(say(str(size), skill="heavy"))).id)
            clock.advance(1)
        newest = made[::-1]
        pages = await walk(world, page_size=3, include_artifacts=True)
        assert [ids(tasks) for tasks in pages] == [newest[:3], newest[3:4], newest[4:5], newest[5:]]
        assert [len(texts(task)[0]) for tasks in pages for task in tasks] == [10, 10, 4_000, 4_000, 30_000, 4_000]
        assert [ids(tasks) for tasks in await walk(world, page_size=4)] == [newest[:4], newest[4:]]
        second = (await page(world, page_size=3, include_artifacts=True)).next_page_token
        answer = await page(world, page_size=3, include_artifacts=True, page_token=second)
        assert (ids(list(answer.tasks)), answer.page_size, answer.total_size) == ([newest[3]], 3, 6)


@pytest.mark.req("LIST-14", "HIST-02", "HIST-03", "HIST-06")
async def test_history_length_cuts_each_task_of_the_page() -> None:
    async with serving(Stage().agent) as world:
        for _ in range(2):
            asked = await world.send(say("a car", skill="ask"))
            await world.send(say("red", task_id=asked.id))

        def said(answer: pb.ListTasksResponse) -> list[list[str]]:
            return [[message.parts[0].text for message in task.history] for task in answer.tasks]

        assert said(await page(world)) == [["a car", "What colour?", "red"]] * 2
        assert said(await page(world, history_length=1)) == [["red"]] * 2
        assert said(await page(world, history_length=0)) == [[]] * 2


@pytest.mark.req("LIST-16", "LIST-08", "HIST-05", "ERRS-05")
async def test_all_faults_of_a_list_are_named_at_once(door: str) -> None:
    wrong = pb.ListTasksRequest(page_size=500, history_length=-1, context_id="x" * 257, tenant="a/b")
    wrong.status = 99  # type: ignore[assignment]  # a client may know more states than we
    wrong.status_timestamp_after.seconds = -(10**12) if door == "grpc" else 0  # JSON has no such time
    async with serving(Stage().agent) as world:
        refusal = await refused(world.stub.ListTasks(wrong))

    assert refusal.code.name == "INVALID_ARGUMENT"
    expected = {"page_size", "history_length", "context_id", "tenant", "status"}
    assert set(refusal.fields) == expected | ({"status_timestamp_after"} if door == "grpc" else set())
    assert refusal.fields["page_size"] == "must lie in 1..100, got 500"
    assert set(refusal.fields["status"].replace(",", "").split()) >= ALLOWED


# -- cursors


async def cursor(world: World, **fields: Any) -> str:
    """The cursor after the first of three tasks."""
    return (await page(world, page_size=1, **fields)).next_page_token


async def refusal_of(world: World, token: str, **fields: Any) -> tuple[str, str, object]:
    refusal = await refused(page(world, page_token=token, **fields))
    return refusal.code.name, refusal.message, refusal.fields


@pytest.mark.req("LIST-15", "AUTZ-03")
async def test_a_cursor_is_good_for_its_caller_its_tenant_and_its_filters_only() -> None:
    ann = as_user("ann")
    async with serving(Stage().agent, authenticator=ByHeader()) as world, serving(Stage().agent) as other:
        for _ in range(3):
            await world.send(say(skill="bare", context_id="c"), metadata=ann)
            await world.send(say(skill="bare", context_id="c"), metadata=as_user("ben"))
            await other.send(say(skill="bare", context_id="c"))
        token = await cursor(world, metadata=ann)
        assert len((await page(world, page_token=token, metadata=ann)).tasks) == 2
        assert len((await page(world, page_token=token, page_size=1, metadata=ann)).tasks) == 1  # size is no filter

        nonsense = await refusal_of(world, "nonsense", metadata=ann)
        assert nonsense[0] == "INVALID_ARGUMENT"
        for attempt in (
            refusal_of(world, token, metadata=as_user("ben")),
            refusal_of(world, token, metadata=ann, tenant="another"),
            refusal_of(world, token, metadata=ann, context_id="c"),
            refusal_of(world, token, metadata=ann, status=COMPLETED),
            refusal_of(world, token, metadata=ann, status_timestamp_after=at(0)),
            refusal_of(world, await cursor(other), metadata=ann),
        ):
            assert await attempt == nonsense


@pytest.mark.req("LIST-15")
async def test_a_mangled_cursor_is_refused_and_tells_nothing() -> None:
    async with serving(Stage().agent) as world:
        for _ in range(3):
            await world.send(say(skill="bare"))
        token = await cursor(world)
        nonsense = await refusal_of(world, "nonsense")
        assert list(nonsense[2]) == ["page_token"]  # type: ignore[call-overload]

        mangled = [token[:length] for length in range(1, len(token))]
        mangled += [token + "A", token + "=", " " + token, token.swapcase(), "!" * 40, "é" * 30, "A" * 100_000]
        mangled += [
            token[:spot] + ("B" if token[spot] == "A" else "A") + token[spot + 1 :] for spot in range(len(token))
        ]
        for wrong in mangled:
            assert await refusal_of(world, wrong) == nonsense, wrong[:100]


@pytest.mark.req("LIST-04")
async def test_a_cursor_survives_a_restart_and_the_end_of_its_task(store: Store) -> None:
    clock = HandClock()
    async with serving(Stage().agent, store=store, clock=clock) as world:
        rest = await fill(world, clock, 2)
        asked = (await world.send(say(skill="ask"))).id
        token = await cursor(world)
        clock.advance(1)
        await world.send(say("red", task_id=asked))
    async with serving(Stage().agent, store=store, clock=clock) as world:
        assert ids(list((await page(world, page_token=token)).tasks)) == rest


@pytest.mark.req("LIST-01", "LIST-11", "AUTZ-03")
async def test_everybody_sees_their_own_tasks_only(store: Store) -> None:
    async with serving(Stage().agent, store=store, authenticator=ByHeader()) as world:
        made: dict[str, set[str]] = {}
        for number, user in enumerate(("ann", "ben", "cleo")):
            who = as_user(user)
            made[user] = {
                (await world.send(say(skill="bare", context_id="shared"), metadata=who)).id for _ in range(number)
            }
        for user, own in made.items():
            for fields in ({}, {"context_id": "shared"}, {"status": COMPLETED}, {"status_timestamp_after": at(0)}):
                answer = await page(world, metadata=as_user(user), **fields)
                assert {task.id for task in answer.tasks} == own
                assert answer.total_size == len(own)


@pytest.mark.req("LIST-10")
async def test_the_size_in_the_answer_is_the_limit_and_not_the_number_of_tasks() -> None:
    async with serving(Stage().agent) as world:
        await world.send(say(skill="bare"))
        answer = await page(world, page_size=7)
    assert (answer.page_size, len(answer.tasks), answer.total_size) == (7, 1, 1)
