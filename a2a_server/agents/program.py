"""Serves any program: one process for each turn (spec: AGNT-08).

1. The process reads one JSON document from its standard input: the request in ProtoJSON, with the ids of the task.
2. Each line of its output is an event: text, or a JSON object with one known key.
3. Its exit status says how the turn ends. What it leaves running ends with it.
4. A cancel sends SIGTERM to all of its processes, and soon SIGKILL.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import orjson

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents.foreign import ForeignAgent, Texts, made_card
from a2a_server.agents.parts import data_part
from a2a_server.agents.process import RunningProgram
from a2a_server.agents.turn import Turn
from a2a_server.ports.agent import InvalidAgentResponse
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import JSON, TEXT

_SECRET_PREFIX, _SECRETS = "A2A_", {"PGPASSWORD"}
"""Variables of the server's own: a program does not inherit them."""
_TEXTS = ("text", "ask", "status")
_EVENTS = ("statusUpdate", "artifactUpdate", "message")
_KNOWN = {*_TEXTS, *_EVENTS, "data"}


class ProgramFailed(Exception):  # noqa: N818 - a verdict on the program
    """A program has ended with another exit status than 0. The message is for the log."""


class ProgramAgent(ForeignAgent):
    """A program with its card. `command` is its name, or a path, and its arguments."""

    def __init__(self, command: str, card: pb.AgentCard | None = None) -> None:
        words = shlex.split(command)
        found = shutil.which(words[0]) if words else None
        if found is None:
            raise ValueError(f"{(words or [command])[0]!r} is no program that can be run")
        self._command = [str(Path(found).absolute()), *words[1:]]
        name = Path(found).name
        super().__init__(card or made_card(name, f"Runs {name}.", (), (TEXT, JSON)), self._answer)

    async def _answer(self, turn: Turn) -> None:
        document = _document(turn)
        await turn.status()  # there is a task from here on, which can be canceled
        program = await RunningProgram.start(self._command, document, _environment())
        try:
            lines = _Lines(turn)
            async for line in program.lines():
                await lines.say(line)
            await lines.end()
            status = await program.exit_status()
        finally:
            await program.stop()
        if status != 0:
            raise ProgramFailed(f"{self._command[0]} ended with status {status}. Its last words:\n{program.last_words}")


class _Lines:
    """Makes events of what a program says."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._texts = Texts(turn)
        self._number = 0

    async def say(self, line: str) -> None:
        self._number += 1
        kind, value = _parsed(line)
        if kind in _TEXTS and not isinstance(value, str):
            raise InvalidAgentResponse(f"line {self._number} of the program: {kind} must be a text")
        match kind:
            case "":
                await self._texts.write("", line)
            case "text":
                await self._texts.write("", value)
            case "data":
                await self._turn.add_artifact(data_part(value))
            case "status":
                await self._turn.status(value)
            case "ask":
                await self._turn.ask(value)
            case _:
                await self._pass_on(self._event(kind, value))

    async def end(self) -> None:
        await self._texts.end_all()

    def _event(self, kind: str, value: Any) -> pb.StreamResponse:  # noqa: ANN401 - the JSON border
        try:
            return V1.decode({kind: value}, pb.StreamResponse)
        except A2AError as error:
            raise InvalidAgentResponse(f"line {self._number} of the program: {error.message}") from error

    async def _pass_on(self, event: pb.StreamResponse) -> None:
        if event.HasField("message"):
            await self._turn.reply(event.message)
        else:
            await self._turn.emit(event)


def _parsed(line: str) -> tuple[str, Any]:
    """The key and the value of an event; no key if the line is text."""
    if not line.startswith("{"):
        return "", None
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "", None
    keys = list(found)
    return (keys[0], found[keys[0]]) if len(keys) == 1 and keys[0] in _KNOWN else ("", None)


def _document(turn: Turn) -> bytes:
    """The request as REST takes it. In a later turn of a task with the task, whose history says what came before."""
    request = pb.SendMessageRequest(tenant=turn.tenant, message=turn.message, metadata=turn.request.metadata)
    request.message.task_id, request.message.context_id = turn.task_id, turn.context_id
    document = orjson.loads(V1.encode(request))
    if turn.number > 1:
        document["task"] = orjson.loads(V1.encode(turn.task))
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def _environment() -> dict[str, str]:
    """This process's variables without its secrets."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_SECRET_PREFIX) and name not in _SECRETS
    }
