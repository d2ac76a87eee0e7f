"""Questions with ids, and the tool results that answer them (spec: XTRA-01, XTRA-02, XTRA-03)."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto.discovery_pb2 import GetAgentCardRequest
from a2a_server.agents import INPUT_REQUESTS, Agent, Turn, text_part, tool_result_part, tool_use_part
from a2a_server.ports.agent import Outlet, TurnRequest
from a2a_server.ports.store import Store
from tests.bindings.actors import AUTH, COMPLETED, FAILED, INPUT, Actor, status
from tests.support.guard import Guard, answer, asked, data
from tests.support.house import UNDECLARED, Anonymous, CardBook, InputRequest, put_request
from tests.support.stage import texts
from tests.support.world import ByHeader, World, as_user, kinds, refused, say, serving

URI = INPUT_REQUESTS.uri
NOW = {"return_immediately": True}


@pytest.mark.req("XTRA-01", "EXTN-07", "INTR-01")
async def test_a_question_carries_its_request(store: Store) -> None:
    async with serving(Guard().agent, store=store) as world:
        task = await world.send(say(skill="open"))
        question = task.status.message
        assert task.status.state == INPUT
        assert [part.text for part in question.parts] == ["Which door?"]
        assert list(question.extensions) == [URI]
        request = {"kind": "input-request", "prompt": "Which door?", "sensitive": False, "requestId": "door"}
        assert question.metadata.fields[URI] == data({"inputRequest": request})
        assert (await world.get(task.id)).status.message == question


@pytest.mark.req("XTRA-01")
async def test_a_request_gets_an_id_of_its_own() -> None:
    async with serving(Guard().agent) as world:
        one, two = [asked(await world.send(say(skill="secret"))) for _ in range(2)]
        assert one.sensitive
        assert one.request_id != two.request_id
        assert len(one.request_id) == 32


@pytest.mark.req("XTRA-01")
async def test_what_a_tool_is_to_do_travels_with_the_question(store: Store) -> None:
    agent = Agent("Probe", "Looks.", "1.0.0", extensions=[INPUT_REQUESTS])

    @agent.skill(id="look", tags=["test"])
    async def look(turn: Turn) -> Any:
        if turn.number > 1:
            return turn.results["t"]
        call = tool_use_part({"toolUseId": "t", "name": "thermometer", "input": {"unit": "K"}})
        await turn.ask([text_part("How warm?"), call], request_id="t")
        return None

    async with serving(agent, store=store) as world:
        task = await world.send(say())
        call = task.status.message.parts[1]
        assert call.data == data({"toolUseId": "t", "name": "thermometer", "input": {"unit": "K"}})
        assert call.metadata.fields[URI] == data({"partKind": "tool-use"})
        done = await world.send(answer(task, {"kelvin": 294}))
        assert done.artifacts[0].parts[0].data == data({"kelvin": 294})
        assert done.history[-1].parts[0].metadata.fields[URI] == data({"partKind": "tool-result"})


@pytest.mark.req("XTRA-02", "INTR-02")
@pytest.mark.parametrize("value", ["red", 7, None, ["red", {"or": "green"}]])
async def test_a_result_resumes_the_task_that_asked(store: Store, value: Any) -> None:
    guard = Guard()
    async with serving(guard.agent, store=store) as world:
        task = await world.send(say(skill="open"))
        done = await world.send(answer(task, value))
        assert (done.id, done.status.state) == (task.id, COMPLETED)
        assert texts(done) == [f"The {value} one."]
        assert guard.turns[1].answer == value
        assert guard.turns[1].results == {"door": value}
        assert done.history[-1].parts[0] == tool_result_part("door", value)  # nothing secret about it


@pytest.mark.req("XTRA-02")
async def test_a_result_resumes_the_task_in_a_stream() -> None:
    async with serving(Guard().agent) as world:
        task = await world.send(say(skill="open"))
        items = await world.stream(answer(task, "red"))
        assert kinds(items) == ["task", "artifact_update", "COMPLETED"]


@pytest.mark.req("XTRA-02")
async def test_clients_that_know_nothing_of_it_answer_in_words(store: Store) -> None:
    guard = Guard()
    async with serving(guard.agent, store=store) as world:
        task = await world.send(say(skill="open"))
        assert texts(await world.send(say("red", task_id=task.id))) == ["The red one."]
        assert guard.turns[1].results == {}
        assert guard.turns[0].answer is None


@pytest.mark.req("XTRA-02", "ERRS-05", "GEN-03")
async def test_a_result_for_something_else_is_refused(store: Store) -> None:
    guard = Guard()
    async with serving(guard.agent, store=store) as world:
        task = await world.send(say(skill="open"))
        nameless = tool_result_part("x", 1)
        del nameless.data.struct_value.fields["toolUseId"]
        parts = [text_part("here"), tool_result_part("window", 1), nameless, tool_result_part("door", 1)]
        refusal = await refused(world.stub.SendMessage(say(task_id=task.id, parts=parts)))
        assert (refusal.code.name, refusal.reason) == ("INVALID_ARGUMENT", "INVALID_PARAMS")
        assert refusal.fields == {
            "message.parts[1]": "is the result for 'window', but the task asks for 'door'",
            "message.parts[2]": "a tool result needs a toolUseId; the task asks for 'door'",
        }
        assert await world.get(task.id) == task
        assert len(guard.turns) == 1
        assert (await world.send(answer(task, "red"))).status.state == COMPLETED


@pytest.mark.req("XTRA-02", "SEND-13", "GEN-03")
async def test_so_is_one_that_comes_before_the_asking_turn_is_over(store: Store) -> None:
    guard = Guard()
    guard.release.clear()
    async with serving(guard.agent, store=store) as world:
        task = await world.send(say(skill="deaf"))
        refusal = await refused(world.stub.SendMessage(answer(task, "x", tool_use_id="window")))
        assert refusal.fields == {"message.parts[0]": "is the result for 'window', but the task asks for 'word'"}
        assert await world.get(task.id) == task
        guard.release.set()


@pytest.mark.req("XTRA-02")
async def test_a_task_that_asks_for_nothing_by_id_takes_any_result(store: Store) -> None:
    async with serving(Guard().agent, store=store) as world:
        task = await world.send(say(skill="plain"))
        done = await world.send(say(task_id=task.id, parts=[tool_result_part("any", 1), text_part("yes")]))
        assert texts(done) == ["yes"]


TEXT_ONLY: Any = {"default_input_modes": ["text/plain"]}


@pytest.mark.req("SEND-04")
async def test_results_need_no_input_mode_where_the_extension_is_declared() -> None:
    for guard, reason in ((Guard(extensions=(), **TEXT_ONLY), "CONTENT_TYPE_NOT_SUPPORTED"), (Guard(**TEXT_ONLY), "")):
        async with serving(guard.agent) as world:
            request = say(skill="plain", parts=[tool_result_part("any", 1)])
            if reason:
                assert (await refused(world.stub.SendMessage(request))).reason == reason
            else:
                assert (await world.send(request)).status.state == INPUT
            typed = say(parts=[pb.Part(data=data({"a": 1}), media_type="application/x")])
            assert (await refused(world.stub.SendMessage(typed))).reason == "CONTENT_TYPE_NOT_SUPPORTED"


# -- the extension


@pytest.mark.req("EXTN-01", "EXTN-10", "SEND-14")
async def test_who_does_not_declare_it_may_not_use_it(store: Store) -> None:
    async with serving(Guard(extensions=()).agent, store=store) as world:
        card = await world.discovery.GetAgentCard(GetAgentCardRequest())
        assert URI not in [extension.uri for extension in card.capabilities.extensions]
        refusal = await refused(world.stub.SendMessage(say(skill="open")))
        assert refusal.reason == "INVALID_AGENT_RESPONSE"
        failed = await world.get(refusal.metadata["taskId"])
        assert failed.status.state == FAILED
        assert failed.status.message.parts[0].text == f"The agent broke the protocol: {UNDECLARED}."
        assert (await world.send(say(skill="plain"))).status.state == INPUT


@pytest.mark.req("EXTN-01", "EXTN-02", "EXTN-03")
async def test_the_card_declares_it_once(store: Store) -> None:
    switched_on = CardBook(Guard().agent, lambda _: [], Anonymous().card, input_requests=True).public()
    assert [extension.uri for extension in switched_on.capabilities.extensions] == [URI]
    async with serving(Guard().agent, store=store) as world:
        card = await world.discovery.GetAgentCard(GetAgentCardRequest())
        (declared,) = [extension for extension in card.capabilities.extensions if extension.uri == URI]
        assert not declared.required
        call = world.stub.SendMessage(say(skill="open"), metadata=(("a2a-extensions", URI),))
        assert asked((await call).task).request_id == "door"
        assert ("a2a-extensions", URI) in tuple(await call.initial_metadata())


# -- by reference


async def by_reference(world: World, task: pb.Task, value: Any = "red", **more: Any) -> pb.Task:
    request = answer(task, value, references=[task.id], **more)
    request.message.task_id = ""
    return await world.send(request)


@pytest.mark.req("XTRA-03")
async def test_an_answer_may_find_its_task_by_reference(store: Store) -> None:
    guard = Guard()
    async with serving(guard.agent, store=store, answer_by_reference=True) as world:
        task = await world.send(say(skill="open"))
        done = await by_reference(world, task)
        assert (done.id, done.status.state, texts(done)) == (task.id, COMPLETED, ["The red one."])
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 1


@pytest.mark.req("XTRA-03", "EXTN-10")
async def test_by_reference_is_off_by_default(store: Store) -> None:
    async with serving(Guard().agent, store=store) as world:
        task = await world.send(say(skill="open"))
        new = await by_reference(world, task, skill="plain")
        assert new.id != task.id
        assert await world.get(task.id) == task


@pytest.mark.req("XTRA-03", "CTX-11")
async def test_only_the_right_answer_to_an_open_question_counts(store: Store) -> None:
    """Everything else begins a task, as it would without the setting."""
    async with serving(Guard().agent, store=store, answer_by_reference=True) as world:
        task, other, plain = [await world.send(say(skill=skill)) for skill in ("open", "open", "plain")]
        right = tool_result_part("door", "red")
        wrong: list[tuple[list[pb.Part], list[str]]] = [
            ([right], [task.id, other.id]),
            ([right], [task.id, task.id]),
            ([right], ["never", task.id]),
            ([right], ["never"]),
            ([right], [plain.id]),
            ([tool_result_part("window", "red")], [task.id]),
            ([text_part("red")], [task.id]),
        ]
        for parts, references in wrong:
            new = await world.send(say(skill="plain", parts=parts, references=references))
            assert new.id not in {task.id, other.id, plain.id}
        assert [await world.get(one.id) for one in (task, other, plain)] == [task, other, plain]
        await by_reference(world, task)
        again = await world.send(say(skill="plain", parts=[right], references=[task.id]))
        assert again.id != task.id  # it is over


@pytest.mark.req("XTRA-03")
async def test_who_wants_a_credential_is_not_found_by_reference() -> None:
    async def act(request: TurnRequest, outlet: Outlet) -> None:
        wish = status(AUTH, "Log in.")
        put_request(wish.status_update.status.message, InputRequest("door", "Log in."))
        outlet.emit(wish if not request.references else status(COMPLETED))

    actor = Actor(act)
    actor.card.capabilities.extensions.add(uri=URI)
    async with serving(actor, answer_by_reference=True) as world:
        task = await world.send(say())
        assert (await by_reference(world, task)).id != task.id
        assert await world.get(task.id) == task


@pytest.mark.req("XTRA-03", "AUTZ-02", "AUTZ-03")
@pytest.mark.parametrize("skill", ["open", "secret"])
async def test_strangers_learn_nothing_by_reference(store: Store, skill: str) -> None:
    """Somebody else's task is like none at all, whatever it asks for."""
    async with serving(Guard().agent, store=store, answer_by_reference=True, authenticator=ByHeader()) as world:
        task = await world.send(say(skill=skill), metadata=as_user("ann"))
        part = tool_result_part(asked(task).request_id, "red")
        for stranger in (as_user("bob"), as_user("ann", x_tenant="red")):
            answers = []
            for reference in (task.id, "never"):
                request = say(skill="plain", parts=[part], references=[reference])
                new = await world.send(request, metadata=stranger)
                assert new.id != task.id
                answers.append((new.status.state, [message.parts[0] for message in new.history]))
            assert answers[0] == answers[1]
        assert await world.get(task.id, metadata=as_user("ann")) == task


@pytest.mark.req("XTRA-03", "CTX-06")
async def test_an_answer_by_reference_stays_in_the_task_s_context() -> None:
    async with serving(Guard().agent, answer_by_reference=True) as world:
        task = await world.send(say(skill="open"))
        refusal = await refused(by_reference(world, task, context_id="elsewhere"))
        assert list(refusal.fields) == ["message.context_id"]
        assert (await by_reference(world, task, context_id=task.context_id)).id == task.id
