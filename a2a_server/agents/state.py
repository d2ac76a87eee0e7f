"""What a task remembers between turns: its skill, the author's state, and how far a turn had come (spec: DURA-06)."""

from __future__ import annotations

import json
from typing import Any

from a2a_server.agents.parts import check_json
from a2a_server.ports.agent import InvalidAgentResponse


class Saved:
    """The blob that the server keeps for the agent, opened."""

    __slots__ = ("artifacts", "skill", "turn", "values")

    def __init__(
        self, skill: str = "", turn: int = 0, artifacts: int = 0, values: dict[str, Any] | None = None
    ) -> None:
        self.skill = skill
        self.turn = turn
        """The turn that saved it."""
        self.artifacts = artifacts
        """How many artifacts that turn had finished; a rerun goes on behind them instead of replacing them."""
        self.values: dict[str, Any] = {} if values is None else values

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
