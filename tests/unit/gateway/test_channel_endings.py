"""Which items of a channel's stream are taken for its last one (spec: CONF-06, CONF-11)."""

from typing import Any

import pytest

from a2a_server.domain import events
from a2a_server.errors import A2AError
from gateway.channel.endings import IN_BAND_KEY, Endings, alone
from gateway.channel.replay import Item
from generated import a2a_pb2 as pb


def status(state: pb.TaskState, **metadata: Any) -> Item:
    update = pb.TaskStatusUpdateEvent(task_id="t", status=pb.TaskStatus(state=state))
    update.metadata.update(metadata)
    return Item(7, pb.StreamResponse(status_update=update).SerializeToString())


@pytest.mark.req("LRPC-05")
@pytest.mark.parametrize("keep_open", [False, True])
@pytest.mark.parametrize("state", pb.TaskState.values())
@pytest.mark.parametrize("metadata", [{}, {"inBand": True}, {"inBand": False}, {"inBand": "yes"}])
def test_it_is_as_the_server_itself_ends_streams(
    state: pb.TaskState,
    metadata: dict[str, Any],
    keep_open: bool,  # noqa: FBT001 - a parameter
) -> None:
    item = status(state, **metadata)
    batch = Endings(keep_open_on_input=keep_open)(item)
    event = pb.StreamResponse.FromString(item.wire)
    assert list(batch) == [item]
    assert getattr(batch, "ends", False) == events.closes_stream(event, keep_open_on_input=keep_open)


def test_it_knows_the_servers_mark() -> None:
    assert IN_BAND_KEY == events.IN_BAND_KEY


@pytest.mark.parametrize(
    "item",
    [
        pb.StreamResponse(task=pb.Task(id="t", status=pb.TaskStatus(state=pb.TASK_STATE_COMPLETED))),
        pb.StreamResponse(message=pb.Message(message_id="m")),
        pb.StreamResponse(artifact_update=pb.TaskArtifactUpdateEvent(task_id="t", last_chunk=True)),
        pb.StreamResponse(),
    ],
)
def test_what_has_no_place_for_it_is_not_looked_at(item: pb.StreamResponse) -> None:
    batch = Endings(keep_open_on_input=False)(Item(1, item.SerializeToString()))
    assert type(batch) is tuple


def test_who_cannot_tell_the_difference_is_spared_it() -> None:
    batch = alone(status(pb.TASK_STATE_COMPLETED))
    assert type(batch) is tuple


def test_what_is_no_event_is_the_upstreams_fault() -> None:
    with pytest.raises(A2AError) as caught:
        Endings(keep_open_on_input=False)(Item(0, status(pb.TASK_STATE_COMPLETED).wire[:-1]))
    assert "well-formed lf.a2a.v1.StreamResponse" in caught.value.message
