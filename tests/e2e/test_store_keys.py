"""A server whose store is sealed: a whole run of which nothing can be read, new keys, wrong keys (spec: SECR-03)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import Running, command, serving
from tests.support.calls import key
from tests.support.world import say

A, B, C = (base64.b64encode(bytes([number]) * 32).decode() for number in range(3))

AGENT = """
import asyncio

from a2a_server.agents import Agent, Turn

agent = Agent(name="Keeper", description="Keeps what it is told.", version="1.0.0")


@agent.skill(id="keep", tags=["test"], restartable=True)
async def keep(turn: Turn) -> None:
    if turn.number == 1:
        turn.state["said"] = turn.text + " kept-in-the-state"
        turn.context.state["told"] = turn.text + " kept-in-the-context"
        await turn.status("status-of-the-agent")
        await turn.add_artifact("text-of-an-artifact", "name-of-an-artifact", metadata={"a": "metadata-of-an-artifact"})
        async with turn.artifact("streamed") as out:
            for number in range(20):
                await out.write(f"chunk-{number}-of-an-artifact ")
        return await turn.ask("question-of-the-agent")
    await turn.add_artifact({"was": turn.state["said"], "context": turn.context.state["told"]}, "second")


@agent.skill(id="hold", tags=["test"], restartable=True)
async def hold(turn: Turn) -> str:
    if not turn.rerun and turn.number == 1:
        await turn.checkpoint(seen="kept-by-a-checkpoint")
        await asyncio.sleep(3600)
    return f"again {turn.text} {turn.state['seen']}"


@agent.skill(id="answer", tags=["test"], direct=True)
async def answer(turn: Turn) -> None:
    await turn.reply("direct-reply")
