"""What commands print on stdout: A2A's JSON, or text (spec: CLI-25, CLI-31 to CLI-36; OP-02, OP-03)."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import click
from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.plain_text import lines_of, one_line
from a2a_server.domain.lifecycle import AUTH, INPUT, STOPPING, TERMINAL
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import BINARY

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB")


def state_name(state: int) -> str:
    """Return a state as it is on the wire, also one that has no name here."""
    return pb.TaskState.Name(state) if state in pb.TaskState.values() else str(state)


def tell(text: str) -> None:
    """Say something beside the result."""
    click.echo(one_line(text), err=True)


def indented(value: Message) -> str:
    """Write data for people."""
    return json.dumps(json.loads(V1.encode(value)), indent=2, ensure_ascii=False)


def write_json(value: object) -> None:
    """Write one document on one line, and flush it."""
    text = V1.encode(value).decode() if isinstance(value, Message) else json.dumps(value, ensure_ascii=False)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Printer(Protocol):
    """Prints results in one format."""

    def result(self, value: Message) -> None:
        """Print the one result of a command."""
        ...

    def event(self, event: pb.StreamResponse) -> None:
        """Print an event when it comes."""
        ...


@dataclass(frozen=True, slots=True)
class JsonPrinter:
    """Writes each value as one line."""

    def result(self, value: Message) -> None:
        write_json(value)

    def event(self, event: pb.StreamResponse) -> None:
        write_json(event)


@dataclass(slots=True)
class TextPrinter:
    """Writes `Label: value` lines, and indented blocks for what has several lines."""

    prefix: Sequence[str]
    """The command line up to the command: the program, and the agent if it was given by a flag."""
    verbose: bool = False
    history: bool = False

    def result(self, value: Message) -> None:
        match value:
            case pb.SendMessageResponse():
                self._answer(value)
            case pb.Task():
                self.task(value)
            case pb.ListTasksResponse():
                self._tasks(value)
            case pb.TaskPushNotificationConfig():
                self._config(value)
            case pb.ListTaskPushNotificationConfigsResponse():
                for config in value.configs:
                    self._config(config)
                self._field("Next page", value.next_page_token)
        sys.stdout.flush()

    def event(self, event: pb.StreamResponse) -> None:
        match event.WhichOneof("payload"):
            case "task":
                self.task(event.task)
            case "message":
                self._message(event.message)
            case "status_update":
                update = event.status_update
                self._place(update.task_id, update.context_id, update.status)
                if update.status.state in STOPPING:
                    self._resume(update.task_id, update.context_id, update.status.state)
            case "artifact_update":
                self._artifact(event.artifact_update.artifact)
        sys.stdout.flush()

    def task(self, task: pb.Task, *, resumes: bool = True) -> None:
        self._place(task.id, task.context_id, task.status)
        for message in task.history if self.history or self.verbose else ():
            self._field("History", pb.Role.Name(message.role))
            self._message(message)
        for artifact in task.artifacts:
            self._artifact(artifact)
        if self.verbose and task.HasField("metadata"):
            self._data("Metadata", task.metadata)
        if resumes:
            self._resume(task.id, task.context_id, task.status.state)

    def _resume(self, task_id: str, context_id: str, state: int) -> None:
        self._field("Resume", resume(self.prefix, task_id, context_id, state))

    def _place(self, task_id: str, context_id: str, status: pb.TaskStatus) -> None:
        self._field("Task", task_id)
        self._field("Context", context_id)
        self._field("State", state_name(status.state))
        if status.HasField("message"):
            self.parts("Message", status.message.parts)

    def _answer(self, answer: pb.SendMessageResponse) -> None:
        if answer.HasField("task"):
            self.task(answer.task)
        else:
            self._message(answer.message)

    def _message(self, message: pb.Message) -> None:
        self._field("Task", message.task_id)
        self._field("Context", message.context_id)
        self.parts("Message", message.parts)
        if self.verbose:
            self._field("Message ID", message.message_id)
            self._data("Metadata", message.metadata)

    def _artifact(self, artifact: pb.Artifact) -> None:
        if self.verbose:
            self._field("Artifact ID", artifact.artifact_id)
            self._field("Description", artifact.description)
        if artifact.name and (self.verbose or any(part.WhichOneof("content") != "text" for part in artifact.parts)):
            self._field("Artifact name", artifact.name)
        self.parts("Artifact", artifact.parts)
        if self.verbose:
            self._data("Metadata", artifact.metadata)

    def parts(self, label: str, parts: Sequence[pb.Part]) -> None:
        for part in parts:
            match part.WhichOneof("content"):
                case "text":
                    self._content(label, part.text)
                case "data":
                    self._data("Data", part.data)
                case "raw" | "url":
                    self._field("File", _file(part))
                case _:
                    self._content(label, "")
            if self.verbose:
                self._field("Media type", part.media_type)
                self._data("Metadata", part.metadata)

    def _tasks(self, page: pb.ListTasksResponse) -> None:
        for task in page.tasks:
            self.task(task, resumes=False)
        self._field("Total", str(page.total_size))
        self._field("Next page", page.next_page_token)

    def _config(self, config: pb.TaskPushNotificationConfig) -> None:
        self._field("Task", config.task_id)
        self._field("Config", config.id)
        self._field("URL", config.url)
        self._field("Auth scheme", config.authentication.scheme)

    def _data(self, label: str, value: Message) -> None:
        if value.ByteSize():
            self._content(label, indented(value))

    def _field(self, label: str, value: str) -> None:
        if value:
            sys.stdout.write(f"{label}: {one_line(value)}\n")

    def _content(self, label: str, text: str) -> None:
        lines = lines_of(text)
        if len(lines) == 1 and lines[0]:
            sys.stdout.write(f"{label}: {lines[0]}\n")
        else:
            sys.stdout.write("".join([f"{label}:\n", *(f"  {line}\n" for line in lines), "\n"]))


def _file(part: pb.Part) -> str:
    kind = part.media_type or BINARY
    if part.WhichOneof("content") == "url":
        return f"{part.filename or 'unnamed'}, {kind}, {part.url}"
    return f"{part.filename or 'unnamed'}, {kind}, {_size(len(part.raw))}"


def _size(number: float) -> str:
    unit = 0
    while number >= 1024 and unit < len(_UNITS) - 1:  # noqa: PLR2004 - of a KiB
        number, unit = number / 1024, unit + 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"


def resume(prefix: Sequence[str], task_id: str, context_id: str, state: int) -> str:
    """Return the command that goes on with a task; it can be copied."""
    program, *agent = prefix
    if state == INPUT:
        return _line(program, "send", *agent, "--task-id", task_id) + ' "<reply>"'
    if state in TERMINAL or not task_id:
        return _line(program, "send", *agent, "--context-id", context_id) + ' "<text>"' if context_id else ""
    command = ("task", "get", "--wait", task_id) if state != AUTH else ("task", "subscribe", task_id)
    return _line(program, *command, *agent)


def _line(*words: str) -> str:
    return " ".join(map(shlex.quote, words))
