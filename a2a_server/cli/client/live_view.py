"""What a person sees while a task runs: texts grow in place, states and artifacts are told apart (spec: CLI-02)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.output import TextPrinter, state_name
from a2a_server.cli.client.plain_text import lines_of, one_line

_DIM, _BOLD, _PLAIN = "2", "1", ""
_STYLES: Final = {"dim": _DIM, "bold": _BOLD}


@dataclass(slots=True)
class LiveView:
    """Writes events to a terminal. Never used where stdout is none."""

    parts: TextPrinter
    """Writes what is no text."""
    colors: bool = field(default_factory=lambda: "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb")
    _shown: dict[str, str] = field(default_factory=dict)
    """The text of each artifact so far."""
    _open: str = ""
    """The artifact whose text is growing."""
    _state: int = -1
    _messages: set[str] = field(default_factory=set)

    def event(self, event: pb.StreamResponse) -> None:
        match event.WhichOneof("payload"):
            case "task":
                self._status(event.task.status)
                for artifact in event.task.artifacts:
                    self._artifact(artifact, append=False)
            case "message":
                self._say(event.message)
            case "status_update":
                self._status(event.status_update.status)
            case "artifact_update":
                update = event.artifact_update
                self._artifact(update.artifact, append=update.append)
        sys.stdout.flush()

    def end(self) -> None:
        """Close the line that is growing."""
        if self._open:
            sys.stdout.write("\n")
        self._open = ""
        sys.stdout.flush()

    def note(self, text: str) -> None:
        self.end()
        sys.stdout.write(self.styled(one_line(text), "dim") + "\n")
        sys.stdout.flush()

    def styled(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.colors else text

    def _status(self, status: pb.TaskStatus) -> None:
        if status.state != self._state:
            self._state = status.state
            self.note(f"[{state_name(status.state).removeprefix('TASK_STATE_').replace('_', ' ').lower()}]")
        if status.HasField("message"):
            self._say(status.message)

    def _say(self, message: pb.Message) -> None:
        if message.message_id and message.message_id in self._messages:
            return
        self._messages.add(message.message_id)
        self.end()
        for part in message.parts:
            self._part(part)

    def _artifact(self, artifact: pb.Artifact, *, append: bool) -> None:
        key = artifact.artifact_id
        before = self._shown.get(key, "")
        text = "".join(part.text for part in artifact.parts)
        whole = before + text if append else text
        added = whole.removeprefix(before)
        if added and (self._open != key or not whole.startswith(before)):
            self.note(f"[artifact {artifact.name or key}]")
            self._open = key
        sys.stdout.write(safe(added))
        if key not in self._shown or append:
            for part in _others(artifact.parts):
                self.note(f"[artifact {artifact.name or key}]")
                self._part(part)
        self._shown[key] = whole

    def _part(self, part: pb.Part) -> None:
        if part.WhichOneof("content") == "text":
            sys.stdout.write(safe(part.text) + "\n")
        else:
            self.parts.parts("", [part])


def _others(parts: Sequence[pb.Part]) -> Iterator[pb.Part]:
    return (part for part in parts if part.WhichOneof("content") != "text")


def safe(text: str) -> str:
    """Keep what an agent says from moving the cursor."""
    return "\n".join(lines_of(text))
