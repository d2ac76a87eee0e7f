"""Where protobuf has no compiled part, as on musl, all is slower and nothing else (spec: GEN-01)."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2a_proto import a2a_pb2 as pb
from tests.e2e.processes import serving
from tests.e2e.test_gateway import gateway
from tests.support.doors import DOORS, Door, client_of
from tests.support.stage import texts
from tests.support.world import say

SLOW = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}


@pytest.mark.req("GEN-01")
async def test_every_door_serves(tmp_path: Path) -> None:
    with (
        serving(cwd=tmp_path, **SLOW) as server,
        gateway("--upstream", server.address, cwd=tmp_path, **SLOW) as before,
    ):
        port = int(server.address.rpartition(":")[2])

        async def send(door: Door) -> pb.Task:
            base = before.url if door.endswith("-far") else server.http
            async with client_of(door, grpc_port=port, base=base.rstrip("/")) as client:
                task: pb.Task = (await client.stub.SendMessage(say("echo hello"))).task
                seen = [item async for item in client.stub.SendStreamingMessage(say("echo hello"))]
                assert seen[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
                return task

        for door in DOORS:
            task = await send(door)
            assert (task.status.state, texts(task)) == (pb.TASK_STATE_COMPLETED, ["echo hello"])
