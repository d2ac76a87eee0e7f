"""What an agent is given to answer (spec: EXEC-01)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.trace import Trace
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.plan import Plan


class TurnRequest:
    """Everything an agent may know about the message it answers."""

    # A class by hand: there is one per turn, and what a dataclass writes would not be compiled.
    __slots__ = (
        "_task",
        "accepted_output_modes",
        "caller",
        "context_id",
        "extensions",
        "message",
        "metadata",
        "number",
        "plan",
        "references",
        "rerun",
        "state",
        "task_id",
        "tenant",
        "trace",
        "version",
        "view",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - an agent may know as much; keywords would double the price
        self,
        task_id: str,
        context_id: str,
        number: int,
        message: pb.Message,
        metadata: struct_pb2.Struct,
        view: Callable[[], pb.Task],
        caller: Caller,
        references: Sequence[pb.Task] = (),
        state: bytes = b"",
        rerun: bool = False,  # noqa: FBT001, FBT002 - as above
        tenant: str = "",
        version: str = "1.0",
        extensions: frozenset[str] = frozenset(),
        accepted_output_modes: tuple[str, ...] = (),
        plan: Plan | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.task_id = task_id
        self.context_id = context_id
        self.number = number
        """The log number of the message; it names the turn, and is 1 in a task's first turn."""
        self.message = message
        self.metadata = metadata
        self.view = view
        """Makes what `task` shows."""
        self.caller = caller
        self.references = references
        """The tasks of `referenceTaskIds` that the caller may see (CTX-11)."""
        self.state = state
        """What an earlier turn, or an earlier run of this turn, saved."""
        self.rerun = rerun
        """True when a restart interrupted this turn and it runs again."""
        self.tenant = tenant
        self.version = version
        self.extensions = extensions
        self.accepted_output_modes = accepted_output_modes
        self.plan = plan
        """The plan that the agent made for this very turn, where it was asked for one just now."""
        self.trace = trace
        """The caller's, to be passed on by whatever the agent calls (TRAC-01)."""
        self._task: pb.Task | None = None

    @property
    def task(self) -> pb.Task:
        """The task when the turn began, its history ending with `message`: a copy that the agent owns.

        Made when it is first asked for, because most agents never do.
        """
        if self._task is None:
            self._task = self.view()
        return self._task

    def again(self, view: Callable[[], pb.Task], state: bytes) -> TurnRequest:
        """This turn as it runs again after a crash, with what it has saved; nobody asks for a plan then."""
        return TurnRequest(
            task_id=self.task_id,
            context_id=self.context_id,
            number=self.number,
            message=self.message,
            metadata=self.metadata,
            view=view,
            caller=self.caller,
            references=self.references,
            state=state,
            rerun=True,
            tenant=self.tenant,
            version=self.version,
            extensions=self.extensions,
            accepted_output_modes=self.accepted_output_modes,
            plan=None,
            trace=self.trace,
        )
