"""What is recorded of calls: the access log, and the audit (spec: OPER-08, SECR-01, GATE-04)."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol


class CallRecord(NamedTuple):
    """One call, without any content."""

    rpc: str
    door: str
    version: str
    caller: str
    """The owner; empty for anonymous callers, and in a gateway that runs alone, which does not know it."""
    tenant: str
    peer: str
    outcome: str
    """OK, the reason of the error, or CANCELLED if the client did not wait for the end."""
    seconds: float
    events: int | None = None
    """How many events a stream had; None for a unary call."""
    trace: str = ""
    """The caller's `traceparent`."""
    request_id: str = ""


class AccessLog(Protocol):
    """Keeps records of calls."""

    def ended(self, call: CallRecord) -> None:
        """Take a record. This neither waits nor raises."""
        ...


class AuditKind(StrEnum):
    """All kinds of events; docs/operating.md has the table."""

    CALL_DENIED = "call.denied"
    TASK_CREATED = "task.created"
    TASK_CANCELED = "task.canceled"
    CONFIG_CREATED = "push_config.created"
    CONFIG_DELETED = "push_config.deleted"
    KEY_CREATED = "key.created"
    KEY_REVOKED = "key.revoked"
    DATA_DELETED = "data.deleted"
    COMMAND_RUN = "command.run"
    TASK_FLOOD = "pattern.tasks"
    MASS_CANCEL = "pattern.cancels"


class AuditEvent(NamedTuple):
    """One fact. It has ids and names, and neither contents nor secrets."""

    kind: AuditKind
    owner: str = ""
    """Who called, or whose key or data it is; empty if that is not known."""
    tenant: str = ""
    peer: str = ""
    """The address that the call came from."""
    door: str = ""
    rpc: str = ""
    """The RPC, or the command."""
    reason: str = ""
    task_id: str = ""
    context_id: str = ""
    config_id: str = ""
    key_id: str = ""
    actor: str = ""
    """The account on this machine that ran a command."""
    times: int = 1
    """How often it happened, or how much it concerned."""


class Audit(Protocol):
    """Keeps audit events."""

    @property
    def wants_creations(self) -> bool:
        """Whether to tell it of every new task, which is the one kind that is frequent."""
        ...

    def tell(self, event: AuditEvent) -> None:
        """Take an event. This neither waits nor raises, whatever becomes of the event."""
        ...
