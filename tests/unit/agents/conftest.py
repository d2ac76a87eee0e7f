"""A turn to try, with everything it sends recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import Turn
from a2a_server.agents.agent import Saved
from a2a_server.agents.output import TurnOutput
from a2a_server.agents.testing import Recorder
from a2a_server.ports.agent import TurnRequest
from a2a_server.ports.authenticator import Caller


class Clockless(Recorder):
    """Says when something has been emitted, for tests of what happens by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Event()

    def emit(self, event: pb.StreamResponse) -> None:
        super().emit(event)
        self.heard.set()


@pytest.fixture
def outlet() -> Clockless:
    return Clockless()


@pytest.fixture
def turn_of(outlet: Recorder) -> Callable[..., Turn]:
    """Make a turn of task `t`; keywords are those of TurnRequest, `task` and `direct`."""

    def make(*, direct: bool = False, default: bool = True, saved: Saved | None = None, **members: Any) -> Turn:
        base: dict[str, Any] = {"task_id": "t", "context_id": "c", "number": 1, "message": pb.Message()}
        task = members.pop("task", pb.Task())
        base |= {"metadata": pb.SendMessageRequest().metadata, "view": lambda: task, "caller": Caller()}
        request = TurnRequest(**base | members)
        return Turn(request, TurnOutput(outlet), "skill", saved or Saved(), direct=direct, default=default)

    return make


@pytest.fixture
def turn(turn_of: Callable[..., Turn]) -> Turn:
    return turn_of()
