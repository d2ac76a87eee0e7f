"""A message that gets a turn, and its form in the store for the time after a crash (spec: DURA-02)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.operations.call import Call
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.push import PushConfig
from a2a_server.ports.records import StoredTurn

_WITHHELD = "withheld"


class Job:
    """One message on its way through a run."""

    # A class by hand: one per send, and what a dataclass writes would not be compiled.
    __slots__ = ("after", "call", "kept", "key", "number", "references", "request", "rerun", "twin")

    def __init__(  # noqa: PLR0913 - a job that is taken up again has them all
        self,
        call: Call,
        request: pb.SendMessageRequest,
        references: Sequence[pb.Task] = (),
        *,
        number: int = 0,
        after: int | None = None,
        rerun: bool = False,
        kept: pb.Message | None = None,
    ) -> None:
        self.call = call
        self.request = request
        self.references = references
        self.number = number
        """The log number of the message."""
        self.after = after
        """A stop with a greater number answers this message; None while it waits for its turn."""
        self.rerun = rerun
        self.key = ""
        """Of the receipt it left, by which a repeated send finds it while it waits."""
        self.twin: PushConfig | None = None
        """The push config that the one which came along would replace."""
        self.kept = kept
        """What is kept in place of a message that answers a sensitive request and is for the agent alone (XTRA-04)."""

    def turn(self) -> StoredTurn:
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
        return StoredTurn(self.number, json.dumps(header).encode() + b"\n" + request.SerializeToString())


def recover(scope: Scope, turn: StoredTurn) -> Job:
    """The job that a dead process left behind. One with `kept` cannot be done: its message is gone."""
    header, _, request = turn.request.partition(b"\n")
    caller, version, extensions, *marks = json.loads(header)
    trace = next((Trace(**mark) for mark in marks if isinstance(mark, dict)), None)
    call = Call(Caller(**caller), scope, version, frozenset(extensions), trace=trace)
    message = pb.SendMessageRequest.FromString(request)
    kept = message.message if _WITHHELD in marks else None
    return Job(call, message, number=turn.number, after=turn.number, rerun=True, kept=kept)
