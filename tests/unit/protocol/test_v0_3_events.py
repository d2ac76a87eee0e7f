"""Streams, tasks and answers."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.domain.free_form import too_deep
from a2a_server.protocol.v0_3 import messages


@pytest.mark.parametrize(("state", "legacy"), [*zip(pb.TaskState.keys(), v03.TaskState.keys(), strict=True)])
def test_states_differ_in_one_letter(state: str, legacy: str) -> None:
    task = messages.downgrade_task(pb.Task(status=pb.TaskStatus(state=state)), raw_files=False)
    assert task.status.state == v03.TaskState.Value(legacy)
    assert legacy == state.replace("CANCELED", "CANCELLED")


def test_numbers_that_only_the_other_side_knows_are_unspecified_in_answers() -> None:
    task = ParseDict({"status": {"state": 99, "message": {"role": 99}}}, pb.Task())
    assert MessageToDict(messages.downgrade_task(task, raw_files=False)) == {"status": {"message": {}}}


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_the_deepest_data_that_is_accepted_can_be_read_in_0_3(wrap: Any) -> None:
    part, value = pb.Part(), None
    while not too_deep(ParseDict({"data": value}, pb.Part()).data):
        part, value = ParseDict({"data": value}, pb.Part()), wrap(value)
    status = pb.TaskStatus(message=pb.Message(parts=[part]))
    legacy = messages.downgrade_item(pb.StreamResponse(task=pb.Task(status=status)), raw_files=False, last=False)
    assert v03.StreamResponse.FromString(legacy.SerializeToString()) == legacy