"""

SAID = [
    *("text-of-the-client", "metadata-of-the-client", "data-of-the-client", "name-of-a-file", "bytes-of-a-file"),
    *("status-of-the-agent", "text-of-an-artifact", "name-of-an-artifact", "metadata-of-an-artifact"),
    *("chunk-7-of-an-artifact", "question-of-the-agent", "answer-of-the-client", "kept-in-the-state"),
    *("kept-in-the-context", "kept-by-a-checkpoint", "waiting-message", "metadata-of-a-cancel", "path-of-a-webhook"),
    *("metadata-of-a-request", "direct-reply", "asked-directly", "reason-of-a-cancel"),
]
NOW = {"return_immediately": True}


@asynccontextmanager
async def served(folder: Path, keys: str, **settings: str) -> AsyncIterator[tuple[Running, Any]]:
    (folder / "agent.py").write_text(AGENT)
    settings = {"A2A_STORE_KEYS": keys, "A2A_LIMITS__DRAIN_GRACE": "0.1", **settings}
    with serving("agent.py", cwd=folder, **settings) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield server, a2a_pb2_grpc.A2AServiceStub(channel)


def stop(server: Running) -> None:
    server.process.terminate()
    assert server.process.wait(20) == 0


async def rekey(folder: Path, keys: str, *arguments: str, status: int = 0) -> Any:
    done = await asyncio.to_thread(command, "db", "rekey", "--json", *arguments, cwd=folder, A2A_STORE_KEYS=keys)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def holding(folder: Path) -> dict[str, list[str]]:
    """What was said, and is in files of the database."""
    files = {file.name: file.read_bytes() for file in folder.glob("a2a.db*")}
    assert "a2a.db" in files
    return {
        name: said for name, content in files.items() if (said := [text for text in SAID if text.encode() in content])
    }


async def say_everything(stub: Any) -> dict[str, pb.Task]:
    """Use whatever keeps content. Returns tasks as the server told them last."""
    parts = ParseDict(
        {
            "parts": [
                {"text": "text-of-the-client", "metadata": {"a": "metadata-of-the-client"}},
                {"data": {"a": "data-of-the-client"}},
                {"raw": base64.b64encode(b"bytes-of-a-file").decode(), "filename": "name-of-a-file"},
            ]
        },
        pb.Message(),
    ).parts
    hook = pb.TaskPushNotificationConfig(url="https://hook.invalid/path-of-a-webhook")
    request = say(parts=parts, skill="keep", configuration={"task_push_notification_config": hook})
    request.metadata["note"] = "metadata-of-a-request"
    events = [event async for event in stub.SendStreamingMessage(request, metadata=key("one"))]
    task_id = events[0].task.id
    asked = await stub.GetTask(pb.GetTaskRequest(id=task_id))
    assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
    await stub.SendMessage(say("answer-of-the-client", task_id=task_id), metadata=key("two"))
    reply = await stub.SendMessage(say("asked-directly", skill="answer"), metadata=key("three"))
    assert reply.message.parts[0].text == "direct-reply"
    held = (await stub.SendMessage(say("text-of-the-client", skill="hold", configuration=NOW))).task
    await stub.SendMessage(say("waiting-message", task_id=held.id, configuration=NOW))
    canceled = (await stub.SendMessage(say("text-of-the-client", skill="hold", configuration=NOW))).task
    wish = pb.CancelTaskRequest(id=canceled.id)
    wish.metadata["a"] = "metadata-of-a-cancel"
    wish.metadata["reason"] = "reason-of-a-cancel"
    await stub.CancelTask(wish)
    return {one: await stub.GetTask(pb.GetTaskRequest(id=one)) for one in (task_id, canceled.id)} | {"held": held}


@pytest.mark.req("SECR-03", "SECR-07")
async def test_nothing_that_was_said_in_a_whole_run_is_in_the_files(tmp_path: Path) -> None:
    async with served(tmp_path, A) as (server, stub):
        told = await say_everything(stub)
        held = told.pop("held")
        assert holding(tmp_path) == {}
        server.process.kill()
        server.process.wait()
    assert (tmp_path / "a2a.db-wal").stat().st_size > 0
    assert holding(tmp_path) == {}
    async with served(tmp_path, A) as (server, stub):
        for task_id, task in told.items():
            assert await stub.GetTask(pb.GetTaskRequest(id=task_id)) == task
        assert all(
            text in str(told) for text in ("text-of-the-client", "chunk-7-of-an-artifact", "kept-in-the-context")
        )
        listed = (await stub.ListTasks(pb.ListTasksRequest(include_artifacts=True))).tasks
        assert {task.id for task in listed} == {*told, held.id}
        again = await stub.SendMessage(say("asked-directly", skill="answer"), metadata=key("three"))
        assert again.message.parts[0].text == "direct-reply"
        async with asyncio.timeout(20):
            while (task := await stub.GetTask(pb.GetTaskRequest(id=held.id))).status.state != pb.TASK_STATE_COMPLETED:  # noqa: ASYNC110 - as a client polls
                await asyncio.sleep(0.01)
        assert "again text-of-the-client kept-by-a-checkpoint" in str(task.artifacts)
        assert "waiting-message" in str(task)
        stop(server)
    assert holding(tmp_path) == {}


@pytest.mark.req("SECR-03", "SECR-07")
async def test_a_store_is_sealed_and_its_key_changed_as_the_guide_says(tmp_path: Path) -> None:
    async with served(tmp_path, "") as (server, stub):
        told = await say_everything(stub)
        del told["held"]
        stop(server)
    assert set(holding(tmp_path)["a2a.db"]) >= set(SAID[:14])
    plan = await rekey(tmp_path, A, "--dry-run")
    assert plan["inUse"] == [""]
    assert plan["left"] > 40
    assert holding(tmp_path)
    assert await rekey(tmp_path, A) == {"rewritten": plan["left"], "rebuilt": True}
    assert holding(tmp_path) == {}

    async with served(tmp_path, f"{B},{A}") as (server, stub):
        message = await rekey(tmp_path, f"{C},{A}", status=1)
        assert "which store_keys lacks" in message
        assert "is in use by a server that seals with the key" in await rekey(tmp_path, f"{A},{B}", status=1)
        done = await rekey(tmp_path, f"{B},{A}")
        assert done["rewritten"] > 40
        assert not done["rebuilt"]
        for task_id, task in told.items():
            assert await stub.GetTask(pb.GetTaskRequest(id=task_id)) == task
        stop(server)
    (in_use,) = (await rekey(tmp_path, B, "--dry-run"))["inUse"]
    async with served(tmp_path, B) as (server, stub):
        for task_id, task in told.items():
            assert await stub.GetTask(pb.GetTaskRequest(id=task_id)) == task
        stop(server)

    for keys, fault in ((A, "which store_keys lacks"), ("", "and store_keys is empty")):
        done = await asyncio.to_thread(command, "serve", "agent.py", cwd=tmp_path, A2A_STORE_KEYS=keys)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"the store has content that is sealed with the key '{in_use}', {fault}" in done.stderr
        assert "Traceback" not in done.stderr
    assert (await rekey(tmp_path, B, "--plain"))["rebuilt"]
    async with served(tmp_path, "") as (server, stub):
        for task_id, task in told.items():
            assert await stub.GetTask(pb.GetTaskRequest(id=task_id)) == task


@pytest.mark.parametrize(
    ("keys", "arguments", "status", "message"),
    [
        ("", [], 2, "Error: store_keys is empty; set it, or say --plain\n"),
        (A, [], 1, "Error: there is no store a2a.db; a server makes it when it starts\n"),
        (A, ["--store", "memory:"], 1, "Error: store = 'memory:': only the server's own process can read it\n"),
        (f"{A},short", [], 2, "store_keys[1] must be 32 bytes in base64, such as `openssl rand -base64 32` prints\n"),
    ],
)
def test_what_cannot_be_done_is_said(
    tmp_path: Path, keys: str, arguments: list[str], status: int, message: str
) -> None:
    done = command("db", "rekey", *arguments, cwd=tmp_path, A2A_STORE_KEYS=keys)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.endswith(message)
    assert "short" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.req("SECR-02", "SECR-03")
def test_the_configuration_does_not_show_the_keys(tmp_path: Path) -> None:
    (tmp_path / "a.key").write_text(A + "\n")
    done = command("config", cwd=tmp_path, A2A_STORE_KEYS=f"{B},file:a.key")
    assert done.returncode == 0
    assert "store_keys" in done.stdout
    assert A not in done.stdout
    assert B not in done.stdout
    done = command("serve", cwd=tmp_path, A2A_STORE_KEYS=B[:-5])
    assert done.returncode == 2
    assert "store_keys[0] must be 32 bytes in base64" in done.stderr
    assert B[:20] not in done.stderr
