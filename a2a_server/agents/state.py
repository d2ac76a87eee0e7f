"""What a task remembers between turns: its skill, the author's state, and how far a turn had come (spec: DURA-06)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from a2a_server.agents.parts import check_json
from a2a_server.ports.agent import InvalidAgentResponse


@dataclass(slots=True)
class Saved:
    """The blob that the server keeps for the agent, opened."""

    skill: str = ""
    turn: int = 0
    """The turn that saved it."""
    artifacts: int = 0
    """How many artifacts that turn had finished; a rerun goes on behind them instead of replacing them."""
    values: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, blob: bytes) -> Saved:
        if not blob:
            return cls()
        try:
            kept = json.loads(blob)
            return cls(kept["skill"], kept["turn"], kept["artifacts"], kept["state"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidAgentResponse("the saved state of the task was not written by this kind of agent") from error

    def dump(self) -> bytes:
        check_json(self.values, "state")
        kept = {"skill": self.skill, "turn": self.turn, "artifacts": self.artifacts, "state": self.values}
        return json.dumps(kept, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
