"""The client of this project before servers of the official JavaScript SDK, of both versions, on all bindings.

What their agent does depends on what is said; see clients/js/server.mjs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.client import AgentError, CallerCredentials, Reason, Remote, connect, data_part, file_part, text_part
from tests.interop.older import JAVASCRIPT, TRANSPORTS, Theatre
from tests.interop.test_client_library import Way, texts

WAYS = [Way(server, binding, version) for version, server in JAVASCRIPT.items() for binding in TRANSPORTS]


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


@pytest.fixture
async def remote(theatre: Theatre, way: Way) -> AsyncIterator[Remote]:
    async with connect(theatre.url(way.server), transports=[way.binding], version=way.version) as connected:
        yield connected


async def test_the_card_is_found_and_the_interface_chosen(remote: Remote, way: Way) -> None:
    assert remote.card.name == "Parrot"
    assert [skill.id for skill in remote.card.skills] == ["talk"]
    assert (remote.interface.protocol_binding, remote.version) == (way.binding, way.version)


async def test_credentials_are_sent_as_the_card_asks(theatre: Theatre, way: Way) -> None:
    url, token = theatre.url(way.server), CallerCredentials(bearer="secret")
    async with connect(url, credentials=token, transports=[way.binding], version=way.version) as remote:
        assert (await remote.send("who")).message.parts[0].text == "Bearer secret"
        flows = remote.card.security_schemes["login"].oauth2_security_scheme.flows
        assert flows.client_credentials.token_url == ("https://example.com/token" if way.version == "1.0" else "")


async def test_a_task_is_made_and_read(remote: Remote) -> None:
    task = (await remote.send("one two")).task
    assert task.status.state == pb.TASK_STATE_COMPLETED
    assert texts(task) == ["one", "two"]
    again = await remote.get_task(task.id, history_length=1)
    assert (again.context_id, texts(again)) == (task.context_id, ["one", "two"])
    assert [(message.role, message.parts[0].text) for message in again.history] == [(pb.ROLE_USER, "one two")]


async def test_an_answer_without_a_task(remote: Remote) -> None:
    answer = (await remote.send("no task")).message
    assert (answer.role, answer.parts[0].text) == (pb.ROLE_AGENT, "none it is")


async def test_a_stream(remote: Remote) -> None:
    events = [event async for event in remote.stream("one two")]
    assert events[0].task.status.state == pb.TASK_STATE_SUBMITTED
    chunks = [event.artifact_update for event in events[1:-1]]
    assert [chunk.artifact.parts[0].text for chunk in chunks] == ["one", "two"]
    assert [(chunk.append, chunk.last_chunk) for chunk in chunks] == [(False, False), (True, True)]
    assert events[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_a_question_is_answered_in_the_same_task(remote: Remote) -> None:
    asked = (await remote.send("a car")).task
    assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert asked.status.message.parts[0].text == "What colour?"
    answered = (await remote.send("red", task_id=asked.id, context_id=asked.context_id)).task
    assert (answered.id, answered.status.state) == (asked.id, pb.TASK_STATE_COMPLETED)
    assert texts(answered) == ["red it is"]


async def test_a_task_is_followed_and_canceled(remote: Remote) -> None:
    stream = remote.stream("wait")
    task = (await anext(stream)).task
    assert (await anext(stream)).status_update.status.state == pb.TASK_STATE_WORKING
    following = remote.subscribe(task.id)
    assert (await anext(following)).task.id == task.id
    canceled = await remote.cancel_task(task.id)
    assert (canceled.id, canceled.status.state) == (task.id, pb.TASK_STATE_CANCELED)
    for rest in (stream, following):
        assert [event.status_update.status.state async for event in rest][-1] == pb.TASK_STATE_CANCELED


async def test_tasks_are_listed_where_the_version_has_lists(remote: Remote, way: Way) -> None:
    task = (await remote.send("one two")).task
    asked = pb.ListTasksRequest(context_id=task.context_id, include_artifacts=True)
    if way.version == "0.3":
        with pytest.raises(AgentError) as refused:
            await remote.list_tasks(asked)
        assert refused.value.reason is Reason.UNSUPPORTED_OPERATION
        return
    listed = await remote.list_tasks(asked)
    assert [(one.id, texts(one)) for one in listed.tasks] == [(task.id, ["one", "two"])]
    assert listed.total_size == 1


async def test_errors_have_the_reason_of_the_catalogue(remote: Remote) -> None:
    with pytest.raises(AgentError) as unknown:
        await remote.get_task("nowhere")
    assert unknown.value.reason is Reason.TASK_NOT_FOUND
    finished = (await remote.send("one two")).task
    with pytest.raises(AgentError) as late:
        await remote.cancel_task(finished.id)
    assert late.value.reason is Reason.TASK_NOT_CANCELABLE


async def test_push_configs_are_kept(remote: Remote) -> None:
    task = (await remote.send("a car")).task
    told = pb.TaskPushNotificationConfig(task_id=task.id, id="mine", url="https://example.com/hook", token="tok")
    made = await remote.create_push_config(told)
    assert (made.task_id, made.id, made.url) == (task.id, "mine", told.url)
    assert (await remote.get_push_config(task.id, "mine")).token == "tok"
    assert [config.id for config in (await remote.list_push_configs(task.id)).configs] == ["mine"]
    await remote.delete_push_config(task.id, "mine")
    assert not (await remote.list_push_configs(task.id)).configs


async def test_parts_arrive_and_come_back_as_they_were_sent(remote: Remote, way: Way) -> None:
    parts = [
        text_part("mirror"),
        data_part({"a": [1, "x"]}),
        file_part("https://example.com/x.csv", name="x.csv", media_type="text/csv"),
        file_part(b"\x00\x01", name="x.png", media_type="image/png"),
    ]
    *back, read = (await remote.send(parts)).task.artifacts[0].parts
    content = b"\x00\x01"
    if way.version == "0.3":
        parts[1].ClearField("media_type")  # which 0.3 does not have for data
        if way.binding != "JSONRPC":  # where this SDK drops the names of files, and takes base64 for their bytes
            content = b"AAE="
            for file in parts[2:]:
                file.ClearField("filename")
    assert back == parts
    assert read.text == content.hex()


async def test_a_send_that_does_not_wait(remote: Remote) -> None:
    answer = await remote.send("wait", configuration=pb.SendMessageConfiguration(return_immediately=True))
    assert answer.task.status.state in {pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING}
    assert (await remote.cancel_task(answer.task.id)).status.state == pb.TASK_STATE_CANCELED


async def test_an_extended_card_that_is_missing(remote: Remote) -> None:
    with pytest.raises(AgentError) as missing:
        await remote.get_extended_agent_card()
    assert missing.value.reason is Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED


async def test_a_stream_of_an_unknown_task(remote: Remote, way: Way) -> None:
    for stream in (remote.subscribe("nowhere"), remote.stream("more", task_id="nowhere")):
        with pytest.raises(AgentError) as unknown:
            await anext(stream)
        # Here this SDK makes a second error while it reports the first one.
        stumbles = (way.version, way.binding) == ("0.3", "HTTP+JSON")
        assert unknown.value.reason is (Reason.INTERNAL if stumbles else Reason.TASK_NOT_FOUND)
