"""Ends a turn whose agent failed, broke the protocol, or refused the message (spec: EXEC-06, AGNT-12)."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import structlog

from a2a_server.ports.agent import InvalidAgentResponse, Refusal
from a2a_server.protocol.errors import Reason

if TYPE_CHECKING:
    from a2a_server.operations.turns.live_task import LiveTask

logger = structlog.get_logger()

_FAILED_TEXT = "The agent failed while working on this task."
_WITHHELD_TEXT = "how is not told, because the turn knows the answer to a sensitive request"


def failed(live: LiveTask, error: BaseException) -> None:
    """End the turn with the exception of the agent."""
    if isinstance(error, Refusal):
        _refused(live, error)
    elif isinstance(error, InvalidAgentResponse):
        broke_protocol(live, _WITHHELD_TEXT if live.knows_secret else str(error))
    else:
        _log_failure(live.task_id, error, knows_secret=live.knows_secret)
        live.fail(_FAILED_TEXT, "AGENT_FAILED")


def canceled_itself(live: LiveTask) -> None:
    """Fail the turn because the agent raised CancelledError without a cancel."""
    if live.cancel_metadata is None:
        logger.warning("agent.failed", task_id=live.task_id, why="the agent canceled itself")
        live.fail(_FAILED_TEXT, "AGENT_FAILED")


def broke_protocol(live: LiveTask, why: str) -> None:
    logger.warning("agent.invalid_response", task_id=live.task_id, why=why)
    live.fail(f"The agent broke the protocol: {why}.", Reason.INVALID_AGENT_RESPONSE.name)


def _refused(live: LiveTask, refusal: Refusal) -> None:
    """Answer with the refusal if nothing of the message is stored yet. Otherwise the task fails with it."""
    if live.direct is None or live.exists or live.cancel_metadata is not None:
        logger.warning("agent.refused_late", task_id=live.task_id, why="the task has the message already")
        live.fail(refusal.message, refusal.reason.name)
    else:
        live.direct.refuse(refusal)


def _log_failure(task_id: str, error: BaseException, *, knows_secret: bool) -> None:
    """Log the traceback. If the agent knows a secret, log only the lines of code, without the error's text."""
    if not knows_secret:
        logger.error("agent.failed", task_id=task_id, exc_info=error)
        return
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    logger.error("agent.failed", task_id=task_id, error=type(error).__name__, frames=frames)
