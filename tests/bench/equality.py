"""What both servers must answer alike before it makes sense to time them."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from google.protobuf.message import Message
from google.protobuf.text_format import MessageToString

from a2a_proto import a2a_pb2 as pb
from tests.bench.doors import Door, ask, listen
from tests.bench.exchange import Broken
from tests.bench.lab import VERSION, stub
from tests.bench.processes import Server
from tests.bench.requests import message

_ID = re.compile(r'((?:task_|context_|artifact_|message_)?id): "([^"]*)"')
_TICK = 0.002
"""Keeps tasks from ending in the same millisecond, by which lists are ordered."""
_STAMP = re.compile(r"\n *timestamp \{[^}]*\}")


@dataclass(slots=True)
class _Names:
    """Ids replaced by numbers in the order of their appearance."""

    known: dict[str, int] = field(default_factory=dict)

    def __call__(self, found: re.Match[str]) -> str:
        number = self.known.setdefault(found[2], len(self.known))
        return f"{found[1]}: #{number}"


def essence(answers: Sequence[Message]) -> str:
    """Answers without what may differ: ids as such, and times. (The SDK's new tasks have none.)"""
    text = "\n".join(f"{type(answer).__name__} {{\n{MessageToString(answer)}}}" for answer in answers)
    return _ID.sub(_Names(), _STAMP.sub("", text))


def answers(server: Server) -> str:
    """One conversation with every call that is timed."""
    with stub(server) as client:
        sent = client.SendMessage(message("echo"), metadata=VERSION)
        read = client.GetTask(pb.GetTaskRequest(id=sent.task.id), metadata=VERSION)
        listed = client.ListTasks(pb.ListTasksRequest(page_size=50), metadata=VERSION)
        streamed = client.SendStreamingMessage(message("chunks", "3"), metadata=VERSION)
        return essence([sent, read, listed, *streamed])


def answers_through(doors: Sequence[Door], server: Server) -> str:
    """The same conversation through HTTP doors, one after the other."""
    return "\n".join(_conversation(door, server) for door in doors)


def _conversation(door: Door, server: Server) -> str:
    sent = ask(door, server, door.send("echo"), pb.SendMessageResponse)
    read = ask(door, server, door.get(sent.task.id), pb.Task)
    listed = ask(door, server, door.page(50), pb.ListTasksResponse)
    time.sleep(_TICK)
    streamed = listen(door, server, door.stream("chunks", "3"), pb.StreamResponse)
    time.sleep(_TICK)
    return essence([sent, read, listed, *streamed])


def check(*servers: Server, doors: Sequence[Door] = ()) -> None:
    """Raise with the difference if fresh servers do not answer alike, over gRPC or else through HTTP doors."""
    alike(partial(answers_through, doors) if doors else answers, *servers)


def alike(ask_all: Callable[[Server], str], *servers: Server) -> None:
    """Raise with the difference if a conversation goes differently with servers."""
    first, *others = [(server.name, ask_all(server)) for server in servers]
    for name, text in others:
        if text != first[1]:
            lines = difflib.unified_diff(first[1].splitlines(), text.splitlines(), first[0], name, lineterm="", n=2)
            raise Broken("the servers answer differently:\n" + "\n".join(lines))
