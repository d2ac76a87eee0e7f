"""Clients in processes of their own: they are told what to call, and tell what they have got (see clients/told.py)."""

from __future__ import annotations

import json
import queue
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any

from tests.e2e.processes import ROOT, environment

_PATIENCE = 60.0
"""A first answer may have to wait until a large library is imported."""

Json = Any


class Refused(Exception):  # noqa: N818 - what a server does
    """The error that a client has raised: its class, its text, and what it knows of the answer."""

    def __init__(self, told: dict[str, Json]) -> None:
        super().__init__(told)
        self.type: str = told["type"]
        self.message: str = told["message"]
        self.code: int | None = told.get("code")
        self.status: int | str | None = told.get("status")
        self.data: Json = told.get("data")


class Answer:
    """Of one call: what comes of a stream, and at last the result."""

    def __init__(self, program: Program, order: dict[str, Json]) -> None:
        self._program = program
        self._order = order
        self._lines: queue.SimpleQueue[dict[str, Json] | None] = queue.SimpleQueue()

    def put(self, line: dict[str, Json] | None) -> None:
        self._lines.put(line)

    def __iter__(self) -> Iterator[Json]:
        """Yield items as they come, until the stream ends."""
        while "item" in (line := self._next()):
            yield line["item"]

    def next(self) -> Json:
        line = self._next()
        assert "item" in line, f"the stream has ended: {line}"
        return line["item"]

    def result(self) -> Json:
        line = self._next()
        assert "result" in line, f"not the end: {line}"
        return line["result"]

    def _next(self) -> dict[str, Json]:
        try:
            line = self._lines.get(timeout=_PATIENCE)
        except queue.Empty:
            raise AssertionError(f"no answer to {self._order}") from None
        if line is None:
            raise AssertionError(f"the client has died of {self._order}:\n{self._program.last_words()}")
        if "error" in line:
            raise Refused(line["error"])
        return line


@dataclass
class Program:
    """A client program that runs."""

    process: subprocess.Popen[str]
    errors: IO[str]
    answers: dict[int, Answer] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def tell(self, on: str, call: str, details: dict[str, Json]) -> Answer:
        number = next(self.numbers)
        order = {"id": number, "on": on, "call": call, "with": details}
        self.answers[number] = answer = Answer(self, order)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return answer

    def listen(self) -> None:
        """Pass on what the program says, until it says no more."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            self.answers[told["id"]].put(told)
        for answer in list(self.answers.values()):
            answer.put(None)

    def last_words(self) -> str:
        self.errors.seek(0)
        return self.errors.read()


@contextmanager
def running(command: Sequence[str]) -> Iterator[Program]:
    """Start a client program; it ends with the block."""
    pipe = subprocess.PIPE
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdin=pipe, stdout=pipe, stderr=errors, text=True
        ) as process,
    ):
        program = Program(process, errors)
        listener = Thread(target=program.listen, daemon=True)
        listener.start()
        try:
            yield program
        finally:
            process.kill()
            listener.join()


@dataclass(frozen=True)
class Client:
    """A connection that a program has opened."""

    program: Program
    name: str

    @classmethod
    def connect(cls, program: Program, url: str, transport: str, **details: Json) -> Client:
        """Open a connection by the card at a URL. `version` is for clients that speak more than one."""
        name = f"{transport} {next(program.numbers)}"
        told = {"url": url, "transport": transport, "token": "", "extensions": [], "version": "0.3", **details}
        program.tell(name, "connect", told).result()
        return cls(program, name)

    def call(self, call: str, **details: Json) -> Json:
        return self.tell(call, **details).result()

    def tell(self, call: str, **details: Json) -> Answer:
        return self.program.tell(self.name, call, details)

    def send(self, text: str = "hello", **details: Json) -> Json:
        return self.call("send", **_said(text, details))

    def stream(self, text: str = "hello", **details: Json) -> Answer:
        return self.program.tell(self.name, "stream", _said(text, details))

    def get(self, task: str, history: int | None = None) -> Json:
        return self.call("get", task=task, history=history)

    def cancel(self, task: str) -> Json:
        return self.call("cancel", task=task)

    def subscribe(self, task: str) -> Answer:
        return self.program.tell(self.name, "subscribe", {"task": task})


def _said(text: str, details: dict[str, Json]) -> dict[str, Json]:
    usual = {
        "parts": [{"kind": "text", "text": text}],
        "skill": "echo",
        "task": None,
        "context": None,
        "wait": True,
        "history": None,
        "accepts": [],
        "push": None,
    }
    return {**usual, **details}
