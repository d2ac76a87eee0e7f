"""Replay: every event after a cursor, once and in order, then what follows (spec: RPLY, EXTN-02, EXTN-07)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.rpc import code_pb2 as code
from google.rpc import error_details_pb2 as details
from google.rpc import status_pb2

from a2a_gateway.upstream import CallContext, Upstream
from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.records import Entry
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    AUTH,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT,
    WORKING,
    Actor,
    Gate,
    asking,
    at_rest,
    chunk,
    echo,
    hold_commits,
    log_of,
    status,
    until,
    waiting,
)
from tests.bindings.numbered import Numbered, numbers, on_the_wire, place, read, story, subscribe
from tests.support.house import REPLAY, Limits, MemoryStore, SqliteStore, fold
from tests.support.upstreams import KINDS, Kind, rpc
from tests.support.upstreams import refused as refused_by
from tests.support.world import ByHeader, as_user, kinds, say

NOW = {"return_immediately": True}

pytestmark = pytest.mark.only_through("grpc", why="what doors call is called itself, in both of its forms")
ASKING = ("a2a-extensions", REPLAY)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


async def fault_of(upstream: Upstream, task_id: str, cursor: object) -> str:
    """What the refusal says about the cursor."""

    async def attempt() -> Numbered:
        return await read(await subscribe(upstream, task_id, cursor))

    refusal = await refused_by(attempt())
    assert refusal.code == code.INVALID_ARGUMENT, refusal
    return _fault(refusal)


def _fault(refusal: status_pb2.Status) -> str:
    bad = details.BadRequest()
    assert any(packed.Unpack(bad) for packed in refusal.details)
    (fault,) = bad.field_violations
    assert fault.field == "last-event-id"
    return fault.description


@pytest.mark.req("RPLY-01", "ORDR-03")
async def test_every_event_has_the_number_it_has_in_the_log(store: Store, kind: Kind) -> None:
    gate, seen, joined = Gate(), Numbered(), Numbered()
    async with place(waiting(gate), kind, store=store) as (world, upstream):
        sending = await upstream.stream(rpc("SendStreamingMessage"), say(), CallContext({}))
        first = asyncio.ensure_future(read(sending, seen))
        await until(lambda: bool(seen))
        second = asyncio.ensure_future(read(await subscribe(upstream, seen[0][1].task.id), joined))
        await until(lambda: bool(joined))
        gate.open()
        await asyncio.gather(first, second)
        assert seen == await on_the_wire(world, seen[0][1].task.id)
        number, snapshot = joined[0]
        assert (snapshot.task.id, number) == (seen[0][1].task.id, seen[-len(joined)][0])
        assert joined[1:] == seen[1 - len(joined) :]
        await at_rest(world)


@pytest.mark.req("RPLY-02", "RPLY-03", "SUBS-02")
async def test_a_finished_task_is_replayed_from_any_cursor(store: Store, kind: Kind) -> None:
    async with place(story(300), kind, store=store) as (world, upstream):
        task = await world.send(say())
        whole = await on_the_wire(world, task.id)
        last = numbers(whole)[-1]
        for cursor in (0, 1, 2, 255, 256, 257, last - 1, last):
            seen = await read(await subscribe(upstream, task.id, cursor))
            assert seen == [(number, event) for number, event in whole if number > cursor]
        rebuilt = whole[0][1].task
        fold(rebuilt, [event for _, event in whole[1:]])
        assert rebuilt == task
        await at_rest(world)


@pytest.mark.req("RPLY-03", "SUBS-03")
@pytest.mark.parametrize("end", [COMPLETED, FAILED, CANCELED])
async def test_only_without_a_cursor_a_finished_task_is_an_error(store: Store, end: pb.TaskState) -> None:
    gate = Gate()
    async with place(waiting(gate, ends=end), "local", store=store) as (world, upstream):
        task = await world.send(say(configuration=NOW))
        if end == CANCELED:
            await world.stub.CancelTask(pb.CancelTaskRequest(id=task.id))
        gate.open()
        await world.reaches(task.id, end)
        assert await read(await subscribe(upstream, task.id, 0)) == await on_the_wire(world, task.id)
        for absent in (None, ""):  # an event source that has seen nothing sends an empty id

            async def attempt(cursor: str | None = absent) -> Numbered:
                return await read(await subscribe(upstream, task.id, cursor))

            assert (await refused_by(attempt())).code == code.FAILED_PRECONDITION


@pytest.mark.req("RPLY-02", "SUBS-05")
async def test_a_replay_goes_on_live(store: Store, kind: Kind) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(chunk("a"))
        outlet.emit(chunk("b", append=True))
        await outlet.durable()
        await gate.wait()
        outlet.emit(chunk("c", append=True))
        outlet.emit(status(COMPLETED))

    async with place(Actor(act), kind, store=store) as (world, upstream):
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        seen: Numbered = []
        reading = asyncio.ensure_future(read(await subscribe(upstream, task.id, 1), seen))
        replayed = await on_the_wire(world, task.id, after=1)
        await until(lambda: len(seen) >= len(replayed))
        assert seen == replayed
        gate.open()
        assert await reading == await on_the_wire(world, task.id, after=1)
        assert kinds([event for _, event in seen])[-2:] == ["artifact_update", "COMPLETED"]
        await at_rest(world)


@pytest.mark.req("RPLY-02")
async def test_who_has_seen_everything_is_told_at_once_that_the_stream_stands(store: Store, kind: Kind) -> None:
    gate = Gate()
    async with place(waiting(gate), kind, store=store) as (world, upstream):
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        last = len(await log_of(world.core, task.id))
        stream = await subscribe(upstream, task.id, last)
        async with asyncio.timeout(30):
            assert not await anext(stream.items)
        gate.open()
        assert numbers(await read(stream)) == [last + 1]
        await at_rest(world)


@pytest.mark.req("RPLY-02", "STRM-05", "SUBS-06")
async def test_a_question_that_was_answered_does_not_end_the_replay(store: Store, kind: Kind) -> None:
    async with place(asking(), kind, store=store) as (world, upstream):
        task = await world.send(say())
        question = len(await log_of(world.core, task.id))
        assert numbers(await read(await subscribe(upstream, task.id, 0)))[-1] == question  # as the live stream did
        await world.send(say("this", task_id=task.id))
        seen = await read(await subscribe(upstream, task.id, 0))
        assert seen == await on_the_wire(world, task.id)
        assert kinds([event for _, event in seen]) == ["task", "WORKING", "INPUT_REQUIRED", "WORKING", "COMPLETED"]
        assert question + 1 not in numbers(seen)  # the answer itself joined the history


@pytest.mark.req("RPLY-02", "SUBS-06", "STRM-05")
@pytest.mark.parametrize("stop", [INPUT, AUTH])
async def test_who_has_seen_the_question_follows_until_it_is_answered(store: Store, stop: pb.TaskState) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(stop, "And?") if request.number == 1 else status(COMPLETED))

    async with place(Actor(act), "local", store=store) as (world, upstream):
        task = await world.send(say())
        last = len(await log_of(world.core, task.id))
        stream = await subscribe(upstream, task.id, last)
        assert not await anext(stream.items)
        await world.send(say("this", task_id=task.id))
        assert kinds([event for _, event in await read(stream)]) == ["WORKING", "COMPLETED"]
        await at_rest(world)


@pytest.mark.req("RPLY-02", "STRM-05")
async def test_streams_that_stay_open_on_questions_do_so_after_a_replay() -> None:
    async with place(asking(), "local", keep_open_on_input=True) as (world, upstream):
        task = await world.send(say())
        reading = asyncio.ensure_future(read(await subscribe(upstream, task.id, 0)))
        await until(lambda: world.core.services.log.watched == 1)
        await world.send(say("this", task_id=task.id))
        assert kinds([event for _, event in await reading])[-1] == "COMPLETED"


@pytest.mark.req("RPLY-02", "DURA-01")
async def test_cursors_are_good_after_a_restart(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / "a2a.db"
    async with place(asking(), kind, store=SqliteStore(path)) as (world, upstream):
        task = await world.send(say())
        before = await read(await subscribe(upstream, task.id, 0))
    async with place(asking(), kind, store=SqliteStore(path)) as (world, upstream):
        assert await read(await subscribe(upstream, task.id, 0)) == before
        last = numbers(before)[-1]
        reading = asyncio.ensure_future(read(await subscribe(upstream, task.id, numbers(before)[0])))
        assert await reading == before[1:]
        stream = await subscribe(upstream, task.id, last)
        assert not await anext(stream.items)
        await world.send(say("this", task_id=task.id))
        seen = await read(stream)
        assert before + seen == await on_the_wire(world, task.id)
        assert await read(await subscribe(upstream, task.id, last)) == seen  # RPLY-03


@pytest.mark.req("RPLY-02", "RPLY-06", "ORDR-03")
async def test_many_come_back_at_random_cursors_while_the_agent_writes(store: Store, kind: Kind) -> None:
    """Readers lose their connection again and again; each must end up with every event, once and in order."""
    size, dice, gate = 1_500, random.Random(7), Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        for number in range(size):
            outlet.emit(chunk(f"{number},", append=number > 0))
            await outlet.room()
            if number % 100 == 0:
                await asyncio.sleep(0.005)
        outlet.emit(status(COMPLETED))

    async def follow(upstream: Upstream, task_id: str, cursor: int) -> Numbered:
        seen: Numbered = []
        while not seen or seen[-1][1].status_update.status.state != COMPLETED:
            stream = await subscribe(upstream, task_id, seen[-1][0] if seen else cursor)
            patience = dice.randrange(1, 400)
            async for batch in stream.items:
                seen += [(item.number, pb.StreamResponse.FromString(item.wire)) for item in batch]
                patience -= 1
                if not patience:
                    break
            await stream.items.aclose()  # type: ignore[attr-defined]
        return seen

    async with place(Actor(act), kind, store=store) as (world, upstream):
        task = await world.send(say(configuration=NOW))
        readers = [asyncio.ensure_future(follow(upstream, task.id, cursor)) for cursor in (0, 0, 1, 1, 2)]
        gate.open()
        await world.reaches(task.id, COMPLETED)
        readers += [asyncio.ensure_future(follow(upstream, task.id, dice.randrange(size))) for _ in range(5)]
        whole = await on_the_wire(world, task.id)
        for reader in readers:
            seen = await reader
            assert seen == whole[-len(seen) :]
        assert [len(reader.result()) for reader in readers[:5]] == [len(whole)] * 2 + [len(whole) - 1] * 2 + [
            len([number for number in numbers(whole) if number > 2])
        ]
        await at_rest(world)


@pytest.mark.req("RPLY-02", "SUBS-02", "DURA-01")
async def test_an_event_that_is_being_written_meanwhile_comes_once(store: Store) -> None:
    gate = Gate()
    async with place(waiting(gate), "local", store=store) as (world, upstream):
        task = await world.send(say(configuration=NOW))
        await world.reaches(task.id, WORKING)
        disk = hold_commits(store)
        gate.open()
        await disk.reached.wait()
        stream = await subscribe(upstream, task.id, 1)
        assert kinds([pb.StreamResponse.FromString(item.wire) for item in await anext(stream.items)]) == ["WORKING"]
        disk.open()
        assert kinds([event for _, event in await read(stream)]) == ["COMPLETED"]


@pytest.mark.req("RPLY-06", "RPLY-02")
async def test_who_was_cut_for_slowness_goes_on_at_its_cursor(store: Store) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        for number in range(500):
            outlet.emit(chunk("x", append=number > 0))
            await outlet.room()
            if number % 100 == 99:
                await outlet.durable()  # a single burst would make nobody slow
        outlet.emit(status(COMPLETED))

    limits = Limits(stream_lag=50, drain_grace=0.05)
    async with place(Actor(act), "local", store=store, limits=limits) as (world, upstream):
        task = await world.send(say(configuration=NOW))
        stream = await subscribe(upstream, task.id)
        first = await anext(stream.items)  # and then takes nothing; over a channel, buffers would take it
        seen = [(first[0].number, pb.StreamResponse.FromString(first[0].wire))]
        gate.open()
        await world.reaches(task.id, COMPLETED)  # the agent did not wait for this reader
        refusal = await refused_by(read(stream, seen))
        assert (refusal.code, refusal.message[:15]) == (code.UNAVAILABLE, "The reader fell")
        await read(await subscribe(upstream, task.id, seen[-1][0]), seen)
        assert seen[1:] == await on_the_wire(world, task.id, after=seen[0][0])
        await at_rest(world)


@pytest.mark.req("RPLY-06")
async def test_who_replays_slowly_is_no_slow_reader(store: Store) -> None:
    """A replay may be further behind than live readers may: it reads from the store, at its own pace."""
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(600):
            outlet.emit(chunk(f"{number},", append=number > 0))
            await outlet.room()
        await outlet.durable()
        await gate.wait()
        for number in range(600, 1200):
            outlet.emit(chunk(f"{number},", append=True))
            await outlet.room()
        outlet.emit(status(COMPLETED))

    limits = Limits(stream_lag=50, drain_grace=0.05)
    async with place(Actor(act), "local", store=store, limits=limits) as (world, upstream):
        task = await world.send(say(configuration=NOW))
        await gate.reached.wait()
        stream = await subscribe(upstream, task.id, 0)
        seen = [item.number for item in await anext(stream.items)]
        gate.open()
        await world.reaches(task.id, COMPLETED)
        seen += numbers(await read(stream))
        assert seen == numbers(await on_the_wire(world, task.id))


@pytest.mark.req("RPLY-02", "RPLY-06")
async def test_much_is_replayed_bit_by_bit(store: Store) -> None:
    """Whoever reads slowly holds one batch."""

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(10):
            outlet.emit(chunk(f"{number},".ljust(300_000), append=number > 0))
            await outlet.room()
        outlet.emit(status(COMPLETED))

    async with place(Actor(act), "local", store=store) as (world, upstream):
        task = await world.send(say())
        stream = await subscribe(upstream, task.id, 0)
        batches = [batch async for batch in stream.items]
        assert max(sum(len(item.wire) for item in batch) for batch in batches) < 2**20
        whole = await on_the_wire(world, task.id)
        assert [item.number for batch in batches for item in batch] == numbers(whole)
        await at_rest(world)


@pytest.mark.req("RPLY-02", "ERRS-05", "GEN-03")
@pytest.mark.parametrize("cursor", ["abc", "-1", "1.0", "+1", " 1", "1 ", "٣", "0x1", "9" * 19, "1,2", "\u00b2"])
async def test_a_cursor_is_a_number(cursor: str) -> None:
    async with place(echo(), "local") as (_, upstream):
        fault = await fault_of(upstream, "nowhere", cursor)
    assert fault == "must be the number of an event that a stream has shown, such as 17, or 0"


async def test_cursors_that_differ_are_refused() -> None:
    async with place(echo(), "local") as (_, upstream):
        fault = await fault_of(upstream, "nowhere", ("7", "8"))
        assert fault == "must be the number of an event that a stream has shown, such as 17, or 0"
        same = await subscribe(upstream, "nowhere", ("007", "", "007"))
        refusal = await refused_by(read(same))
        assert refusal.code == code.NOT_FOUND


@pytest.mark.req("RPLY-02", "ERRS-05")
async def test_a_cursor_beyond_the_log_is_refused(store: Store, kind: Kind) -> None:
    async with place(echo(), kind, store=store) as (world, upstream):
        task = await world.send(say())
        head = len(await log_of(world.core, task.id))
        fault = await fault_of(upstream, task.id, head + 1)
        assert fault == f"must be at most {head}, the number of the task's latest event"
        await at_rest(world)


class Forgetful(MemoryStore):
    """Has removed the first events of every task, as retention would."""

    gone = 0

    async def entries(self, task_id: str, after: int, limit: int) -> Sequence[Entry]:
        return await super().entries(task_id, max(after, self.gone), limit)


@pytest.mark.req("RPLY-04", "ERRS-05")
async def test_a_cursor_older_than_what_is_kept_is_refused(kind: Kind) -> None:
    store = Forgetful()
    async with place(story(10), kind, store=store) as (world, upstream):
        task = await world.send(say())
        whole = await on_the_wire(world, task.id)
        last = numbers(whole)[-1]
        for gone in (1, 4, last):
            store.gone = gone
            for cursor in (0, gone - 1):
                fault = await fault_of(upstream, task.id, cursor)
                assert fault == f"must be at least {gone}: older events of the task are no longer kept"
            seen = await read(await subscribe(upstream, task.id, gone))
            assert seen == [(number, event) for number, event in whole if number > gone]


@pytest.mark.req("RPLY-02", "SUBS-04", "AUTZ-02")
async def test_a_cursor_opens_nobody_elses_task(kind: Kind) -> None:
    async with place(echo(), kind, authenticator=ByHeader()) as (world, upstream):
        task = await world.send(say(), metadata=as_user("ann"))
        assert await read(await subscribe(upstream, task.id, 0, x_user="ann"))

        async def attempt() -> Numbered:
            return await read(await subscribe(upstream, task.id, 0, x_user="bob"))

        assert (await refused_by(attempt())).code == code.NOT_FOUND
