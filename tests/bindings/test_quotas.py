"""How much one owner may have stored, and what is said when that is reached (spec: LIMT-01, LIMT-02, LIMT-03)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.agent import Outlet, Plan, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import COMPLETED, FAILED, INPUT, Actor, Gate, at_rest, chunk, status, until
from tests.support.calls import key
from tests.support.deliveries import Pigeonhole, deliver
from tests.support.door_draft import beside, draft_serving
from tests.support.door_draft import request as draft_request
from tests.support.door_draft import say as draft_say
from tests.support.door_old import request as old_request
from tests.support.door_old import say as old_say
from tests.support.door_old import tell as old_tell
from tests.support.house import Ages, Limits
from tests.support.old import tell as old_grpc_say
from tests.support.stage import HandClock, Stage, texts
from tests.support.world import ByHeader, Refusal, World, as_user, refused, say, serving

ANN, BOB = as_user("ann"), as_user("bob")
BY_HAND = "Finished tasks are removed by the operator of this server only."
TASKS = "You have 2 tasks stored, and limits.tasks_per_owner allows 2."


def limits(**chosen: int) -> Limits:
    return Limits(drain_grace=0.05, cancel_grace=30.0, **chosen)  # type: ignore[arg-type]


def told(refusal: Refusal) -> tuple[str, str, str, str]:
    return refusal.code.name, refusal.reason, refusal.domain, refusal.message


def exceeded(text: str) -> tuple[str, str, str, str]:
    return "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "a2a-server", text


def both(world: World, request: pb.SendMessageRequest, metadata: Any = ANN) -> Sequence[Awaitable[Any]]:
    """A send and a stream."""
    return world.stub.SendMessage(request, metadata=metadata), world.stream(request, metadata=metadata)


async def count(world: World, metadata: Any = ANN) -> int:
    return int((await world.stub.ListTasks(pb.ListTasksRequest(), metadata=metadata)).total_size)


@pytest.mark.req("LIMT-01", "LIMT-02", "ERRS-06")
async def test_an_owner_has_so_many_tasks_and_no_more(store: Store) -> None:
    stage = Stage()
    parts: Any = {"store": store, "limits": limits(tasks_per_owner=2), "authenticator": ByHeader()}
    async with serving(stage.agent, **parts) as world:
        waiting = await world.send(say(skill="ask"), metadata=ANN)
        await world.send(say(), metadata=ANN)
        for call in both(world, say()):
            refusal = await refused(call)
            assert told(refusal) == exceeded(f"{TASKS} {BY_HAND}")
            assert refusal.metadata == {"limit": "limits.tasks_per_owner"}
        assert (len(stage.turns), await count(world)) == (2, 2)
        await world.send(say(), metadata=BOB)
        assert texts(await world.send(say("red", task_id=waiting.id), metadata=ANN)) == ["red it is"]


@pytest.mark.req("LIMT-02", "TENA-05")
async def test_who_may_name_any_tenant_has_no_more_room_for_that(store: Store) -> None:
    parts: Any = {"store": store, "limits": limits(tasks_per_owner=2), "authenticator": ByHeader()}
    async with serving(Stage().agent, **parts) as world:
        north, south = as_user("ann", x_tenant="north"), as_user("ann", x_tenant="south")
        for _ in range(2):
            await world.send(say(), metadata=north)
        for metadata, request in ((north, say()), (ANN, say()), (ANN, say(tenant="east"))):
            assert (await refused(world.send(request, metadata=metadata))).reason == "QUOTA_EXCEEDED"
        await world.send(say(), metadata=south)  # somebody else of the same name


@pytest.mark.req("LIMT-02")
async def test_all_anonymous_callers_are_one_owner(store: Store) -> None:
    async with serving(Stage().agent, store=store, limits=limits(tasks_per_owner=2)) as world:
        for _ in range(2):
            await world.send(say())
        assert told(await refused(world.send(say()))) == exceeded(f"{TASKS} {BY_HAND}")


@pytest.mark.req("LIMT-02")
@pytest.mark.parametrize("skill", ["echo", "maybe"])
async def test_many_sends_at_once_do_not_get_past_the_bound(store: Store, skill: str) -> None:
    """Turns that may do without a task are let in, and counted when they have one."""
    stage = Stage()
    async with serving(stage.agent, store=store, limits=limits(tasks_per_owner=5)) as world:
        sends = [asyncio.ensure_future(world.send(say(skill=skill))) for _ in range(20)]
        if skill == "maybe":
            await stage.began(20)
            stage.release.set()
        results = await asyncio.gather(*sends, return_exceptions=True)
        assert sum(isinstance(result, pb.Task) for result in results) == (5 if skill == "echo" else 20)


@pytest.mark.req("LIMT-02", "SEND-09")
async def test_direct_answers_take_no_room(store: Store) -> None:
    async with serving(Stage().agent, store=store, limits=limits(tasks_per_owner=1)) as world:
        for _ in range(3):
            assert (await world.stub.SendMessage(say("hi", skill="chat"))).message.parts[0].text == "you said hi"
        await world.send(say())
        assert (await refused(world.stub.SendMessage(say(skill="chat")))).reason == "QUOTA_EXCEEDED"


@pytest.mark.req("LIMT-01", "LIMT-02")
async def test_an_owner_has_so_many_bytes_and_no_more(store: Store) -> None:
    stage, clock = Stage(), HandClock()
    parts: Any = {"store": store, "clock": clock, "limits": limits(bytes_per_owner=5_000), "authenticator": ByHeader()}
    async with serving(stage.agent, **parts) as world:
        waiting, other = [await world.send(say(skill="ask"), metadata=ANN) for _ in range(2)]
        before = await world.get(waiting.id, metadata=ANN)
        await world.send(say("x" * 6_000), metadata=ANN)
        clock.advance(1)
        stored = (await store.holdings("ann")).bytes
        assert stored > 12_000  # in the log and in the task
        text = f"You have {stored} bytes stored, and limits.bytes_per_owner allows 5000. {BY_HAND}"
        for call in (*both(world, say()), *both(world, say(task_id=waiting.id))):
            refusal = await refused(call)
            assert told(refusal) == exceeded(text)
            assert refusal.metadata == {"limit": "limits.bytes_per_owner"}
        assert len(stage.turns) == 3
        assert await world.get(waiting.id, metadata=ANN) == before
        canceled = await world.stub.CancelTask(pb.CancelTaskRequest(id=other.id), metadata=ANN)
        assert canceled.status.state == pb.TASK_STATE_CANCELED
        await world.send(say(), metadata=BOB)


@pytest.mark.req("LIMT-02", "KEPT-01")
async def test_what_retention_removes_makes_room(store: Store) -> None:
    clock, ages = HandClock(), Ages(tasks=200_000)
    parts: Any = {"clock": clock, "ages": ages, "limits": limits(tasks_per_owner=2)}
    async with serving(Stage().agent, store=store, **parts) as world:
        for _ in range(2):
            await world.send(say())
        text = f"{TASKS} Finished tasks are removed after 2.31481 days."
        assert told(await refused(world.send(say()))) == exceeded(text)
        clock.advance(300_000)
        while await store.sweep(ages.deadlines(clock.now_ms(), clock.now_ms())) is not None:
            pass
        for _ in range(2):
            await world.send(say())
        assert (await refused(world.send(say()))).reason == "QUOTA_EXCEEDED"


@pytest.mark.req("LIMT-02", "ONCE-01")
async def test_a_repeated_send_gets_the_first_ones_result_all_the_same(store: Store) -> None:
    async with serving(Stage().agent, store=store, limits=limits(tasks_per_owner=1)) as world:
        first = await world.send(say(), metadata=key("1"))
        assert await world.send(say(), metadata=key("1")) == first
        for _ in range(2):
            assert (await refused(world.send(say(), metadata=key("2")))).reason == "QUOTA_EXCEEDED"


# -- one task


class Talker:
    """Says more than its task may hold, then what the test wants."""

    def __init__(self, last: pb.TaskState = COMPLETED, text: str = "", *, chunks: int = 30) -> None:
        self.said = 0
        self.canceled = False
        self._last = last, text
        self._chunks = chunks
        self.agent = Actor(self._act)

    async def _act(self, request: TurnRequest, outlet: Outlet) -> None:
        try:
            for _ in range(self._chunks):
                outlet.emit(chunk("x" * 100, append=self.said > 0))
                self.said += 1
                await outlet.room()
            outlet.emit(status(*self._last))
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.canceled = True
            raise


@pytest.mark.req("LIMT-01", "AGNT-05")
async def test_a_turn_that_writes_more_than_its_task_may_hold_fails(store: Store) -> None:
    talker = Talker(chunks=100_000)
    with capture_logs() as logs:
        async with serving(talker.agent, store=store, limits=limits(bytes_per_task=2_000)) as world:
            task = await world.send(say())
            await at_rest(world)
            entries = await store.entries(task.id, 0, 100)
    assert task.status.state == FAILED
    log = sum(len(entry.wire) for entry in entries[:-1])
    assert 2_000 <= log < 2_000 + len(entries[-2].wire)
    text = f"The log of this task has {log} bytes, and limits.bytes_per_task allows 2000."
    assert task.status.message.parts[0].text == text
    assert dict(task.status.message.metadata) == {"reason": "QUOTA_EXCEEDED"}
    assert talker.canceled
    assert [line["bytes"] for line in logs if line["event"] == "turn.too_large"] == [log]


@pytest.mark.req("LIMT-01", "EXEC-02")
@pytest.mark.parametrize("last", [COMPLETED, INPUT])
async def test_a_turn_at_the_bound_may_still_end_as_it_likes(store: Store, last: pb.TaskState) -> None:
    talker = Talker(last, "That is all.", chunks=1)
    async with serving(talker.agent, store=store, limits=limits(bytes_per_task=50)) as world:
        task = await world.send(say("hello " * 20, parts=[pb.Part(text="x" * 100)]))
        assert (task.status.state, talker.canceled) == (FAILED, True)  # the task itself has more already
    talker = Talker(last, "That is all.", chunks=10)
    async with serving(talker.agent, store=store, limits=limits(bytes_per_task=2_000)) as world:
        task = await world.send(say())
        assert (task.status.state, task.status.message.parts[0].text) == (last, "That is all.")


@pytest.mark.req("LIMT-01", "SEND-13")
async def test_a_task_that_is_full_takes_no_further_message(store: Store) -> None:
    talker = Talker(INPUT, "And?" + "x" * 1_000, chunks=10)
    async with serving(talker.agent, store=store, limits=limits(bytes_per_task=2_000)) as world:
        task = await world.send(say())
        log = sum(len(entry.wire) for entry in await store.entries(task.id, 0, 100))
        text = (
            f"The log of this task has {log} bytes, and limits.bytes_per_task allows 2000. To go on with the "
            f"conversation, send the message with the context id '{task.context_id}' and without a task id."
        )
        for call in both(world, say(task_id=task.id), None):
            refusal = await refused(call)
            assert told(refusal) == exceeded(text)
            named = {"limit": "limits.bytes_per_task", "taskId": task.id, "contextId": task.context_id}
            assert refusal.metadata == named
        assert (await world.get(task.id)).status.state == INPUT
        assert (await world.send(say(context_id=task.context_id))).context_id == task.context_id


@pytest.mark.req("LIMT-01")
async def test_what_an_agent_saves_is_bounded_too(store: Store) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.save(b"x" * 2_001)

    async with serving(Actor(act), store=store, limits=limits(bytes_per_task=2_000)) as world:
        await refused(world.send(say()))
        (task,) = (await world.stub.ListTasks(pb.ListTasksRequest())).tasks
    text = "The agent broke the protocol: save: 2001 bytes are more than limits.bytes_per_task, 2000."
    assert task.status.message.parts[0].text == text


@pytest.mark.req("LIMT-01")
async def test_bounds_of_zero_bound_nothing(store: Store) -> None:
    unbounded = limits(tasks_per_owner=0, bytes_per_owner=0, bytes_per_task=0)
    async with serving(Talker(chunks=200).agent, store=store, limits=unbounded) as world:
        for _ in range(3):
            assert (await world.send(say())).status.state == COMPLETED


# -- turns that wait


@pytest.mark.req("LIMT-02", "AGNT-04")
@pytest.mark.parametrize("direct", [False, True])
async def test_a_turn_that_waits_does_not_begin_when_its_owner_has_no_room_any_more(
    store: Store, *, direct: bool
) -> None:
    gate, clock = Gate(), HandClock()

    async def act(request: TurnRequest, outlet: Outlet) -> None:
        await gate.wait()
        outlet.emit(chunk("x" * 6_000))
        outlet.emit(status(COMPLETED))

    actor = Actor(act, plan=Plan(direct=direct))
    parts: Any = {"clock": clock, "limits": limits(bytes_per_owner=5_000, running_turns=1)}
    async with serving(actor, store=store, **parts) as world:
        first = asyncio.ensure_future(world.send(say()))
        await gate.reached.wait()
        second = asyncio.ensure_future(world.stub.SendMessage(say("b")))
        await until(lambda: world.core.services.agents.root.slots.waiting == 1)
        commit = store.commit

        async def late(write: Any) -> bool:
            clock.advance(1)
            return await commit(write)

        store.commit = late  # type: ignore[method-assign]
        gate.open()
        assert (await first).status.state == COMPLETED
        if direct:
            assert (await refused(second)).reason == "QUOTA_EXCEEDED"
        else:
            task = (await second).task
            assert task.status.state == FAILED
            assert dict(task.status.message.metadata) == {"reason": "QUOTA_EXCEEDED"}
            assert task.status.message.parts[0].text.startswith("You have ")
            assert f"limits.bytes_per_owner allows 5000. {BY_HAND}" in task.status.message.parts[0].text
        assert len(actor.requests) == 1
        await at_rest(world)


# -- who is told


@pytest.mark.req("LIMT-02")
async def test_the_log_tells_whose_room_is_nearly_used_up(store: Store) -> None:
    clock = HandClock()
    parts: Any = {"store": store, "clock": clock, "limits": limits(tasks_per_owner=10), "authenticator": ByHeader()}
    with capture_logs() as logs:
        async with serving(Stage().agent, **parts) as world:
            for _ in range(11):
                clock.advance(1)
                await asyncio.wait([asyncio.ensure_future(world.send(say(), metadata=as_user("ann", x_tenant="t")))])
            for _ in range(3):
                clock.advance(1)
                await refused(world.send(say(), metadata=as_user("ann", x_tenant="t")))
    found = [(line["event"], line["tasks"]) for line in logs if line["event"].startswith("owner.")]
    assert found == [("owner.nearly_full", 9), ("owner.full", 10)]
    (full,) = [line for line in logs if line["event"] == "owner.full"]
    assert (full["owner"], full["tenant"], full["log_level"]) == ("ann", "t", "warning")


@pytest.mark.only_through("rest", why="its gateway speaks all versions")
@pytest.mark.req("LIMT-01", "LIMT-02", "ERRS-06")
async def test_every_version_is_told_and_nobody_is_told_to_try_again() -> None:
    parts: Any = {"limits": limits(tasks_per_owner=2), "authenticator": ByHeader(), "old_http": {}}
    async with draft_serving(Stage().agent, **parts) as (world, client):
        for _ in range(2):
            await world.send(say(), metadata=ANN)
        old, text = beside(client), f"{TASKS} {BY_HAND}"
        refusal = await refused(world.old.SendMessage(old_grpc_say(), metadata=ANN))
        assert told(refusal) == exceeded(text)
        answers = [
            await old.rest("POST", "/v1/message:send", old_tell(), x_user="ann"),
            await old.post(old_request("message/send", old_say()), x_user="ann"),
            await client.rest("POST", "/v1/message:send", draft_say(), x_user="ann"),
            await client.post(draft_request("SendMessage", draft_say()), x_user="ann"),
        ]
        for answer in answers:
            assert answer.status == 429
            assert "Retry-After" not in answer.headers
            assert "RetryInfo" not in str(answer.json)
            assert text in str(answer.json)
            assert "QUOTA_EXCEEDED" in str(answer.json)


# -- push configs

MANY = "You have 3 push configs, and push.configs_per_owner allows no more. Delete one first."
HOSTS = (
    "must not lead to c.example:443: your push configs lead to 2 hosts, and push.hosts_per_owner allows no more. "
    "Delete those for one of them first"
)


@pytest.mark.req("LIMT-01", "LIMT-02", "PUSH-02", "SEND-07")
async def test_an_owner_has_so_many_push_configs_and_hosts(store: Store) -> None:
    stage = Stage()
    delivery = deliver(Pigeonhole(), configs_per_owner=3, hosts_per_owner=2)
    async with serving(stage.agent, store=store, delivery=delivery, authenticator=ByHeader()) as world:
        task = await world.send(say(skill="ask"), metadata=ANN)

        def put(host: str, name: str, metadata: Any = ANN) -> Awaitable[Any]:
            hook = pb.TaskPushNotificationConfig(task_id=task.id, id=name, url=f"https://{host}.example/")
            answer: Awaitable[Any] = world.stub.CreateTaskPushNotificationConfig(hook, metadata=metadata)
            return answer

        def bring(host: str, metadata: Any = ANN) -> Awaitable[Any]:
            hook = pb.TaskPushNotificationConfig(url=f"https://{host}.example/")
            request = say(skill="ask", configuration={"task_push_notification_config": hook})
            answer: Awaitable[Any] = world.stub.SendMessage(request, metadata=metadata)
            return answer

        await put("a", "1")
        await bring("b")
        for call, field in (
            (put("c", "3"), "url"),
            (put("c", "2"), "url"),
            (bring("c"), "configuration.task_push_notification_config.url"),
        ):
            refusal = await refused(call)
            assert (refusal.code.name, refusal.reason) == ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
            assert refusal.fields == {field: HOSTS}
        await put("b", "2")
        turns = len(stage.turns)
        for call in (put("a", "3"), bring("b")):
            refusal = await refused(call)
            assert told(refusal) == exceeded(MANY)
            assert refusal.metadata == {"limit": "push.configs_per_owner"}
        assert len(stage.turns) == turns
        await put("a", "2")  # in place of one that counts
        await bring("c", BOB)
        gone = pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="1")
        await world.stub.DeleteTaskPushNotificationConfig(gone, metadata=ANN)
        await bring("a")
        assert told(await refused(bring("a"))) == exceeded(MANY)
