"""An agent that asks for things by id, and keeps the turns it was given."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from google.protobuf import struct_pb2

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import INPUT_REQUESTS, Agent, Turn, tool_result_part
from tests.support.house import InputRequest, open_request
from tests.support.world import say


class Guard:
    """`work` is done between answer and end; it may wait for `release`."""

    def __init__(self, **card: Any) -> None:
        self.turns: list[Turn] = []
        self.release = asyncio.Event()
        self.release.set()
        card.setdefault("extensions", [INPUT_REQUESTS])
        self.agent = Agent(name="Guard", description="Opens doors.", version="1.0.0", **card)
        skill = partial(self.agent.skill, description="A door.", tags=["test"])
        skill(id="secret")(self.secret)
        skill(id="steadfast", restartable=True)(self.secret)
        skill(id="open")(self.open)
        skill(id="plain")(self.plain)
        skill(id="clumsy")(self.clumsy)
        skill(id="linger")(self.linger)
        skill(id="deaf")(self.deaf)

    async def secret(self, turn: Turn) -> str | None:
        """A sensitive question; the second turn waits where a test may look around."""
        self.turns.append(turn)
        if turn.number == 1:
            await turn.ask("The word?", sensitive=True)
            return None
        await turn.status("I listen.")
        await self.release.wait()
        return "Come in."

    async def open(self, turn: Turn) -> str | None:
        """Everybody may read the answer to this one."""
        self.turns.append(turn)
        if turn.number == 1:
            await turn.ask("Which door?", request_id="door")
            return None
        return f"The {turn.answer} one."

    async def plain(self, turn: Turn) -> str | None:
        self.turns.append(turn)
        if turn.number == 1:
            await turn.ask("Yes?")
            return None
        return turn.text

    async def clumsy(self, turn: Turn) -> None:
        """Fails over the answer, and with its words."""
        self.turns.append(turn)
        if turn.number == 1:
            return await turn.ask("Your number?", sensitive=True)
        int(turn.answer)
        return None

    async def deaf(self, turn: Turn) -> str | None:
        """Asks, and does not return at once."""
        self.turns.append(turn)
        if turn.number == 1:
            await turn.ask("The word?", sensitive=True, request_id="word")
            await self.release.wait()
            return None
        return "Come in."

    async def linger(self, turn: Turn) -> str:
        """Asks, and takes the answer in the same turn."""
        self.turns.append(turn)
        await turn.ask("The word?", sensitive=True, request_id="word")
        message = await turn.next_message()
        await turn.status("I listen.")
        await self.release.wait()
        return f"{len(message.parts[0].data.struct_value.fields['result'].string_value)} letters."


def asked(task: pb.Task) -> InputRequest:
    """The input request that a task waits with."""
    request = open_request(task.status)
    assert request is not None
    return request


def answer(task: pb.Task, value: Any, *, tool_use_id: str | None = None, **more: Any) -> pb.SendMessageRequest:
    """A tool result for what the task asks."""
    part = tool_result_part(asked(task).request_id if tool_use_id is None else tool_use_id, value)
    return say(task_id=task.id, parts=[part], **more)


def data(value: dict[str, Any]) -> struct_pb2.Value:
    filled = struct_pb2.Value()
    filled.struct_value.update(value)
    return filled
