"""Two servers on one store: whatever is asked of one is true on the other, too (spec: DURA-02 to -04, SCAL-01, -03)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import AgentPort, Outlet, Plan, TurnRequest
from a2a_server.ports.records import STATUS, Entry
from a2a_server.ports.store import StoredTask
from a2a_server.ports.wakeups import Listener, Wakeups
from tests.bindings.actors import (
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT,
    WORKING,
    Actor,
    Gate,
    asking,
    chunk,
    log_of,
    remembers,
    says,
    status,
    statuses,
    until,
    waiting,
)
from tests.support.house import Limits, LocalWakeups, MemoryStore, PeerWakeups, Scope, shutting_down
from tests.support.relay import broken_relay
from tests.support.world import World, kinds, refused, say, serving

NOW = {"return_immediately": True}


def spoken(task: pb.Task) -> list[str]:
    return [message.parts[0].text for message in task.history]


SHORT = 4.0
"""Seconds that a session lasts where a test waits for its end."""


class Deaf:
    """Tells nobody anything, as a broken network of wake-ups does."""

    address = ""

    def __init__(self) -> None:
        self.sound = LocalWakeups()  # compiled, that cannot be subclassed

    def tell(self, task_id: str, number: int, entries: Sequence[Entry]) -> None:
        """Lost."""

    def listen(self, task_id: str, listener: Listener) -> None:
        self.sound.listen(task_id, listener)

    def ask_others(self, task_id: str, listener: Listener) -> None:
        self.sound.ask_others(task_id, listener)

    def forget(self, task_id: str, listener: Listener) -> None:
        self.sound.forget(task_id, listener)


class Stammering(Deaf):
    """Tells everything twice, late, and out of order."""

    def tell(self, task_id: str, number: int, entries: Sequence[Entry]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.02, self.sound.tell, task_id, number, ())
        loop.call_later(0.01, self.sound.tell, task_id, number - 1, ())
        self.sound.tell(task_id, number, entries)


Way = Callable[[MemoryStore], AbstractAsyncContextManager[Sequence[Wakeups]]]
"""How two servers tell each other of new events."""


def told_by(kind: Callable[[], Wakeups]) -> Way:
    """By an object that both have."""

    @asynccontextmanager
    async def way(store: MemoryStore) -> AsyncIterator[Sequence[Wakeups]]:
        del store
        one = kind()
        yield one, one

    return way


@asynccontextmanager
async def peers(store: MemoryStore) -> AsyncIterator[Sequence[Wakeups]]:
    """From server to server over gRPC."""
    async with AsyncExitStack() as stack:
        both = [PeerWakeups(LocalWakeups(), store, look_every=0.05) for _ in range(2)]
        for one in both:
            stack.push_async_callback(one.close)
            await one.start(f"127.0.0.1:{one.listen_at('127.0.0.1:0')}")
        yield both


@asynccontextmanager
async def broken_peers(store: MemoryStore) -> AsyncIterator[Sequence[Wakeups]]:
    """The same, over a network that cuts connections, and swallows what is sent, all the time."""
    async with AsyncExitStack() as stack:
        both = []
        for _ in range(2):
            between = await stack.enter_async_context(broken_relay())
            one = PeerWakeups(LocalWakeups(), store, look_every=0.05)
            stack.push_async_callback(one.close)
            between.target = one.listen_at("127.0.0.1:0")
            await one.start(between.address)
            both.append(one)
        yield both


SOUND = told_by(LocalWakeups)
WAYS = pytest.mark.parametrize(
    "wakeups",
    [SOUND, told_by(Deaf), told_by(Stammering), peers, broken_peers],
    ids=["sound", "lost", "twice and late", "peers", "broken peers"],
)


@asynccontextmanager
async def two(
    agent: AgentPort, other: AgentPort | None = None, *, wakeups: Way = SOUND, **options: Any
) -> AsyncIterator[tuple[World, World]]:
    """Two servers in this process, on a store that they share."""
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        ways = await stack.enter_async_context(wakeups(store))
        worlds = [
            await stack.enter_async_context(serving(one, store=store, replicas=store, wakeups=way, **options))
            for one, way in zip((agent, other or agent), ways, strict=True)
        ]
        yield worlds[0], worlds[1]


async def die(world: World) -> None:
    """End like a process that was killed: nothing is written, nobody is told. Its session is over at once."""
    cluster = world.core._cluster  # noqa: SLF001 - a kill has no public name
    assert cluster is not None
    session = world.core.services.session
    assert session._beating is not None  # noqa: SLF001 - as above
    session._beating.cancel()  # noqa: SLF001 - as above
    await cluster.stop_looking()
    await cluster.elsewhere.stop()
    for live in world.core.live_turns:
        live.give_up(shutting_down())
    await world.core.services.store.end_session(session.id)  # type: ignore[attr-defined]  # as the store's clock does


@pytest.mark.req("DURA-04", "SCAL-01")
@WAYS
async def test_a_stream_on_one_server_shows_what_the_other_does(wakeups: Way) -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(WORKING, "begun"))
        await gate.wait()
        for number in range(20):
            outlet.emit(chunk(str(number), append=number > 0, last=number == 19))
            await asyncio.sleep(0.001)
        outlet.emit(status(COMPLETED))

    async with two(Actor(act), wakeups=wakeups) as (here, there):
        task = await here.send(say(configuration=NOW))
        await there.reaches(task.id, WORKING)
        items = there.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id))
        seen = [await anext(aiter(items))]
        gate.open()
        seen += [item async for item in items]
        assert kinds(seen) == ["task", *["artifact_update"] * 20, "COMPLETED"]
        assert (await there.get(task.id)) == (await here.get(task.id))


@pytest.mark.req("SCAL-01")
@pytest.mark.only_through("grpc", why="readers are asked, and no door")
@WAYS
async def test_readers_of_both_servers_get_the_same_entries(wakeups: Way) -> None:
    """In numbers and content, however they come; those of the other server begin in the middle of a long log."""
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        for number in range(300):
            if number == 100:
                await gate.wait()
            outlet.emit(chunk(f"{number};" * (1 + number % 50), append=number > 0, last=number == 299))
            if number % 10 == 0:
                await asyncio.sleep(0.005)
        outlet.emit(status(COMPLETED))

    async with two(Actor(act), wakeups=wakeups) as (here, there):
        task = await here.send(say(configuration=NOW))
        await gate.reached.wait()
        reading = [asyncio.create_task(read_all(world, task.id, 50)) for world in (here, there, there)]
        gate.open()
        near, far, also_far = await asyncio.gather(*reading)
        assert near == far == also_far == (await log_of(here.core, task.id))[50:]
        assert [entry.number for entry in far] == list(range(51, near[-1].number + 1))


async def read_all(world: World, task_id: str, after: int) -> list[Entry]:
    """What a reader of this server gets of a log, to its end."""
    log, found = world.core.services.log, list[Entry]()
    with closing(log.reader(task_id, after)) as reader:
        log.ask_others(task_id)
        number = (await log.store.numbers([task_id]))[task_id]  # type: ignore[attr-defined]  # a store that is shared
        reader.catch_up(after, number)
        while not found or not (found[-1].kind == STATUS and found[-1].event.status_update.status.state == COMPLETED):
            found += await reader.next()
    return found


@pytest.mark.req("DURA-03")
@WAYS
@pytest.mark.parametrize("blocking", [True, False])
async def test_a_message_reaches_the_turn_that_runs_elsewhere(wakeups: Way, blocking: bool) -> None:  # noqa: FBT001
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number == 1:
            await gate.wait()
            outlet.emit(status(INPUT, "and?"))
        else:
            outlet.emit(chunk(request.message.parts[0].text, last=True))
            outlet.emit(status(COMPLETED))

    async with two(agent := Actor(act), other := Actor(act), wakeups=wakeups) as (here, there):
        task = await here.send(say("one", configuration=NOW))
        await gate.reached.wait()
        sending = asyncio.create_task(there.send(say("two", task_id=task.id, configuration={} if blocking else NOW)))
        await remembers(here, task.id, 2)
        gate.open()
        answer = await sending
        if blocking:
            assert answer.status.state == COMPLETED
            assert answer.artifacts[0].parts[0].text == "two"
        done = await there.reaches(task.id, COMPLETED)
        assert spoken(done) == ["one", "two", "and?"]
        assert [request.message.parts[0].text for request in agent.requests] == ["one", "two"]
        assert not other.requests


@pytest.mark.req("DURA-03")
async def test_a_stream_that_sends_to_a_turn_elsewhere_ends_with_its_own_answer() -> None:
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number == 1:
            await gate.wait()
        outlet.emit(chunk(request.message.parts[0].text, artifact_id=request.message.parts[0].text, last=True))
        outlet.emit(status(INPUT, "more?"))

    async with two(Actor(act)) as (here, there):
        task = await here.send(say("one", configuration=NOW))
        await gate.reached.wait()
        streaming = asyncio.create_task(there.stream(say("two", task_id=task.id)))
        await remembers(here, task.id, 2)
        third = asyncio.create_task(there.stream(say("three", task_id=task.id)))
        await remembers(here, task.id, 3)
        gate.open()
        seen, later = await streaming, await third
        assert kinds(seen)[0] == "task"
        artifacts = [item.artifact_update.artifact.artifact_id for item in seen if item.HasField("artifact_update")]
        assert artifacts[-1:] == ["two"]
        assert "three" not in artifacts
        assert [i.artifact_update.artifact.artifact_id for i in later if i.HasField("artifact_update")][-1:] == [
            "three"
        ]


async def test_an_answer_of_a_turn_that_goes_on_is_an_answer_elsewhere_too() -> None:
    """The agent asks and stays in its turn: whoever sent the message is answered at once."""
    first, second = Gate(), Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number == 1:
            await first.wait()
            outlet.emit(status(INPUT, "and?"))
            return
        outlet.emit(status(INPUT, "stays"))
        await second.wait()
        outlet.emit(status(COMPLETED))

    async with two(Actor(act)) as (here, there):
        task = await here.send(say("one", configuration=NOW))
        await first.reached.wait()
        sending = asyncio.create_task(there.send(say("two", task_id=task.id)))
        await remembers(here, task.id, 2)
        first.open()
        answer = await sending
        assert answer.status.message.parts[0].text == "stays"
        second.open()
        await there.reaches(task.id, COMPLETED)


@WAYS
async def test_a_cancel_reaches_the_turn_that_runs_elsewhere(wakeups: Way) -> None:
    gate = Gate()
    async with two(waiting(gate), wakeups=wakeups) as (here, there):
        task = await here.send(say(configuration=NOW))
        await gate.reached.wait()
        answer = await there.stub.CancelTask(pb.CancelTaskRequest(id=task.id))
        assert answer.status.state == CANCELED
        assert (await here.get(task.id)).status.state == CANCELED


async def test_an_agent_that_does_not_stop_is_told_of_elsewhere_too() -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                reached.set()

    released, reached = asyncio.Event(), asyncio.Event()
    async with two(Actor(act), limits=Limits(cancel_grace=1.0, drain_grace=0.05)) as (here, there):
        task = await here.send(say(configuration=NOW))
        await there.reaches(task.id, WORKING)
        refusal = await refused(there.stub.CancelTask(pb.CancelTaskRequest(id=task.id)))
        assert refusal.reason == "TASK_NOT_CANCELABLE"
        assert refusal.message == "The agent did not stop, and works on."
        released.set()


async def test_what_a_task_refuses_elsewhere_it_refuses_here_with_the_same_words() -> None:
    gate = Gate()
    limits = Limits(waiting_messages=0, drain_grace=0.05)
    async with two(waiting(gate), limits=limits) as (here, there):
        task = await here.send(say(configuration=NOW))
        await gate.reached.wait()
        near, far = [await refused(world.stub.SendMessage(say("more", task_id=task.id))) for world in (here, there)]
        assert near == far
        assert near.reason == "OVERLOADED"
        gate.open()


async def test_tasks_that_wait_go_on_wherever_the_answer_comes() -> None:
    async with two(asking()) as (here, there):
        task = await here.send(say("one"))
        assert task.status.state == INPUT
        assert (await there.send(say("two", task_id=task.id))).status.state == COMPLETED


@pytest.mark.req("DURA-02", "DURA-03", "DURA-04")
@WAYS
@pytest.mark.parametrize(("restartable", "end"), [(True, COMPLETED), (False, FAILED)])
async def test_turns_of_a_dead_server_are_taken_over(
    wakeups: Way,
    restartable: bool,  # noqa: FBT001
    end: pb.TaskState,
) -> None:
    """A restartable one runs again, any other fails; those who wait on the server that lives are told."""
    gate, plan = Gate(), Plan(restartable=restartable)
    agents = waiting(gate, plan=plan), waiting(gate, plan=plan)
    async with two(*agents, wakeups=wakeups, session_seconds=SHORT) as (here, there):
        task = await here.send(say(configuration=NOW))
        await there.reaches(task.id, WORKING)
        items = there.stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task.id))
        assert (await anext(aiter(items))).HasField("task")
        await die(here)
        gate.open()
        seen = [item async for item in items]
        assert seen[-1].status_update.status.state == end
        if not restartable:
            assert seen[-1].status_update.status.message.metadata["reason"] == "SERVER_INTERRUPTED"


@pytest.mark.req("DURA-03")
async def test_a_server_that_was_paused_past_its_session_writes_nothing_and_says_so() -> None:
    gate = Gate()
    plan = Plan(restartable=True)
    async with two(waiting(gate, plan=plan), waiting(gate, plan=plan), session_seconds=SHORT) as (here, there):
        task = await here.send(say(configuration=NOW))
        await there.reaches(task.id, WORKING)
        session = here.core.services.session
        lost = session.id
        await here.core.services.store.end_session(lost)  # type: ignore[attr-defined]  # as the store's clock does
        await until(lambda: there.core.live_turns.find(task.id) is not None)
        gate.open()
        done = await there.reaches(task.id, COMPLETED)
        assert done.status.state == COMPLETED
        assert statuses(await log_of(there.core, task.id)) == ["WORKING", "COMPLETED"]
        await until(lambda: session.until > 0 and session.id != lost)
        again = await here.send(say("after"))
        assert again.status.state == COMPLETED


@pytest.mark.req("DURA-03")
async def test_nothing_begins_in_a_session_whose_time_is_over_before_anybody_notices() -> None:
    """As when a process is stopped, and the first that it hears of afterwards is a message."""
    async with two(waiting(Gate()), waiting(Gate()), session_seconds=SHORT) as (here, _):
        session = here.core.services.session
        await until(lambda: session.until > time.monotonic())
        lost = session.id
        time.sleep(SHORT)  # noqa: ASYNC251 - no step of the loop, so no heartbeat
        assert 0 < session.until < time.monotonic()
        await until(lambda: session.id != lost and session.until > 0)


@pytest.mark.req("DURA-03")
async def test_a_send_is_refused_when_the_session_is_over() -> None:
    async with two(waiting(Gate()), waiting(Gate())) as (here, _):
        session = here.core.services.session
        await session.end()  # no heartbeat any more
        session.until = time.monotonic()
        refusal = await refused(here.stub.SendMessage(say("late")))
        assert refusal.reason == "UNAVAILABLE"
        assert refusal.message.startswith("The server has lost touch with its database.")


@pytest.mark.parametrize(("restartable", "end"), [(True, COMPLETED), (False, FAILED)])
async def test_whoever_waits_on_a_server_that_lost_its_session_hears_what_the_other_makes_of_it(
    restartable: bool,  # noqa: FBT001
    end: pb.TaskState,
) -> None:
    gate, plan = Gate(), Plan(restartable=restartable)
    agents = waiting(gate, plan=plan), waiting(gate, plan=plan)
    async with two(*agents, session_seconds=SHORT) as (here, there):
        sending, streaming = asyncio.create_task(here.send(say())), asyncio.create_task(here.stream(say()))
        await until(lambda: len(agents[0].requests) == 2)
        session = here.core.services.session
        lost = session.id
        await here.core.services.store.end_session(lost)  # type: ignore[attr-defined]
        await until(lambda: session.id != lost and (not restartable or len(agents[1].requests) == 2))
        gate.open()
        task, items = await sending, await streaming
        assert task.status.state == (await there.get(task.id)).status.state == end
        assert items[-1].status_update.status.state == end


async def test_a_server_that_stops_hands_restartable_turns_over_at_once() -> None:
    gate = Gate()
    plan = Plan(restartable=True)
    async with two(waiting(gate, plan=plan), other := waiting(gate, plan=plan)) as (here, there):
        task = await here.send(say(configuration=NOW))
        await there.reaches(task.id, WORKING)
        await here.core.drain()
        await until(lambda: len(other.requests) == 1)
        gate.open()
        await there.reaches(task.id, COMPLETED)


class Slow(MemoryStore):
    """Takes a while to read a task."""

    async def load(self, scope: Scope, task_id: str) -> StoredTask | None:
        await asyncio.sleep(0.02)
        return await super().load(scope, task_id)


@pytest.mark.req("DURA-02")
async def test_what_is_left_at_the_start_is_taken_up_once_though_it_takes_long() -> None:
    """Looking for what others have left begins meanwhile."""
    store, agent = Slow(), waiting(Gate())
    async with AsyncExitStack() as stack:
        before = await stack.enter_async_context(serving(agent, store=store, replicas=store))
        tasks = [await before.send(say(str(number), configuration=NOW)) for number in range(40)]
        await until(lambda: len(agent.requests) == len(tasks))
        await before.core.services.store.end_session(before.core.services.session.id)  # type: ignore[attr-defined]
        await die(before)
        after = await stack.enter_async_context(serving(waiting(Gate()), store=store, replicas=store))
        for task in tasks:
            assert (await after.get(task.id)).status.state == FAILED
            assert statuses(await log_of(after.core, task.id))[-1:] == ["FAILED"]


@pytest.mark.req("ONCE-01")
async def test_a_send_that_is_repeated_elsewhere_starts_nothing() -> None:
    gate = Gate()
    limits = Limits(idempotency_window=60.0, drain_grace=0.05)
    async with two(agent := waiting(gate), other := waiting(gate), limits=limits) as (here, there):
        both = [asyncio.create_task(world.send(say(message_id="same"))) for world in (here, there)]
        await gate.reached.wait()
        gate.open()
        first, second = await asyncio.gather(*both)
        assert first.id == second.id
        assert len(agent.requests) + len(other.requests) == 1


@pytest.mark.req("ONCE-01")
async def test_a_direct_answer_that_another_server_works_on_is_waited_for() -> None:
    """No task shows that the send is under way; its receipt says who works on it."""
    gate = Gate()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        outlet.emit(pb.StreamResponse(message=says("direct")))

    plan = Plan(direct=True)
    limits = Limits(idempotency_window=60.0, drain_grace=0.05)
    agents = Actor(act, plan=plan), Actor(act, plan=plan)
    async with two(*agents, limits=limits) as (here, there):
        first = asyncio.ensure_future(here.stub.SendMessage(say(message_id="same")))
        await gate.reached.wait()
        second = asyncio.ensure_future(there.stub.SendMessage(say(message_id="same")))
        await asyncio.sleep(0.3)
        gate.open()
        assert (await first) == (await second)
        assert len(agents[0].requests) + len(agents[1].requests) == 1


async def test_the_message_of_a_server_that_died_while_it_was_asked_is_sent_once() -> None:
    """Its session ends between the letter and the answer: the sender starts over with whoever has the task then."""
    gate = Gate()
    plan = Plan(restartable=True)

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.number == 1:
            await gate.wait()
            outlet.emit(status(INPUT))
        else:
            outlet.emit(status(COMPLETED))

    async with two(Actor(act, plan=plan), Actor(act, plan=plan), session_seconds=SHORT) as (here, there):
        task = await here.send(say("one", configuration=NOW))
        await gate.reached.wait()
        await die(here)
        sending = asyncio.create_task(there.send(say("two", task_id=task.id)))
        await until(lambda: there.core.live_turns.find(task.id) is not None)
        gate.open()
        assert (await sending).status.state == COMPLETED
        assert spoken(await there.get(task.id)) == ["one", "two"]


async def test_a_sensitive_text_is_sealed_in_its_letter() -> None:
    gate = Gate()
    async with two(waiting(gate)) as (here, there):
        task = await here.send(say(configuration=NOW))
        await gate.reached.wait()
        store, letters = here.core.services.store, []
        post = store.post  # type: ignore[attr-defined]

        async def watched(letter: Any) -> None:
            letters.append(letter)
            await post(letter)

        store.post = watched  # type: ignore[attr-defined]
        await there.send(say("s3cr3t words", task_id=task.id, configuration=NOW))
        gate.open()
        assert len(letters) == 2
        assert not any(b"s3cr3t" in letter.body or task.id.encode() in letter.body for letter in letters)


async def test_a_task_that_cannot_be_taken_over_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, plan = Gate(), Plan(restartable=True)
    agents = waiting(gate, plan=plan), waiting(gate, plan=plan)
    async with two(*agents, session_seconds=SHORT) as (here, there):
        broken, sound = [await here.send(say(configuration=NOW)) for _ in range(2)]
        await there.reaches(sound.id, WORKING)
        store = there.core.services.store
        load = store.load

        async def failing(scope: Any, task_id: str) -> Any:
            if task_id == broken.id:
                raise RuntimeError("damaged")
            return await load(scope, task_id)

        monkeypatch.setattr(store, "load", failing)
        await die(here)
        gate.open()
        await there.reaches(sound.id, COMPLETED)
