"""Executors answer over HTTP as on the SDK's own server, in 1.0 and in the 0.3 that it keeps for older clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from a2a_server import serving
from a2a_server.agents.executor import ExecutorAgent
from a2a_server.client import Remote, connect
from tests.bindings.actors import CANCELED, COMPLETED, INPUT, WORKING
from tests.support.executors import CARD, bare, sdk_serving_http
from tests.support.sample_executors import Sample
from tests.support.world import say

pytestmark = pytest.mark.req("AGNT-02")

every_way = pytest.mark.parametrize(
    ("binding", "version"),
    [(binding, version) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON")],
)


@asynccontextmanager
async def both(binding: str, version: str) -> AsyncIterator[tuple[Remote, Remote]]:
    """Connections to the SDK's server, and to ours."""
    way: Any = {"transports": [binding], "version": version}
    async with (
        sdk_serving_http(Sample()) as sdk,
        serving(ExecutorAgent(Sample(), CARD)) as own,
        connect(sdk, **way) as theirs,
        connect(f"http://{own.http}", **way) as ours,
    ):
        for side in (theirs, ours):
            assert (side.interface.protocol_binding, side.version) == (binding, version)
        yield theirs, ours


@every_way
@pytest.mark.parametrize("word", ["hello", "chunks", "picture", "several", "fail", "context"])
async def test_a_send_and_a_stream_are_answered_as_by_the_sdk(binding: str, version: str, word: str) -> None:
    async with both(binding, version) as sides:
        theirs, ours = [bare(await side.send(say(word))) for side in sides]
        assert ours == theirs
        theirs, ours = [[bare(item) async for item in side.stream(say(word))] for side in sides]
        assert ours == theirs


@every_way
async def test_a_question_is_answered(binding: str, version: str) -> None:
    async with both(binding, version) as sides:
        told = []
        for side in sides:
            asked = (await side.send(say("ask"))).task
            assert asked.status.state == INPUT
            answer = say("red", task_id=asked.id, context_id=asked.context_id, message_id="another")
            ended = (await side.send(answer)).task
            assert ended.status.state == COMPLETED
            told.append([bare(asked), bare(ended), bare(await side.get_task(asked.id))])
        theirs, ours = told
        assert ours == theirs


@every_way
async def test_a_cancel_has_the_executors_words(binding: str, version: str) -> None:
    async with both(binding, version) as sides:
        told = []
        for side in sides:
            stream = side.stream(say("wait"))
            task = (await anext(stream)).task
            assert (await anext(stream)).status_update.status.state == WORKING
            canceled = await side.cancel_task(task.id)
            assert (canceled.status.state, canceled.status.message.parts[0].text) == (CANCELED, "released")
            told.append([bare(canceled), *[bare(item) async for item in stream]])
        theirs, ours = told
        assert ours == theirs
