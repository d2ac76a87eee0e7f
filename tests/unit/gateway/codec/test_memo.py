"""What was written before is not written again, and what is kept is bounded."""

import gc
import sys
import tracemalloc
from collections.abc import Callable

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, Dialect, Memo, loads
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.json_v1 import V1
from tests.support.effort import effort

TASK = pb.Task(
    id="t",
    status={"state": pb.TASK_STATE_COMPLETED},
    history=[pb.Message(message_id="m", role=pb.ROLE_USER, parts=[{"text": "x"}])],
    artifacts=[pb.Artifact(artifact_id="a", parts=[{"text": "y"}, {"raw": b"z"}])],
    metadata={"a": [1, {"b": None}]},
)


SMALLEST = sys.getsizeof(object())
STEPS = effort(2000, everything=5000)


def test_an_event_is_encoded_once() -> None:
    codec, wire = Codec(Dialect()), TASK.SerializeToString()
    first = codec.encode_wire(pb.Task, wire)
    assert first == V1.encode(TASK)
    assert codec.encode_wire(pb.Task, bytes(bytearray(wire))) is first
    assert codec.encode_kept(pb.Task.FromString(wire)) is first


def test_an_answer_that_was_read_before_is_the_same_text() -> None:
    codec = Codec(Dialect())
    first = codec.encode_kept(TASK)
    assert first == V1.encode(TASK)
    assert codec.encode_kept(TASK) is first
    assert codec.encode_kept(pb.Task(id="other")) == V1.encode(pb.Task(id="other"))


def test_the_same_bytes_may_be_messages_of_several_kinds() -> None:
    codec, wire = Codec(Dialect()), pb.GetTaskRequest(tenant="a", id="b").SerializeToString()
    assert codec.encode_wire(pb.GetTaskRequest, wire) == b'{"tenant":"a","id":"b"}'
    assert codec.encode_wire(pb.CancelTaskRequest, wire) == b'{"tenant":"a","id":"b"}'
    assert codec.encode_wire(pb.StringList, wire[:3]) == b'{"list":["a"]}'


def test_bytes_that_are_no_message_are_an_error_of_the_answer() -> None:
    with pytest.raises(A2AError, match="it is no Task") as caught:
        V1.encode_wire(pb.Task, b"\xff")
    assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE


def test_what_was_not_asked_for_longest_is_forgotten_first() -> None:
    memo = Memo(8 * 500)
    keys = [(pb.Task, bytes([number]) * 100) for number in range(9)]
    for key in keys[:8]:
        memo.put(key, b"x" * 100)
    assert memo.get(keys[0]) == b"x" * 100
    memo.put(keys[8], b"y" * 100)
    assert memo.get(keys[1]) is None
    assert memo.get(keys[0]) == b"x" * 100
    assert memo.get(keys[8]) == b"y" * 100


def test_the_room_is_never_exceeded() -> None:
    memo = Memo(10_000)
    for number in range(1000):
        memo.put((pb.Task, b"%d" % (number % 300)), b"x" * (number % 700))
        assert 0 < memo.size <= 10_000
    memo.put((pb.Task, b"large"), b"x" * 2_000)
    assert memo.get((pb.Task, b"large")) is None


def test_an_entry_put_twice_counts_once() -> None:
    memo = Memo(10_000)
    memo.put((pb.Task, b"a"), b"x" * 10)
    before = memo.size
    memo.put((pb.Task, b"a"), b"x" * 10)
    assert memo.size == before


@pytest.mark.parametrize(
    "step",
    [
        lambda: V1.decode(loads(V1.encode(TASK)), pb.Task),
        lambda: V1.encode_wire(pb.Task, TASK.SerializeToString()),
        lambda: refused({"history": [{"parts": 1, "metadata": {"a": 1}}] * 5, "id": "t", "nonsense": 1}),
    ],
    ids=["round trip", "memo", "refusal"],
)
def test_nothing_is_left_behind(step: Callable[[], object]) -> None:
    def steps(count: int) -> int:
        for _ in range(count):
            step()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = steps(500)
        grown = steps(STEPS) - before
    finally:
        tracemalloc.stop()
    assert grown < STEPS * SMALLEST / 2  # Python itself keeps some memory for the next objects


def refused(value: object) -> None:
    with pytest.raises(A2AError):
        V1.decode(value, pb.Task)
