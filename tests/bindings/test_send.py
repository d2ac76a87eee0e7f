"""SendMessage: what comes in, what comes out, and what a task is made of (spec: SEND, GEN, EXEC-01)."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Agent, Turn
from a2a_server.ports.agent import Outlet, Plan, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import (
    COMPLETED,
    FAILED,
    INPUT,
    REJECTED,
    Actor,
    Gate,
    asking,
    at_rest,
    begun,
    chunk,
    echo,
    log_of,
    says,
    status,
    texts,
    waiting,
    watch_writes,
)
from tests.support.house import CallRules, Extensions, Limits
from tests.support.world import ByHeader, as_user, refused, say, serving


def shouter() -> Agent:
    agent = Agent("Shout", "Says it louder.", "1.0.0")

    @agent.skill(id="shout", tags=["text"])
    async def shout(turn: Turn) -> str:
        return turn.text.upper()

    @agent.skill(id="hush", tags=["text"])
    async def hush(turn: Turn) -> str:
        return turn.text.lower()

    return agent


@pytest.mark.req("SEND-01", "GEN-08", "CTX-07", "CTX-01", "CTX-02", "AGNT-01")
async def test_the_answer_is_a_task_with_the_result_as_artifact(store: Store) -> None:
    async with serving(shouter(), store=store) as world:
        response = await world.stub.SendMessage(say("hello"))
        assert response.WhichOneof("payload") == "task"
        task = response.task
        assert task.status.state == COMPLETED
        assert [texts(artifact) for artifact in task.artifacts] == [["HELLO"]]
        assert task.id
        assert task.context_id
        assert task == await world.get(task.id)


@pytest.mark.req("GEN-08", "GEN-09")
async def test_results_are_artifacts_and_progress_stays_out_of_the_history() -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(pb.TASK_STATE_WORKING, "half way"))
        outlet.emit(chunk("result"))
        outlet.emit(status(COMPLETED, "done"))

    async with serving(Actor(act)) as world:
        task = await world.send(say("hello"))
        assert texts(task.artifacts[0]) == ["result"]
        assert [message.parts[0].text for message in task.history] == ["hello"]
        assert task.status.message.parts[0].text == "done"


@pytest.mark.req("CTX-07")
async def test_task_ids_are_unique(store: Store) -> None:
    async with serving(echo(), store=store) as world:
        tasks = await asyncio.gather(*(world.send(say(message_id="same")) for _ in range(50)))
        assert len({task.id for task in tasks}) == 50


@pytest.mark.req("SEND-15")
async def test_metadata_may_name_the_skill_and_need_not() -> None:
    async with serving(shouter()) as world:
        assert texts((await world.send(say("Hello"))).artifacts[0]) == ["HELLO"]
        assert texts((await world.send(say("Hello", skill="hush"))).artifacts[0]) == ["hello"]
        refusal = await refused(world.stub.SendMessage(say("Hello", skill="dance")))
        assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.fields == {"metadata.skill": "must be one of: shout, hush"}


# -- messages to tasks


@pytest.mark.req("SEND-05", "STAT-01")
@pytest.mark.parametrize("end", [COMPLETED, FAILED, REJECTED])
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_finished_task_takes_no_message_and_stays_as_it_is(
    store: Store, end: pb.TaskState, *, streaming: bool
) -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        outlet.emit(status(end, "over"))

    async with serving(agent := Actor(act), store=store) as world:
        task = await world.send(say())
        more = say("more", task_id=task.id)
        refusal = await refused(world.stream(more) if streaming else world.stub.SendMessage(more))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "UNSUPPORTED_OPERATION")
        state = pb.TaskState.Name(end)
        assert refusal.metadata == {"taskId": task.id, "contextId": task.context_id, "state": state}
        assert await world.get(task.id) == task
        assert len(agent.requests) == 1


@pytest.mark.req("SEND-05")
async def test_a_canceled_task_takes_no_message(store: Store) -> None:
    async with serving(asking(), store=store) as world:
        task = await world.send(say())
        canceled = await world.stub.CancelTask(pb.CancelTaskRequest(id=task.id))
        refusal = await refused(world.stub.SendMessage(say(task_id=task.id)))
        assert refusal.reason == "UNSUPPORTED_OPERATION"
        assert refusal.metadata["state"] == "TASK_STATE_CANCELED"
        assert await world.get(task.id) == canceled


@pytest.mark.req("SEND-06", "CTX-08")
@pytest.mark.parametrize("streaming", [False, True])
async def test_an_unknown_task_is_not_found_and_not_made(store: Store, *, streaming: bool) -> None:
    async with serving(agent := echo(), store=store) as world:
        message = say(task_id="of-my-own")
        refusal = await refused(world.stream(message) if streaming else world.stub.SendMessage(message))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")
        assert refusal.metadata == {"taskId": "of-my-own"}
        assert refusal.domain == "a2a-protocol.org"
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 0
        assert not agent.requests


@pytest.mark.req("SEND-06")
async def test_somebody_elses_task_is_not_found(store: Store) -> None:
    async with serving(asking(), store=store, authenticator=ByHeader()) as world:
        task = await world.send(say(), metadata=as_user("ann"))
        unknown = await refused(world.stub.SendMessage(say(task_id="nobodys"), metadata=as_user("bob")))
        foreign = await refused(world.stub.SendMessage(say(task_id=task.id), metadata=as_user("bob")))
        assert (foreign.code, foreign.message, foreign.reason) == (unknown.code, unknown.message, unknown.reason)
        assert await world.get(task.id, metadata=as_user("ann")) == task


# -- what the agent is told


@pytest.mark.req("EXEC-01", "SEND-08", "EXTN-07")
async def test_the_agent_gets_everything_about_the_message() -> None:
    agent = echo()
    uri = "https://example.com/ext/1"
    rules = CallRules(extensions=Extensions(frozenset({uri})))
    async with serving(agent, authenticator=ByHeader(), rules=rules) as world:
        other = await world.send(say("other"), metadata=as_user("ann", x_tenant="red"))
        request = say(
            "hello",
            parts=[pb.Part(text="hello"), pb.Part(text="again", metadata={"k": "v"})],
            context_id="my-context",
            references=[other.id],
            configuration={"accepted_output_modes": ["text/plain", "image/*"]},
        )
        request.message.metadata["m"] = 1
        request.message.extensions.append(uri)
        request.metadata["r"] = [True, None]
        metadata = (*as_user("ann", x_tenant="red"), ("a2a-extensions", uri))
        task = await world.send(request, metadata=metadata)
    got = agent.requests[-1]
    sent = pb.Message()
    sent.CopyFrom(request.message)
    sent.task_id = task.id
    assert got.message == sent
    assert got.metadata == request.metadata
    assert (got.task_id, got.context_id, got.number) == (task.id, "my-context", 1)
    assert got.task.history == [sent]
    assert [reference.id for reference in got.references] == [other.id]
    assert (got.caller.owner, got.caller.authenticated, got.tenant) == ("ann", True, "red")
    assert got.version == "1.0"
    assert got.extensions == {uri}
    assert got.accepted_output_modes == ("text/plain", "image/*")
    assert (got.state, got.rerun) == (b"", False)


@pytest.mark.req("SEND-08")
async def test_accepted_output_modes_shape_the_result() -> None:
    agent = Agent("Poly", "Answers in what you read.", "1.0.0")

    @agent.skill(id="answer", tags=["test"])
    async def answer(turn: Turn) -> dict[str, int] | str:
        return {"answer": 42} if turn.preferred(["application/json", "text/plain"]) == "application/json" else "42"

    async with serving(agent) as world:
        text = await world.send(say(configuration={"accepted_output_modes": ["text/*"]}))
        data = await world.send(say(configuration={"accepted_output_modes": ["text/*", "application/json"]}))
        assert text.artifacts[0].parts[0].text == "42"
        assert data.artifacts[0].parts[0].data.struct_value["answer"] == 42


# -- content types


@pytest.mark.req("SEND-04", "SEND-02")
@pytest.mark.parametrize(
    ("part", "media_type"),
    [
        (pb.Part(raw=b"GIF89a", media_type="image/gif"), "image/gif"),
        (pb.Part(url="https://example.com/x", media_type="video/mp4"), "video/mp4"),
        (pb.Part(text="<p>", media_type="text/html; charset=utf-8"), "text/html; charset=utf-8"),
    ],
)
async def test_a_media_type_that_nobody_reads_is_refused(part: pb.Part, media_type: str) -> None:
    async with serving(agent := echo()) as world:
        refusal = await refused(world.stub.SendMessage(say(parts=[pb.Part(text="look:"), part])))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_TYPE_NOT_SUPPORTED")
        assert refusal.metadata == {"mediaType": media_type, "supported": "text/plain,application/json"}
        assert not agent.requests


@pytest.mark.req("SEND-04")
async def test_the_addressed_skill_may_read_more_than_the_agent() -> None:
    agent = Agent("Eyes", "Looks at pictures.", "1.0.0", default_input_modes=["text"])

    @agent.skill(id="read", tags=["text"])
    async def read(turn: Turn) -> str:
        return "read"

    @agent.skill(id="look", tags=["image"], input_modes=["image/*"])
    async def look(turn: Turn) -> str:
        return "looked"

    picture = [pb.Part(raw=b"png", media_type="image/png")]
    async with serving(agent) as world:
        assert texts((await world.send(say(parts=picture, skill="look"))).artifacts[0]) == ["looked"]
        refusal = await refused(world.stub.SendMessage(say(parts=picture, skill="read")))
        assert refusal.reason == "CONTENT_TYPE_NOT_SUPPORTED"


@pytest.mark.req("SEND-04")
async def test_an_author_who_declares_no_modes_reads_everything() -> None:
    """The card names what most agents read (CONF-80)."""
    agent = Agent("Eyes", "Looks at pictures.", "1.0.0")

    @agent.skill(id="look", tags=["image"])
    async def look(turn: Turn) -> str:
        return turn.parts[0].media_type

    async with serving(agent) as world:
        task = await world.send(say(parts=[pb.Part(raw=b"png", media_type="image/png")]))
        assert texts(task.artifacts[0]) == ["image/png"]
        assert list(world.core.card.default_input_modes) == ["text/plain", "application/json"]


@pytest.mark.parametrize(
    ("told", "read"),
    [
        (["text"], ("text/plain",)),
        (["image", "form", "application/json"], ("image/*", "application/json")),
        (["form", ""], ()),
        (["text/plain"] * 200, ("text/plain",) * 200),
    ],
)
async def test_a_send_is_never_refused_for_the_modes_it_accepts(told: list[str], read: tuple[str, ...]) -> None:
    async with serving(agent := echo()) as world:
        task = await world.send(say(configuration={"accepted_output_modes": told}))
        assert task.status.state == pb.TASK_STATE_COMPLETED
    assert agent.requests[0].accepted_output_modes == read


# -- direct messages


def chatty() -> Actor:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        if request.message.parts[0].text == "task":
            outlet.emit(status(INPUT, "And?"))
        elif request.number > 1:
            outlet.emit(status(COMPLETED, "hi again"))
        else:
            outlet.emit(pb.StreamResponse(message=says("hi")))

    return Actor(act, plan=Plan(direct=True))


@pytest.mark.req("SEND-01", "SEND-09", "SEND-10", "CTX-02")
async def test_a_trivial_question_gets_a_message_and_no_task(store: Store) -> None:
    async with serving(chatty(), store=store) as world:
        response = await world.stub.SendMessage(say(message_id="mine"))
        assert response.WhichOneof("payload") == "message"
        message = response.message
        assert message.role == pb.ROLE_AGENT
        assert message.message_id not in ("", "mine")
        assert message.parts[0].text == "hi"
        assert message.context_id
        assert not message.task_id
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 0
        await at_rest(world)


@pytest.mark.req("SEND-10", "CTX-03")
async def test_a_direct_message_stays_in_the_clients_context() -> None:
    async with serving(chatty()) as world:
        response = await world.stub.SendMessage(say(context_id="ours"))
        assert response.message.context_id == "ours"


@pytest.mark.req("SEND-11", "SEND-01")
async def test_once_there_is_a_task_it_is_the_answer(store: Store) -> None:
    async with serving(chatty(), store=store) as world:
        task = await world.send(say("task"))
        assert task.status.state == INPUT
        task = await world.send(say("hello", task_id=task.id))
        assert task.status.state == COMPLETED
        assert task.status.message.parts[0].text == "hi again"


@pytest.mark.req("SEND-11")
async def test_the_api_for_authors_replies_with_the_task_that_exists() -> None:
    agent = Agent("Chat", "Chats.", "1.0.0")

    @agent.skill(id="chat", tags=["chat"], direct=True)
    async def chat(turn: Turn) -> None:
        if turn.number == 1 and turn.text == "task":
            return await turn.ask("And?")
        return await turn.reply("hi")

    async with serving(agent) as world:
        assert (await world.stub.SendMessage(say())).message.parts[0].text == "hi"
        task = await world.send(say("task"))
        task = await world.send(say(task_id=task.id))
        assert task.status.message.parts[0].text == "hi"


# -- push configs that come with a message


@pytest.mark.req("SEND-07", "PUSH-02", "PUSH-14")
async def test_an_inline_push_config_is_there_before_the_first_update(store: Store) -> None:
    async with serving(asking(), store=store, push_notifications=True) as world:
        writes = watch_writes(store)
        config = pb.TaskPushNotificationConfig(url="https://example.com/hook", token="t")
        task = await world.send(say(configuration={"task_push_notification_config": config}))
        assert writes[0].expected == 0
        assert [kept.config.url for kept in writes[0].configs] == [config.url]
        again = pb.TaskPushNotificationConfig(url="https://example.com/second", id="2", task_id=task.id)
        await world.send(say(task_id=task.id, configuration={"task_push_notification_config": again}))
        write = next(write for write in writes if any(entry.event.HasField("message") for entry in write.entries))
        assert [kept.config.id for kept in write.configs] == ["2"]
        request = pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        listed = (await world.stub.ListTaskPushNotificationConfigs(request)).configs
        assert {kept.url for kept in listed} == {config.url, again.url}
        assert all(kept.id and kept.task_id == task.id for kept in listed)


@pytest.mark.req("SEND-07", "SEND-13")
async def test_a_push_config_may_come_with_a_message_to_a_running_task(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store, push_notifications=True) as world:
        task = await world.send(say(configuration={"return_immediately": True}))
        config = pb.TaskPushNotificationConfig(url="https://example.com/hook", id="late")
        configuration = {"return_immediately": True, "task_push_notification_config": config}
        await world.send(say(task_id=task.id, configuration=configuration))
        request = pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="late")
        assert (await world.stub.GetTaskPushNotificationConfig(request)).url == config.url
        gate.open()


@pytest.mark.req("GEN-03", "CAPA-05")
async def test_an_inline_push_config_without_the_capability_starts_nothing() -> None:
    async with serving(agent := echo()) as world:
        config = pb.TaskPushNotificationConfig(url="https://example.com/hook")
        refusal = await refused(world.stub.SendMessage(say(configuration={"task_push_notification_config": config})))
        assert refusal.code == grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
        assert not agent.requests


# -- the work goes on without its client


@pytest.mark.req("GEN-07")
async def test_a_client_that_hangs_up_leaves_the_work_alone(store: Store) -> None:
    gate = Gate()
    async with serving(waiting(gate), store=store) as world:
        call = world.stub.SendMessage(say())
        await gate.reached.wait()
        task_id = await begun(world)
        call.cancel()
        gate.open()
        assert (await world.reaches(task_id, COMPLETED)).status.state == COMPLETED
        await at_rest(world)


@pytest.mark.req("GEN-07")
async def test_a_deadline_that_passes_leaves_the_work_alone(store: Store) -> None:
    gate, patience = Gate(), 0.15
    async with serving(waiting(gate), store=store) as world:
        while not gate.reached.is_set():  # a busy machine may not even have begun by then
            refusal = await refused(world.stub.SendMessage(say(), timeout=patience))
            assert refusal.code == grpc.StatusCode.DEADLINE_EXCEEDED
            patience *= 2
        task_id = await begun(world)
        gate.open()
        await world.reaches(task_id, COMPLETED)
        await at_rest(world)


@pytest.mark.req("IDEM-01")
async def test_reading_changes_nothing(store: Store) -> None:
    async with serving(asking(), store=store, push_notifications=True) as world:
        config = pb.TaskPushNotificationConfig(url="https://example.com/hook", id="c")
        task = await world.send(say(configuration={"task_push_notification_config": config}))
        before = await log_of(world.core, task.id)
        writes = watch_writes(store)
        for _ in range(2):
            assert await world.get(task.id) == task
            assert (await world.stub.ListTasks(pb.ListTasksRequest())).tasks[0].status == task.status
            await world.stub.GetTaskPushNotificationConfig(
                pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="c")
            )
            await world.stub.ListTaskPushNotificationConfigs(pb.ListTaskPushNotificationConfigsRequest(task_id=task.id))
        assert not writes
        assert await log_of(world.core, task.id) == before


@pytest.mark.req("SEND-13")
async def test_waiting_messages_are_bounded() -> None:
    gate = Gate()
    async with serving(waiting(gate), limits=Limits(waiting_messages=2, drain_grace=0.05)) as world:
        now = {"return_immediately": True}
        task = await world.send(say(configuration=now))
        await gate.reached.wait()
        for number in range(2):
            await world.send(say(f"more {number}", task_id=task.id, configuration=now))
        refusal = await refused(world.stub.SendMessage(say("too many", task_id=task.id)))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        assert refusal.metadata == {"taskId": task.id}
        assert len((await world.get(task.id)).history) == 3
        gate.open()
        await world.reaches(task.id, COMPLETED)
