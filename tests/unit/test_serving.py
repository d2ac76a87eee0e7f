"""A server inside somebody else's program or notebook (spec: AGNT-10)."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from aiohttp import ClientSession
from pydantic import ValidationError

import a2a_server
from a2a_proto import a2a_pb2 as pb
from a2a_proto.a2a_pb2_grpc import A2AServiceStub
from a2a_server.agents import Agent, Turn
from a2a_server.serve import Server

pytestmark = pytest.mark.req("AGNT-10")

agent = Agent(name="Shout", description="Says it louder.", version="1.0.0")


@agent.skill(id="shout", tags=["text"])
async def shout(turn: Turn) -> str:
    return turn.text.upper()


async def said(server: Server, text: str) -> pb.Task:
    message = pb.Message(message_id="1", role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
        answer = await A2AServiceStub(channel).SendMessage(pb.SendMessageRequest(message=message))
    assert answer.task.artifacts[0].parts[0].text == text.upper()
    return answer.task


async def known(server: Server) -> int:
    async with ClientSession() as session, session.get(f"http://{server.http}/tasks") as answer:
        return len((await answer.json())["tasks"])


async def test_the_cells_of_a_notebook_share_a_server() -> None:
    """Each cell runs in an asyncio task of its own, on a loop that runs already."""
    stack = AsyncExitStack()

    async def first() -> Server:
        return await stack.enter_async_context(a2a_server.serving(agent))

    server = await asyncio.create_task(first())
    await asyncio.create_task(said(server, "hello"))
    assert await asyncio.create_task(known(server)) == 1
    await asyncio.create_task(stack.aclose())
    with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
        await said(server, "hello")


async def test_several_servers_in_one_program_know_nothing_of_each_other(tmp_path: Path) -> None:
    kept = f"sqlite:///{tmp_path / 'tasks.db'}"
    async with a2a_server.serving(agent) as one, a2a_server.serving(agent, store=kept) as other:
        await said(one, "hello")
        assert (await known(one), await known(other)) == (1, 0)
        await said(other, "hello")
        await said(other, "again")
        assert (await known(one), await known(other)) == (1, 2)
    async with a2a_server.serving(agent, store=kept, http="none") as again:
        assert again.http is None
        await said(again, "hello")


def test_one_comes_after_the_other_on_loops_of_their_own() -> None:
    async def program() -> None:
        async with a2a_server.serving(agent) as server:
            await said(server, "hello")

    for _ in range(3):
        asyncio.run(program())


async def test_the_program_stays_as_it_was() -> None:
    """Its signals, its log and its asyncio tasks are its own."""

    def own() -> tuple[object, ...]:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        return handlers, logging.root.handlers[:], logging.root.level, asyncio.all_tasks()

    before = own()
    async with a2a_server.serving(agent) as server:
        assert own()[:3] == before[:3]
        await said(server, "hello")
    assert own() == before


async def test_an_error_in_the_block_ends_the_server_and_is_the_programs() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with a2a_server.serving(agent) as server:
            raise KeyError("mine")
    with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
        await said(server, "hello")


def test_a_wrong_setting_is_named_before_anything_starts() -> None:
    with pytest.raises(ValidationError, match="htp"):
        a2a_server.serving(agent, htp="none")
    with pytest.raises(ValidationError, match="must be HOST:PORT"):
        a2a_server.serving(agent, grpc="50051")
