"""The bounds of what can grow while agents run and readers follow (spec: AGNT-04, AGNT-05, RPLY-06, TIMO-01)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times are seconds."""

    running_turns: int = 256
    """How many turns may run at once."""
    running_turns_per_caller: int = 64
    """How many turns of one authenticated caller may run at once. Further ones wait."""
    waiting_turns: int = 10_000
    """How many turns may wait in SUBMITTED. Further sends are refused as OVERLOADED, unless their owner has fewer
    waiting than an equal part of these."""
    waiting_messages: int = 16
    """How many messages may wait for the running turn of one task."""
    turn_timeout: float = 3600.0
    """How long one turn may run; 0 = no limit."""
    cancel_grace: float = 5.0
    """How long an agent may clean up after a cancel. After that the cancel is refused as TASK_NOT_CANCELABLE."""
    input_timeout: float = 0.0
    """How long a task may wait in INPUT_REQUIRED; 0 = no limit."""
    drain_grace: float = 10.0
    """How long running turns may go on after the server was told to stop."""
    pending_events: int = 256
    """How many events of one turn may wait to be written to disk. Then the agent waits."""
    stream_lag: int = 10_000
    """How many events a reader may fall behind before its stream is cut."""
    history_cap: int = 1_000
    """How many messages of history are returned when the client sets no limit."""
    page_bytes: int = 3 * 2**20
    """How much may be stored of the tasks on one page of `ListTasks` together; a larger task is a page of its own."""
    idempotency_window: float = 0.0
    """How long a repeated send is recognised by its `messageId`; 0 = only by an idempotency key."""
    idempotency_key_window: float = 86_400.0
    """How long an idempotency key is remembered."""
    reference_tasks: int = 16
    """How many tasks of `referenceTaskIds` the agent is given."""
    accept_unknown_contexts: bool = True
    """Whether a client may use a context id in which it has no task yet."""
