"""What answers a sensitive question reaches the agent's turn and nothing else (spec: XTRA-04).

Looked for in the store's files, in every answer of every operation, in the log, and in what shows up when objects are
printed.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import text_part, tool_result_part
from a2a_server.ports.store import Store
from tests.bindings.actors import CALL, COMPLETED, FAILED, INPUT, WORKING, at_rest, until
from tests.support.calls import key
from tests.support.guard import Guard, answer, asked
from tests.support.house import REDACTED, REPLAY, PostgresStore, TurnInput, fingerprint, recovered
from tests.support.postgres import all_rows
from tests.support.stage import texts
from tests.support.world import ByHeader, World, as_user, refused, say, serving

SECRET = "s3cr3t-0f-th3-d0or"
SOON = {"return_immediately": True}


def as_result(task: pb.Task, **more: Any) -> pb.SendMessageRequest:
    return answer(task, SECRET, **more)


def deep_inside(task: pb.Task, **more: Any) -> pb.SendMessageRequest:
    return answer(task, {"word": [{"is": SECRET}]}, **more)


def in_words(task: pb.Task, **more: Any) -> pb.SendMessageRequest:
    return say(SECRET, task_id=task.id, **more)


def in_everything(task: pb.Task, **more: Any) -> pb.SendMessageRequest:
    """Wherever a client may put something."""
    parts = [
        tool_result_part(asked(task).request_id, SECRET),
        text_part(f"it is {SECRET}"),
        pb.Part(raw=SECRET.encode(), filename=SECRET),
        pb.Part(url=f"https://example.com/{SECRET}"),
        tool_result_part(asked(task).request_id, [SECRET]),
    ]
    for part in parts:
        part.metadata["hint"] = SECRET
    request = say(task_id=task.id, parts=parts, **more)
    request.message.metadata["hint"] = SECRET
    request.metadata["hint"] = SECRET
    return request


WAYS = [as_result, deep_inside, in_words, in_everything]


def kept(store: Store, folder: Path) -> bytes:
    """All that the store holds: of a file also what is free in it, and its log."""
    if isinstance(store, PostgresStore):
        return all_rows(store.dsn)
    files = [path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.endswith("lock")]
    return b"".join(files) or pickle.dumps(vars(store))


async def told(world: World, task_id: str, *, over: bool) -> list[Any]:
    """What every operation answers about a task."""
    stub, request = world.stub, pb.SubscribeToTaskRequest(id=task_id)
    found: list[Any] = [
        await world.get(task_id),
        await stub.ListTasks(pb.ListTasksRequest(include_artifacts=True, history_length=100)),
    ]
    numbered = (("a2a-extensions", REPLAY), ("last-event-id", "0"))
    if over:
        found += [item async for item in stub.SubscribeToTask(request, metadata=numbered)]
    else:
        for metadata in ((), numbered):
            call = stub.SubscribeToTask(request, metadata=metadata)
            found.append(await call.read())
            call.cancel()
    return found


def shown(messages: list[Any]) -> str:
    return "".join(map(repr, messages)) + repr(b"".join(message.SerializeToString() for message in messages))


@pytest.mark.req("XTRA-04")
@pytest.mark.parametrize("way", WAYS)
async def test_a_sensitive_answer_is_found_nowhere_but_in_its_turn(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], way: Callable[..., pb.SendMessageRequest]
) -> None:
    guard = Guard()
    guard.release.clear()
    async with serving(guard.agent, store=store, push_notifications=True) as world:
        task = await world.send(say(skill="secret"))
        request = way(task, configuration=SOON)
        messages: list[Any] = [await world.send(request)]
        await world.reaches(task.id, WORKING)
        await until(lambda: len(guard.turns) == 2)
        messages += await told(world, task.id, over=False)
        assert SECRET.encode() not in kept(store, tmp_path)  # while the turn knows it

        turn = guard.turns[1]
        assert turn.parts == request.message.parts
        assert turn.history[-1] == turn.message
        assert [len(turn.history), turn.history[-2].parts[0].text] == [3, "The word?"]
        assert SECRET in str(turn.answer)
        assert SECRET not in repr(turn.request)

        guard.release.set()
        messages.append(done := await world.reaches(task.id, COMPLETED))
        messages += await told(world, task.id, over=True)
        await at_rest(world)
        assert SECRET.encode() not in kept(store, tmp_path)
        assert SECRET not in shown(messages)
        assert texts(done) == ["Come in."]
        assert [message.role for message in done.history] == [pb.ROLE_USER, pb.ROLE_AGENT, pb.ROLE_USER]
        assert (done.history[-1].message_id, done.history[-1].task_id) == ("m-1", task.id)
    assert SECRET.encode() not in kept(store, tmp_path)  # the file alone, when it is closed
    output = capsys.readouterr()
    assert SECRET not in output.out + output.err


@pytest.mark.req("XTRA-04", "XTRA-01")
async def test_the_history_says_that_there_was_an_answer(store: Store) -> None:
    async with serving(Guard().agent, store=store) as world:
        task = await world.send(say(skill="secret"))
        done = await world.send(in_everything(task))
        result = tool_result_part(asked(task).request_id, REDACTED)
        assert list(done.history[-1].parts) == [result, *[text_part(REDACTED)] * 3, result]
        assert not done.history[-1].HasField("metadata")


@pytest.mark.req("XTRA-04")
@pytest.mark.parametrize("way", WAYS)
async def test_streams_show_nothing_of_it(store: Store, way: Callable[..., pb.SendMessageRequest]) -> None:
    async with serving(Guard().agent, store=store) as world:
        task = await world.send(say(skill="secret"))
        items = await world.stream(way(task))
        assert items[-1].status_update.status.state == COMPLETED
        assert SECRET not in shown(list(items))


@pytest.mark.req("XTRA-04", "SEND-13")
async def test_an_answer_that_the_same_turn_takes_is_withheld_as_well(store: Store, tmp_path: Path) -> None:
    guard = Guard()
    guard.release.clear()
    async with serving(guard.agent, store=store) as world:
        task = await world.send(say(skill="linger"))
        messages = [await world.send(as_result(task, configuration=SOON))]
        await world.reaches(task.id, WORKING)
        messages += await told(world, task.id, over=False)
        assert SECRET.encode() not in kept(store, tmp_path)
        guard.release.set()
        messages.append(done := await world.reaches(task.id, COMPLETED))
        assert texts(done) == [f"{len(SECRET)} letters."]
        assert SECRET not in shown(messages)
        await at_rest(world)
    assert SECRET.encode() not in kept(store, tmp_path)


@pytest.mark.req("XTRA-04", "SEND-13")
async def test_an_answer_that_comes_twice_is_withheld_twice(store: Store, tmp_path: Path) -> None:
    """The first is being worked on, and nothing is asked any more: the second is known by its id."""
    guard = Guard()
    guard.release.clear()
    async with serving(guard.agent, store=store) as world:
        task = await world.send(say(skill="secret"))
        await world.send(as_result(task, configuration=SOON))
        await world.reaches(task.id, WORKING)
        again = await world.send(as_result(task, configuration=SOON, message_id="m-2"))
        assert [part.text for part in again.history[-1].parts] == [""]
        assert SECRET not in shown([again, await world.get(task.id)])
        assert SECRET.encode() not in kept(store, tmp_path)
        guard.release.set()
        done = await world.reaches(task.id, COMPLETED)
        assert [turn.message.parts[0].data.struct_value["result"] for turn in guard.turns[1:]] == [SECRET] * 2
        assert len(guard.turns[1].history) == 3
        assert [turn.history[-1] == turn.message for turn in guard.turns[1:]] == [True, True]
        assert SECRET not in str(guard.turns[2].history[:-1])
        assert SECRET not in shown([done])


@pytest.mark.req("XTRA-04", "SEND-13")
async def test_an_answer_in_words_that_is_sent_again_is_withheld_twice(store: Store, tmp_path: Path) -> None:
    """As by a client that has waited long enough: nothing is asked any more, but its id is that of the answer."""
    guard = Guard()
    guard.release.clear()
    async with serving(guard.agent, store=store) as world:
        task = await world.send(say(skill="secret"))
        for _ in range(3):
            sent = await world.send(in_words(task, configuration=SOON, message_id="m-2"))
            assert [part.text for part in sent.history[-1].parts] == [REDACTED]
        await world.reaches(task.id, WORKING)
        plain = await world.send(say("Hurry!", task_id=task.id, configuration=SOON, message_id="m-3"))
        again = await world.send(say("Hurry!", task_id=task.id, configuration=SOON, message_id="m-3"))
        assert [sent.history[-1].parts[0].text for sent in (plain, again)] == ["Hurry!"] * 2
        guard.release.set()
        done = await world.reaches(task.id, COMPLETED)
        assert [turn.text for turn in guard.turns[1:]] == [SECRET] * 3 + ["Hurry!"] * 2
        assert SECRET not in shown([done])
        await at_rest(world)
    assert SECRET.encode() not in kept(store, tmp_path)


@pytest.mark.req("XTRA-04", "SEND-13")
async def test_what_waits_is_withheld_and_comes_in_its_own_turn(store: Store, tmp_path: Path) -> None:
    """Two answers to a turn that has asked and does not listen: each gets a turn, with the history up to itself."""
    guard = Guard()
    guard.release.clear()
    async with serving(guard.agent, store=store) as world:
        task = await world.send(say(skill="deaf"))
        for number in (1, 2):
            await world.send(as_result(task, configuration=SOON, message_id=f"m-{number}"))
        assert SECRET.encode() not in kept(store, tmp_path)
        guard.release.set()
        done = await world.reaches(task.id, COMPLETED)
        assert SECRET not in shown([done])
        assert [len(turn.history) for turn in guard.turns] == [1, 3, 4]
        assert [turn.history[-1] == turn.message for turn in guard.turns] == [True] * 3
        assert [SECRET in str(turn.message) for turn in guard.turns] == [False, True, True]


@pytest.mark.req("XTRA-04")
async def test_later_turns_do_not_find_it(store: Store) -> None:
    guard = Guard()
    async with serving(guard.agent, store=store) as world:
        task = await world.send(say(skill="secret"))
        await world.send(as_result(task))
        other = await world.send(say(skill="plain", references=[task.id]))
        await world.send(say("x", task_id=other.id, references=[task.id]))
        for turn in guard.turns[2:]:
            assert len(turn.references) == 1
            assert SECRET not in str(turn.references)


@pytest.mark.req("XTRA-04")
async def test_what_is_not_sensitive_is_kept(store: Store) -> None:
    async with serving(Guard().agent, store=store) as world:
        task = await world.send(say(skill="open"))
        for request in (as_result(task), say(SECRET, skill="plain")):
            done = await world.send(request)
            assert SECRET in shown([done])


@pytest.mark.req("XTRA-04")
async def test_the_log_tells_where_an_agent_failed_and_not_over_what(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(Guard().agent, store=store) as world:
        task = await world.send(say(skill="clumsy"))
        failed = await world.send(as_result(task))
        assert failed.status.state == FAILED
        assert SECRET not in shown([failed])
    output = capsys.readouterr().out
    assert "agent.failed" in output
    assert "ValueError" in output
    assert "guard.py" in output
    assert SECRET not in output


@pytest.mark.req("XTRA-04", "ONCE-01")
async def test_not_even_a_hash_is_kept_for_repetitions(store: Store, tmp_path: Path) -> None:
    guard = Guard()
    async with serving(guard.agent, store=store) as world:
        task = await world.send(say(skill="secret"))
        request = as_result(task)
        done = await world.send(request, metadata=key())
        assert await world.send(request, metadata=key()) == done
        assert len(guard.turns) == 2
        content = kept(store, tmp_path)
        sent = pb.SendMessageRequest()
        sent.CopyFrom(request)
        assert fingerprint(sent) not in content
        sent.message.context_id = task.context_id  # as it was when it came to the task
        assert fingerprint(sent) not in content
        assert hashlib.sha256(SECRET.encode()).digest() not in content

        open_one = await world.send(say(skill="open"))
        await world.send(answer(open_one, "red"), metadata=key("k2"))
        refusal = await refused(world.stub.SendMessage(answer(open_one, "blue"), metadata=key("k2")))
        assert refusal.reason == "INVALID_PARAMS"  # what is no secret is compared as ever


# -- by reference


@pytest.mark.req("XTRA-03", "XTRA-04")
async def test_by_reference_it_is_withheld_as_well(store: Store, tmp_path: Path) -> None:
    async with serving(Guard().agent, store=store, answer_by_reference=True) as world:
        task = await world.send(say(skill="secret"))
        request = as_result(task, references=[task.id])
        request.message.task_id = ""
        done = await world.send(request)
        assert (done.id, done.status.state) == (task.id, COMPLETED)
        assert SECRET not in shown([done, await world.get(task.id)])
        assert SECRET.encode() not in kept(store, tmp_path)


@pytest.mark.req("XTRA-04", "GEN-03")
@pytest.mark.parametrize("setting", [False, True])
async def test_it_begins_no_task_of_its_own(store: Store, tmp_path: Path, *, setting: bool) -> None:
    """Without the setting, or when nobody waits for it any more, it would be the first message of a new task."""
    async with serving(Guard().agent, store=store, answer_by_reference=setting) as world:
        task = await world.send(say(skill="secret"))
        request = as_result(task, references=[task.id])
        request.message.task_id = ""
        if setting:
            await world.send(request)
            request.message.ClearField("context_id")
        refusal = await refused(world.stub.SendMessage(request))
        assert refusal.reason == "INVALID_PARAMS"
        assert refusal.fields == {
            "message.task_id": f"must be {task.id}: the message answers a sensitive request of that task, "
            "and a new task would keep it"
        }
        assert (await world.stub.ListTasks(pb.ListTasksRequest())).total_size == 1
        assert SECRET.encode() not in kept(store, tmp_path)


@pytest.mark.req("XTRA-04", "AUTZ-02")
async def test_whose_request_it_is_stays_unknown_to_strangers() -> None:
    async with serving(Guard().agent, authenticator=ByHeader()) as world:
        task = await world.send(say(skill="secret"), metadata=as_user("ann"))
        request = as_result(task, references=[task.id], skill="plain")
        assert (await refused(world.stub.SendMessage(request, metadata=as_user("bob")))).reason == "TASK_NOT_FOUND"
        request.message.task_id = ""
        assert (await world.send(request, metadata=as_user("bob"))).status.state == INPUT


@pytest.mark.req("XTRA-04")
@pytest.mark.only_through("grpc", why="no door is asked")
def test_a_stored_turn_shows_and_leaves_only_what_is_kept() -> None:
    message = TurnInput(CALL, say(SECRET))
    message.number, message.kept = 2, say("kept").message
    assert SECRET not in repr(message)
    turn = message.stored()
    assert SECRET.encode() not in turn.request
    found = recovered(CALL.scope, turn)
    assert found.kept == found.request.message == say("kept").message
    assert recovered(CALL.scope, TurnInput(CALL, say("x")).stored()).kept is None
