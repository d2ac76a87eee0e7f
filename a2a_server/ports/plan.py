"""How the server treats a turn, by what the agent says of it (spec: DURA-02, SEND-09)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Plan:
    """How the server treats the turn that a message starts."""

    restartable: bool = False
    """Run it again after a crash, from its last checkpoint; otherwise the task becomes FAILED (DURA-02)."""
    direct: bool = False
    """The turn may answer with a bare Message: no task exists before its first other event (SEND-09)."""
    sound: bool = field(default=False, compare=False)
    """`check` would find no fault with the message, unless an extension does."""
    skill: str = field(default="", compare=False)
    """A note of the agent's to itself, which comes back in `TurnRequest.plan`."""
