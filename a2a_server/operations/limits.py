"""The bounds of what can grow while agents run and readers follow (spec: AGNT-04, AGNT-05, RPLY-06, TIMO-01)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times are seconds; 0 means without end where a time limit says so."""

    running_turns: int = 256
    """Turns running at once."""
    running_turns_per_caller: int = 64
    """Turns of one authenticated caller running at once; those beyond wait."""
    waiting_turns: int = 10_000
    """Turns waiting in SUBMITTED; beyond that a send is refused as OVERLOADED."""
    waiting_messages: int = 16
    """Messages that may wait for the running turn of one task."""
    turn_timeout: float = 3600.0
    """How long one turn may run; 0 = without end."""
    cancel_grace: float = 5.0
    """How long a canceled agent may clean up before the cancel is refused as TASK_NOT_CANCELABLE."""
    input_timeout: float = 0.0
    """How long a task may wait in INPUT_REQUIRED; 0 = without end."""
    drain_grace: float = 10.0
    """How long running turns may go on after the server was told to stop."""
    pending_events: int = 256
    """Events of one turn that may wait for the disk; then the agent waits."""
    stream_lag: int = 10_000
    """Events a reader may fall behind before it is cut."""
    history_cap: int = 1_000
    """Messages of history returned when the client sets no limit."""
    idempotency_window: float = 0.0
    """How long a repeated send is recognised by its `messageId`; 0 = only by an explicit key."""
    idempotency_key_window: float = 86_400.0
    """How long an explicit idempotency key is remembered."""
    reference_tasks: int = 16
    """Tasks of `referenceTaskIds` handed to the agent."""
    accept_unknown_contexts: bool = True
    """Whether a client may choose a context id that it has no task in yet."""
