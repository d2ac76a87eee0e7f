"""A message that gets a turn, and its form in the store for the time after a crash (spec: DURA-02)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.operations.call import Call
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.hooks import Hook
from a2a_server.ports.store import Turn
from generated import a2a_pb2 as pb

_WITHHELD = "withheld"


@dataclass(slots=True)
class Job:
    """One message on its way through a run."""

    call: Call
    request: pb.SendMessageRequest = field(repr=False)
    references: Sequence[pb.Task] = ()
    number: int = 0
    """The log number of the message."""
    after: int | None = None
    """A stop with a greater number answers this message; None while it waits for its turn."""
    rerun: bool = False
    key: str = ""
    """Of the receipt it left, by which a repeated send finds it while it waits."""
    twin: Hook | None = None
    """The push config that the one which came along would replace."""
    kept: pb.Message | None = None
    """What is kept in place of the message, which answers a sensitive request and is for the agent alone (XTRA-04)."""

    def turn(self) -> Turn:
        """What a later process needs to run this turn again."""
        header: list[object] = [asdict(self.call.caller), self.call.version, sorted(self.call.extensions)]
        request = self.request
        if request.HasField("configuration"):  # a push config in it is registered by now, its secrets sealed
            request = pb.SendMessageRequest()
            request.CopyFrom(self.request)
            request.configuration.ClearField("task_push_notification_config")
        if self.call.trace is not None:
            header.append(self.call.trace._asdict())
        if self.kept is not None:
            header.append(_WITHHELD)
            request = pb.SendMessageRequest(message=self.kept)
        return Turn(self.number, json.dumps(header).encode() + b"\n" + request.SerializeToString())


def recover(scope: Scope, turn: Turn) -> Job:
    """The job that a dead process left behind. One with `kept` cannot be done: its message is gone."""
    header, _, request = turn.request.partition(b"\n")
    caller, version, extensions, *marks = json.loads(header)
    trace = next((Trace(**mark) for mark in marks if isinstance(mark, dict)), None)
    call = Call(Caller(**caller), scope, version, frozenset(extensions), trace=trace)
    message = pb.SendMessageRequest.FromString(request)
    kept = message.message if _WITHHELD in marks else None
    return Job(call, message, number=turn.number, after=turn.number, rerun=True, kept=kept)
