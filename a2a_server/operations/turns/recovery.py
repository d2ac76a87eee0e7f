"""What a dead process left behind is settled before the doors open (spec: DURA-02)."""

from __future__ import annotations

import structlog

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.input_requests import request_in
from a2a_server.domain.lifecycle import ACTIVE, AUTH, INTERRUPTED
from a2a_server.operations.turns.job import Job, recover
from a2a_server.operations.turns.runs import Runs
from a2a_server.operations.turns.unattended import Unattended
from a2a_server.ports.store import Claimed, StoredTask

logger = structlog.get_logger()

_MOST = 1_000_000
_AT_WORK = ACTIVE | {AUTH}
"""Where a turn may be under way: one that waits for a credential from elsewhere does so in AUTH_REQUIRED (INTR-07)."""
_TEXT = "The server was interrupted while the agent was working on this task. Send the message again to start over."


async def settle_interrupted(runs: Runs) -> None:
    """Run restartable turns again from their checkpoint; mark every other active task FAILED.

    A turn that was given what is not kept is not run again: its task asks anew (XTRA-04).
    """
    shop = runs.shop
    now = shop.clock.now_ms()
    # Nobody else can use a store that is not shared: whoever holds a lease there is dead, however fresh it is.
    lapsed = now if shop.store.shared else 1 << 62
    for claimed in await shop.store.claim(shop.lease(), lapsed, _MOST):
        record = await shop.store.load(claimed.scope, claimed.task_id)
        if record is not None:
            await _settle(runs, claimed, record)


async def _settle(runs: Runs, claimed: Claimed, record: StoredTask) -> None:
    jobs = [recover(claimed.scope, turn) for turn in claimed.turns]
    first, waiting = jobs[0], jobs[1:]
    for job in waiting:
        job.rerun, job.after = False, None
    state = record.task.status.state
    if state in _AT_WORK and runs.shop.agent.plan(first.request, record.state).restartable:
        await _rerun(runs, claimed, record, jobs)
    elif state in INTERRUPTED and waiting:
        await _go_on(runs, claimed, record, waiting)
    elif state in ACTIVE:
        await _fail(runs, claimed, record, first)
    else:
        await Unattended(runs.shop, claimed.scope, record).end(claimed.turns)


async def _go_on(runs: Runs, claimed: Claimed, record: StoredTask, jobs: list[Job]) -> None:
    """The turn that asked was as good as over; the message behind it is the answer, and nobody has begun on it."""
    await Unattended(runs.shop, claimed.scope, record).end(claimed.turns[:1])
    if (ended := await runs.shop.store.load(claimed.scope, claimed.task_id)) is not None:
        await _rerun(runs, claimed, ended, jobs)


async def _rerun(runs: Runs, claimed: Claimed, record: StoredTask, jobs: list[Job]) -> None:
    if jobs[0].kept is not None:
        return await _ask_again(runs, claimed, record, jobs[0])
    if lost := {job.number for job in jobs if job.kept is not None}:  # the turn that asked for them asks again
        await Unattended(runs.shop, claimed.scope, record).end([turn for turn in claimed.turns if turn.number in lost])
        record = await runs.shop.store.load(claimed.scope, claimed.task_id) or record  # what was written is used up
    logger.info("task.rerun", task_id=claimed.task_id)
    left = [job for job in jobs if job.number not in lost]
    for job in left:
        job.references = await runs.references(job.call, job.request.message)
    return runs.rerun(claimed.scope, record, left)


async def _ask_again(runs: Runs, claimed: Claimed, record: StoredTask, job: Job) -> None:
    """The answer to a sensitive request was not kept, so that no turn can go on with it: its client is asked anew."""
    status = record.task.status
    if status.state in INTERRUPTED and status.HasField("message"):  # the agent has asked for something else since
        return await Unattended(runs.shop, claimed.scope, record).end(claimed.turns)
    question = next((message for message in reversed(record.task.history) if request_in(message)), None)
    if question is None:
        return await _fail(runs, claimed, record, job)
    logger.info("task.asked_again", task_id=claimed.task_id)
    task = Unattended(runs.shop, claimed.scope, record, job.call.trace)
    return await task.ask_again(question, ends=claimed.turns)


async def _fail(runs: Runs, claimed: Claimed, record: StoredTask, job: Job) -> None:
    logger.warning("task.interrupted", task_id=claimed.task_id)
    task = Unattended(runs.shop, claimed.scope, record, job.call.trace)
    await task.move(pb.TASK_STATE_FAILED, _TEXT, {"reason": "SERVER_INTERRUPTED"}, ends=claimed.turns)
