"""Streams, tasks and answers."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.domain.free_form import too_deep
from a2a_server.protocol.v0_3 import messages

Json = dict[str, Any]

SAID = {"messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_AGENT"}
MESSAGE, LEGACY_MESSAGE = SAID | {"parts": [{"text": "hi"}]}, SAID | {"content": [{"text": "hi"}]}
STATUS = {"state": "TASK_STATE_WORKING", "timestamp": "2025-01-02T03:04:05.678Z"}
PIECE = {"artifactId": "a", "name": "n", "description": "d", "extensions": ["x:y"], "metadata": {"k": "v"}}
ARTIFACT = PIECE | {"parts": [{"text": "hi", "filename": "f"}]}
LEGACY_ARTIFACT = PIECE | {"parts": [{"text": "hi", "metadata": {"x-a2a-compat": {"filename": "f"}}}]}
TASK = {"id": "t", "contextId": "c", "metadata": {"k": "v"}}


def down(item: Json, *, last: bool = False) -> Json:
    return MessageToDict(messages.downgrade_item(ParseDict(item, pb.StreamResponse()), raw_files=False, last=last))


@pytest.mark.parametrize(
    ("item", "legacy"),
    [
        pytest.param({"message": MESSAGE}, {"message": LEGACY_MESSAGE}, id="message"),
        pytest.param(
            {"task": TASK | {"status": STATUS | {"message": MESSAGE}, "history": [MESSAGE], "artifacts": [ARTIFACT]}},
            {
                "task": TASK
                | {
                    "status": STATUS | {"message": LEGACY_MESSAGE},
                    "history": [LEGACY_MESSAGE],
                    "artifacts": [LEGACY_ARTIFACT],
                }
            },
            id="task",
        ),
        pytest.param(
            {"statusUpdate": {"taskId": "t", "contextId": "c", "status": STATUS, "metadata": {"k": "v"}}},
            {"statusUpdate": {"taskId": "t", "contextId": "c", "status": STATUS, "metadata": {"k": "v"}}},
            id="status-update",
        ),
        pytest.param(
            {"artifactUpdate": {"taskId": "t", "artifact": ARTIFACT, "append": True, "metadata": {"k": "v"}}},
            {"artifactUpdate": {"taskId": "t", "artifact": LEGACY_ARTIFACT, "append": True, "metadata": {"k": "v"}}},
            id="artifact-update",
        ),
        pytest.param({"artifactUpdate": {"lastChunk": True}}, {"artifactUpdate": {"lastChunk": True}}, id="last-chunk"),
        pytest.param(
            {"artifactUpdate": {"artifact": {"artifactId": "a"}}},
            {"artifactUpdate": {"artifact": {"artifactId": "a"}}},
            id="an-empty-artifact",
        ),
        pytest.param({"statusUpdate": {}}, {"statusUpdate": {}}, id="an-empty-update"),
        pytest.param({}, {}, id="nothing"),
    ],
)
@pytest.mark.req("LMAP-02")
def test_the_same_in_both(item: Json, legacy: Json) -> None:
    assert down(item) == legacy


@pytest.mark.parametrize("state", ["TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING"])
def test_final_is_what_the_caller_says_whatever_the_state(state: str) -> None:
    item = {"statusUpdate": {"taskId": "t", "status": {"state": state}}}
    assert down(item, last=True)["statusUpdate"]["final"] is True
    assert "final" not in down(item)["statusUpdate"]


def test_only_status_updates_are_final() -> None:
    assert down({"task": TASK}, last=True) == {"task": TASK}
    assert down({"message": SAID}, last=True) == {"message": SAID}
    assert down({"artifactUpdate": {"taskId": "t"}}, last=True) == {"artifactUpdate": {"taskId": "t"}}


@pytest.mark.parametrize(("state", "legacy"), [*zip(pb.TaskState.keys(), v03.TaskState.keys(), strict=True)])
def test_states_differ_in_one_letter(state: str, legacy: str) -> None:
    task = messages.downgrade_task(pb.Task(status=pb.TaskStatus(state=state)), raw_files=False)
    assert task.status.state == v03.TaskState.Value(legacy)
    assert legacy == state.replace("CANCELED", "CANCELLED")


def test_numbers_that_only_the_other_side_knows_are_unspecified_in_answers() -> None:
    task = ParseDict({"status": {"state": 99, "message": {"role": 99}}}, pb.Task())
    assert MessageToDict(messages.downgrade_task(task, raw_files=False)) == {"status": {"message": {}}}


@pytest.mark.parametrize(
    ("answer", "legacy"),
    [({"task": TASK}, {"task": TASK}), ({"message": MESSAGE}, {"message": LEGACY_MESSAGE}), ({}, {})],
)
def test_answers_of_sends(answer: Json, legacy: Json) -> None:
    told = messages.downgrade_answer(ParseDict(answer, pb.SendMessageResponse()), raw_files=False)
    assert MessageToDict(told) == legacy


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_the_deepest_data_that_is_accepted_can_be_read_in_0_3(wrap: Any) -> None:
    part, value = pb.Part(), None
    while not too_deep(ParseDict({"data": value}, pb.Part()).data):
        part, value = ParseDict({"data": value}, pb.Part()), wrap(value)
    status = pb.TaskStatus(message=pb.Message(parts=[part]))
    legacy = messages.downgrade_item(pb.StreamResponse(task=pb.Task(status=status)), raw_files=False, last=False)
    assert v03.StreamResponse.FromString(legacy.SerializeToString()) == legacy
