"""What of a task is shown."""

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.reducer import trim


def task(messages: int = 5) -> pb.Task:
    history = [pb.Message(message_id=str(number)) for number in range(messages)]
    return pb.Task(id="t", history=history, artifacts=[pb.Artifact(artifact_id="a")])


@pytest.mark.parametrize(
    ("wish", "cap", "shown"),
    [
        pytest.param(None, 9, "01234", marks=pytest.mark.req("HIST-01"), id="no-wish-shows-all"),
        pytest.param(None, 2, "34", marks=pytest.mark.req("HIST-01"), id="no-wish-up-to-the-cap"),
        pytest.param(0, 9, "", marks=pytest.mark.req("HIST-02"), id="zero-shows-none"),
        pytest.param(1, 9, "4", marks=pytest.mark.req("HIST-03"), id="one-shows-the-newest"),
        pytest.param(3, 9, "234", marks=pytest.mark.req("HIST-03"), id="three-newest-in-order"),
        pytest.param(5, 9, "01234", marks=pytest.mark.req("HIST-03"), id="exactly-all"),
        pytest.param(2**31 - 1, 9, "01234", marks=pytest.mark.req("HIST-03"), id="more-than-there-are"),
        pytest.param(4, 2, "1234", id="a-wish-beats-the-cap"),
    ],
)
def test_history(wish: int | None, cap: int, shown: str) -> None:
    given = task()
    assert trim(given, wish, cap=cap) is given
    assert "".join(message.message_id for message in given.history) == shown
    assert len(given.artifacts) == 1


def test_artifacts_can_be_left_out() -> None:
    assert trim(task(), None, include_artifacts=False, cap=9).artifacts == []
