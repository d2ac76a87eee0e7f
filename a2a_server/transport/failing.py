"""How calls fail: what leaves the server is an `A2AError` that tells a client what is meant for it (spec: ERRS-07)."""

from __future__ import annotations

import secrets
from typing import NoReturn

import structlog

from a2a_server.ports.store import StoreUnavailable
from a2a_server.protocol.errors import A2AError, Reason

log = structlog.get_logger(__name__)


def fail(rpc: str, error: Exception) -> NoReturn:
    """Pass on what was meant for the client; tell the log, and only the log, about anything else."""
    if isinstance(error, A2AError):
        if error.reason in (Reason.UNAUTHENTICATED, Reason.PERMISSION_DENIED):
            log.warning("call.denied", rpc=rpc, reason=error.reason.name)
        raise error
    if isinstance(error, StoreUnavailable):
        log.error("store.unavailable", rpc=rpc, exc_info=error)
        raise A2AError(Reason.UNAVAILABLE, "The store cannot serve now.", retry_after=1) from error
    incident = secrets.token_hex(8)
    log.error("call.failed", rpc=rpc, incident=incident, exc_info=error)
    raise A2AError(Reason.INTERNAL, "Internal error.", metadata={"incident": incident}) from error
