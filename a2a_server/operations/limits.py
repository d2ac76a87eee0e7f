"""The limits on what can grow while agents run and clients read (spec: AGNT-04, AGNT-05, RPLY-06, TIMO-01)."""

from __future__ import annotations

from dataclasses import dataclass

from a2a_server.protocol.options import Bound, Count, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times are seconds."""

    running_turns: Count = 256
    """How many turns may run at once."""
    running_turns_per_caller: Count = 64
    """How many turns of one authenticated caller may run at once. Further ones wait."""
    waiting_turns: Count = 10_000
    """How many turns may wait in SUBMITTED. Further sends are refused as OVERLOADED, unless their owner has fewer
    waiting than an equal part of these."""
    waiting_messages: Count = 16
    """How many messages may wait for the running turn of one task."""
    turn_timeout: Span = 3600.0
    """How long one turn may run; 0 = no limit."""
    cancel_grace: Span = 5.0
    """How long an agent may clean up after a cancel. After that the cancel is refused as TASK_NOT_CANCELABLE."""
    input_timeout: Span = 0.0
    """How long a task may wait in INPUT_REQUIRED; 0 = no limit."""
    drain_grace: Span = 10.0
    """How long running turns may go on after the server was told to stop."""
    drain_delay: Span = 0.0
    """How long a server or gateway that was told to stop still takes new calls, while it says that it is not ready.
    Behind a load balancer, this should be longer than the balancer needs to notice. `drain_grace` begins afterwards."""
    pending_events: Count = 256
    """How many events of one turn may wait to be written to disk. Then the agent waits."""
    tasks_per_owner: Bound = 10_000_000
    """How many tasks of one owner may be stored; 0 = no bound. Further ones are refused as QUOTA_EXCEEDED."""
    bytes_per_owner: Bound = 16 * 2**30
    """How many bytes of one owner may be stored: of tasks, logs, artifacts, push configs and saved states. 0 = no
    bound. Further messages are refused as QUOTA_EXCEEDED. Turns that run go on."""
    bytes_per_task: Bound = 256 * 2**20
    """How large the log of one task may become; 0 = no bound. A turn that writes more fails."""
    stream_lag: Count = 10_000
    """How many events a reader may fall behind before its stream is cut."""
    history_cap: Count = 1_000
    """How many messages of history are returned when the client sets no limit."""
    page_bytes: Count = 3 * 2**20
    """How much may be stored of the tasks on one page of `ListTasks` together; a larger task is a page of its own."""
    idempotency_window: Span = 0.0
    """How long a repeated send is recognised by its `messageId`; 0 = only by an idempotency key."""
    idempotency_key_window: Span = 86_400.0
    """How long an idempotency key is remembered."""
    reference_tasks: Count = 16
    """How many tasks of `referenceTaskIds` the agent is given."""
    context_messages: Count = 100
    """How many messages of earlier tasks `turn.context` holds, and how many of these tasks."""
    context_bytes: Count = 2**20
    """How much may be stored of these messages together, or of these tasks."""
    context_state: Count = 256 * 1024
    """How large the state of a context may be, as JSON."""
    accept_unknown_contexts: bool = True
    """Whether a client may use a context id in which it has no task yet."""
