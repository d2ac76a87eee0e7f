"""A2A extensions that an agent supports: their declaration, and the check of what clients send (spec: EXTN)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.parts import Json, to_struct
from a2a_server.protocol.errors import Violation

Check = Callable[[pb.SendMessageRequest], Iterable[Violation | str]]


@dataclass(frozen=True, slots=True)
class Extension:
    """One extension in the card. `check` sees only requests that activate it; what it yields refuses the request."""

    uri: str
    description: str = ""
    required: bool = False
    params: Mapping[str, Json] | None = None
    check: Check | None = None

    def card(self) -> pb.AgentExtension:
        params = None if self.params is None else to_struct(self.params, "params")
        return pb.AgentExtension(uri=self.uri, description=self.description, required=self.required, params=params)

    def faults(self, request: pb.SendMessageRequest) -> Iterator[Violation]:
        """What is wrong with a request by the extension's own rules; a plain text speaks of the metadata (EXTN-07)."""
        if self.check is None:
            return
        for problem in self.check(request):
            yield problem if isinstance(problem, Violation) else Violation("metadata", problem)
