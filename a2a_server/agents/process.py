"""A process that is told one document, and whose lines are read, within bounds (spec: AGNT-08).

Nothing that it does hangs its reader: it may read nothing, say too much, leave children behind or ignore signals.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import cast

from a2a_server.ports.agent import InvalidAgentResponse

MOST_IN_LINE = 2**20
"""Bytes."""
MOST_LINES = 100_000
MOST_IN_ALL = 64 * 2**20
"""Bytes of all lines."""
GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL: shorter than `limits.cancel_grace`, after which a cancel is refused."""
LEFTOVER = 1.0
"""For how many seconds output is read when the process has ended, and others still hold its end of the pipe."""

_STDIN, _STDOUT = 0, 1
_LAST_WORDS = 4096


class RunningProgram(asyncio.SubprocessProtocol):
    """One process, the leader of a session and group of its own. Whoever starts it must stop it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        self._arrived = asyncio.Event()
        self._output = bytearray()
        self._complete = False
        """Whether nothing more is added to the output."""
        self._paused = False
        self._errors = b""

    @classmethod
    async def start(cls, command: Sequence[str], document: bytes, environment: Mapping[str, str]) -> RunningProgram:
        loop = asyncio.get_running_loop()
        _, program = await loop.subprocess_exec(cls, *command, env=environment, start_new_session=True)
        program._tell(document)  # noqa: SLF001 - it is one of us
        return program

    @property
    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        return self._errors.decode(errors="replace")

    async def lines(self) -> AsyncIterator[str]:
        """The lines of its output, until it has ended."""
        number = size = 0
        while line := await self._line():
            number, size = number + 1, size + len(line)
            if number > MOST_LINES or size > MOST_IN_ALL:
                raise InvalidAgentResponse(f"a program may write {MOST_LINES} lines and {MOST_IN_ALL} bytes in a turn")
            yield line.decode(errors="replace")

    async def exit_status(self) -> int:
        """Its exit status, as soon as it has ended; below zero the signal that ended it."""
        await self._exited.wait()
        return cast("int", self._transport.get_returncode())

    async def stop(self) -> None:
        """End all of its processes, if they have not ended."""
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if not self._exited.is_set():
                    self._signal(number)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._exited.wait(), GRACE)
        finally:
            self._signal(signal.SIGKILL)
            if self._stdin.get_write_buffer_size():
                self._stdin.abort()  # nobody reads the rest
            self._transport.close()

    def _tell(self, document: bytes) -> None:
        """Write the document, of which the program may read as much as it likes."""
        if not self._stdin.is_closing():
            self._stdin.write(document)
        if not self._stdin.is_closing():  # which writing may have found out
            self._stdin.write_eof()

    @property
    def _stdin(self) -> asyncio.WriteTransport:
        return cast("asyncio.WriteTransport", self._transport.get_pipe_transport(_STDIN))

    async def _line(self) -> bytes:
        searched = 0
        while (end := self._output.find(b"\n", searched) + 1) == 0:
            searched = len(self._output)
            if searched > MOST_IN_LINE or self._complete:
                end = searched
                break
            self._pause(paused=False)
            self._arrived.clear()
            await self._arrived.wait()
        if end > MOST_IN_LINE:
            raise InvalidAgentResponse(f"a line of the program has more than {MOST_IN_LINE} bytes")
        line = bytes(self._output[:end])
        del self._output[:end]
        return line

    def _pause(self, *, paused: bool) -> None:
        """Read no more until the lines so far are wanted, or read on."""
        if paused == self._paused:
            return
        self._paused = paused
        stdout = cast("asyncio.ReadTransport", self._transport.get_pipe_transport(_STDOUT))
        if paused:
            stdout.pause_reading()
        elif not stdout.is_closing():
            stdout.resume_reading()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # all have ended
            os.killpg(self._transport.get_pid(), number)

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != _STDOUT:
            self._errors = (self._errors + data)[-_LAST_WORDS:]
            return
        self._output += data
        self._arrived.set()
        if len(self._output) > MOST_IN_LINE:
            self._pause(paused=True)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == _STDOUT:
            self._complete = True
            self._arrived.set()

    def process_exited(self) -> None:
        """End what it has left behind, so that its output ends, too."""
        self._signal(signal.SIGKILL)
        self._exited.set()
        self._loop.call_later(LEFTOVER, self._give_up)

    def _give_up(self) -> None:
        if self._paused:  # what was written before the end is not read yet
            self._loop.call_later(LEFTOVER, self._give_up)
        else:
            self.pipe_connection_lost(_STDOUT, None)
