"""URLs in messages are the agent's: the server itself fetches none, whatever door they came through (spec: SSRF-04)."""

from __future__ import annotations

import asyncio

import pytest

from a2a_proto import a2a_pb2 as pb
from tests.bindings.test_push_delivery import QUIET, delivering, inline, received
from tests.support.receivers import receiver
from tests.support.stage import Stage
from tests.support.world import say, serving

__all__ = ["serving"]  # by which the tests here go through every door

MODES = ("text/plain", "image/png", "application/json")


@pytest.mark.req("SSRF-04")
async def test_no_url_of_a_message_is_fetched() -> None:
    """Even where webhooks may go to this machine; one that does shows that a fetch would have been seen."""
    async with receiver() as bait, receiver() as client, delivering(Stage(default_input_modes=MODES)) as world:
        request = say(skill="echo", configuration=inline(client))
        part = request.message.parts.add(url=f"{bait.url}/part", filename="a.png", media_type="image/png")
        part.metadata["url"] = f"{bait.url}/part-metadata"
        request.message.parts.add().data.struct_value["$ref"] = f"{bait.url}/data"
        request.message.metadata["schema"] = f"{bait.url}/metadata"
        request.message.extensions.append(f"{bait.url}/extension")
        request.metadata["callback"] = f"{bait.url}/callback"
        task = await world.send(request)
        assert task.status.state == pb.TASK_STATE_COMPLETED
        await world.get(task.id)
        await received(client, 4)
        await asyncio.sleep(QUIET)
        assert bait.received == []
