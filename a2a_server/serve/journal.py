"""What a process writes down: the audit, and the access log (spec: GATE-04, OPER-08)."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import structlog

from a2a_server.adapters.journal import AccessLines, AuditLog, LineFile
from a2a_server.ports.journal import AccessLog, Audit, AuditEvent, AuditKind
from a2a_server.protocol.errors import Reason
from a2a_server.settings import Log
from a2a_server.settings.model import AuditOptions
from a2a_server.transport.address import StartError

log = structlog.get_logger(__name__)


@contextmanager
def access_log(settings: Log, worker: int = 0) -> Iterator[AccessLog | None]:
    """Yield the access log, if it is switched on."""
    if not settings.access:
        yield None
        return
    lines = AccessLines(sys.stderr, worker)
    try:
        yield lines
    finally:
        lines.flush()


@asynccontextmanager
async def auditing(options: AuditOptions) -> AsyncIterator[Audit | None]:
    """Yield the audit of a server, which writes until the end; None if it is switched off."""
    audit = audit_of(options)
    if audit is None:
        yield None
        return
    if options.path:
        _survive_hangup()
    stop = asyncio.Event()
    writing = asyncio.create_task(audit.run(stop), name="audit")
    try:
        yield audit
    finally:
        stop.set()
        await asyncio.wait([writing])
        audit.close()


def _survive_hangup() -> None:
    """Let SIGHUP, which tools send when they have rotated a file, not end the process. The file is checked anyway."""
    with suppress(ValueError, RuntimeError):  # a loop in another thread
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, log.info, "audit.hangup")


def audit_of(options: AuditOptions) -> AuditLog | None:
    if options.to == "none":
        return None
    try:
        file = LineFile(options.path) if options.path else None
    except OSError as error:
        raise StartError(f"audit.to: the file {options.path!r} cannot be opened: {error.strerror}") from None
    return AuditLog(
        file,
        everything=options.to != "denials",
        tasks=options.tasks_per_minute,
        cancels=options.cancels_per_minute,
    )


@contextmanager
def auditing_command(options: AuditOptions, command: str) -> Iterator[Callable[[AuditEvent], None]]:
    """Yield a function that takes the audit events of a command, and adds who ran it.

    A command whose audit cannot be written changes nothing.
    """
    audit = audit_of(options)
    if audit is None:
        yield lambda _: None
        return
    try:
        yield lambda event: audit.tell(event._replace(rpc=command, actor=_account()))
    finally:
        audit.close()


def tell_of_origin(audit: Audit, peer: str, reason: Reason) -> None:
    """Report a request over HTTP that was refused for its origin or host, before the caller was known."""
    audit.tell(AuditEvent(AuditKind.CALL_DENIED, peer=peer, door="http", reason=reason.name))


def _account() -> str:
    """The name, or the number, of the account that runs this process."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
