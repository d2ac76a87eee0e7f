"""What a turn was given: the message, the task, and who asks for what (spec: EXEC-01, SEND-08, CTX-11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.input_requests import asked_before
from a2a_server.agents.parts import from_struct, to_python
from a2a_server.domain.input_requests import results_in
from a2a_server.domain.media_types import matches
from a2a_server.ports.authenticator import Caller
from a2a_server.ports.turn_request import TurnRequest


class Incoming:
    """The reading half of a turn. Nothing is unpacked before it is asked for."""

    __slots__ = ("request", "skill")

    def __init__(self, request: TurnRequest, skill: str) -> None:
        self.request = request
        self.skill = skill

    @property
    def message(self) -> pb.Message:
        return self.request.message

    @property
    def parts(self) -> Sequence[pb.Part]:
        return self.request.message.parts

    @property
    def text(self) -> str:
        """The text parts of the message, one per line."""
        parts = self.request.message.parts
        if len(parts) == 1:  # as nearly always
            return parts[0].text
        return "\n".join([part.text for part in parts[:] if part.HasField("text")])

    @property
    def data(self) -> Any:  # noqa: ANN401 - the JSON border
        """The first data part as a Python value; None when there is none."""
        return next((to_python(part.data) for part in self.request.message.parts if part.HasField("data")), None)

    @property
    def files(self) -> list[pb.Part]:
        """The parts that hold a file, as bytes (`raw`) or by reference (`url`)."""
        return [part for part in self.request.message.parts if part.HasField("raw") or part.HasField("url")]

    @property
    def answer(self) -> Any:  # noqa: ANN401 - as above
        """What the client answers to the input request that the task waited with; None when it waited with none.

        The result for it; of a client that knows no input requests, the text or the data of the message.
        """
        if (request := asked_before(self.history)) is None:
            return None
        return self.results.get(request.request_id, self.text or self.data)

    @property
    def results(self) -> dict[str, Any]:
        """The tool results in the message, by the ids that they are for."""
        return {result.tool_use_id: to_python(result.value) for result in results_in(self.request.message)}

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the request; that of the message is in `message.metadata`."""
        return from_struct(self.request.metadata)

    @property
    def history(self) -> Sequence[pb.Message]:
        """The messages of the task so far, this one last."""
        return self.request.task.history

    @property
    def task(self) -> pb.Task:
        """The task as it was when the turn began."""
        return self.request.task

    @property
    def task_id(self) -> str:
        return self.request.task_id

    @property
    def context_id(self) -> str:
        return self.request.context_id

    @property
    def number(self) -> int:
        """1 in a task's first turn, greater in later ones."""
        return self.request.number

    @property
    def references(self) -> Sequence[pb.Task]:
        """The tasks that the message refers to, as far as the caller may see them."""
        return self.request.references

    @property
    def rerun(self) -> bool:
        """Whether a restart interrupted this turn, which now runs again from its last checkpoint."""
        return self.request.rerun

    @property
    def caller(self) -> Caller:
        return self.request.caller

    @property
    def tenant(self) -> str:
        return self.request.tenant

    @property
    def trace(self) -> dict[str, str]:
        """Headers to send along with calls to others, so that all is one trace; none when the client sent none."""
        trace = self.request.trace
        return {} if trace is None else trace.headers()

    @property
    def extensions(self) -> frozenset[str]:
        """The URIs of the extensions that are active in this request."""
        return self.request.extensions

    @property
    def accepted_output_modes(self) -> tuple[str, ...]:
        return self.request.accepted_output_modes

    def accepts(self, media_type: str) -> bool:
        """Whether the client takes this media type; a client that named none takes all."""
        modes = self.request.accepted_output_modes
        return not modes or any(matches(media_type, mode) for mode in modes)

    def preferred(self, media_types: Iterable[str]) -> str | None:
        """The first of your media types, best first, that the client takes; None when it takes none of them."""
        return next((mode for mode in media_types if self.accepts(mode)), None)
