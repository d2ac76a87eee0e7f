"""How the failure of an agent is logged (spec: SEND-12, XTRA-04)."""

from __future__ import annotations

import traceback

import structlog

logger = structlog.get_logger()


def log_failure(task_id: str, error: BaseException, *, discreet: bool) -> None:
    """With its traceback; where the agent knows what nobody may read, only with the places that lead to it."""
    if not discreet:
        logger.error("agent.failed", task_id=task_id, exc_info=error)
        return
    frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    logger.error("agent.failed", task_id=task_id, error=type(error).__name__, frames=frames)
