"""A server comes back that was stopped for too long: nothing is wrong, unless fencing is off, as the checker finds."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from tests.faults.cluster.checker import check
from tests.faults.cluster.fleet import AGENT, Fleet, Member, sql, watch
from tests.faults.cluster.history import History, Sent
from tests.faults.cluster.load import Load
from tests.faults.cluster.scene import Scene
from tests.support.world import say

BACK = """SELECT count(*) > 0 FROM audit.writes
WHERE epoch < (SELECT max(epoch) FROM audit.writes AS w WHERE w.place < writes.place)"""
"""Whether somebody has written in an epoch that is over."""
UNFENCED = Path(__file__).with_name("unfenced.py")


@pytest.mark.req("DURA-03", "SCAL-04", "SCAL-06")
@pytest.mark.source
@pytest.mark.long
@pytest.mark.parametrize("agent", [AGENT, UNFENCED], ids=["fenced", "unfenced"])
async def test_a_server_that_comes_back_late(own_postgres: str, tmp_path: Path, agent: Path) -> None:
    await watch(own_postgres)
    dice, history = random.Random(1), History(sent=[Sent("m-1", restartable=True)])
    fleet = Fleet(own_postgres, tmp_path, agent=agent)
    scene = Scene(own_postgres, tmp_path, fleet, history, Load(fleet, history, dice), dice)
    try:
        await fleet.open(2)
        request = say("go", skill="drip", configuration={"return_immediately": True})
        task = await _sent(fleet.members[0], request)
        late = await scene.at_work()
        async with fleet.paused(late):
            await _comes_to(own_postgres, "SELECT count(*) = 2 FROM (SELECT DISTINCT epoch FROM audit.writes) AS w")
        if agent == UNFENCED:
            await _comes_to(own_postgres, BACK)
        else:
            (tmp_path / "gate").touch()
            await _comes_to(own_postgres, "SELECT count(*) = 0 FROM a2ad.turns")
        await scene.collect()
    finally:
        await fleet.close()
    findings = check(history)
    if agent == UNFENCED:
        assert any(found.startswith(f"{task.id}: epoch 1, number ") for found in findings), findings
    else:
        assert findings == []
        assert history.resting[task.id].state == pb.TASK_STATE_COMPLETED


async def _sent(member: Member, request: pb.SendMessageRequest) -> pb.Task:
    """A server without a session refuses, until it has one."""
    async with asyncio.timeout(60):
        while True:
            try:
                task: pb.Task = (await member.stub.SendMessage(request)).task
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                await asyncio.sleep(0.1)
            else:
                return task


async def _comes_to(dsn: str, question: str) -> None:
    async with asyncio.timeout(60):
        while not (await sql(dsn, question))[0][0]:  # noqa: ASYNC110 - as an operator looks
            await asyncio.sleep(0.05)
