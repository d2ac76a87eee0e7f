"""A message that gets a turn, and its form in the store for the time after a crash (spec: DURA-02)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from a2a_server.domain.scope import Scope
from a2a_server.operations.call import Call
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.store import Turn
from generated import a2a_pb2 as pb


@dataclass(slots=True)
class Job:
    """One message on its way through a run."""

    call: Call
    request: pb.SendMessageRequest
    references: Sequence[pb.Task] = ()
    number: int = 0
    """The log number of the message."""
    after: int | None = None
    """A stop with a greater number answers this message; None while it waits for its turn."""
    rerun: bool = False
    key: str = ""
    """Of the receipt it left, by which a repeated send finds it while it waits."""

    def turn(self) -> Turn:
        """What a later process needs to run this turn again."""
        caller = json.dumps([asdict(self.call.caller), self.call.version, sorted(self.call.extensions)]).encode()
        return Turn(self.number, caller + b"\n" + self.request.SerializeToString())


def recover(scope: Scope, turn: Turn) -> Job:
    """The job that a dead process left behind."""
    header, _, request = turn.request.partition(b"\n")
    caller, version, extensions = json.loads(header)
    call = Call(caller=Caller(**caller), scope=scope, version=version, extensions=frozenset(extensions))
    message = pb.SendMessageRequest.FromString(request)
    return Job(call, message, number=turn.number, after=turn.number, rerun=True)
