"""`a2ad db`, beside a running server and without one: what is deleted is gone from the file, too (spec: KEPT-02)."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import Running, command, serving
from tests.support.postgres import all_rows
from tests.support.world import refused, say

AGENT = """
import asyncio

from a2a_server.agents import Agent, Turn

agent = Agent(name="Keeper", description="Keeps what it is told.", version="1.0.0")


@agent.skill(id="echo", tags=["test"])
async def echo(turn: Turn) -> str:
    turn.context.state["told"] = turn.text
    return turn.text


@agent.skill(id="hold", tags=["test"])
async def hold(turn: Turn) -> str:
    await turn.status("holding")
    await asyncio.sleep(3600)
    return turn.text


@agent.skill(id="ask", tags=["test"])
async def ask(turn: Turn) -> None:
    await turn.ask("And then?")
"""
NOW = {"return_immediately": True}
NOTHING = {
    "tasks": 0,
    "events": 0,
    "configs": 0,
    "webhooks": 0,
    "receipts": 0,
    "contextValues": 0,
    "keys": 0,
    "busy": 0,
}


@asynccontextmanager
async def served(folder: Path, **settings: str) -> AsyncIterator[tuple[Running, Any]]:
    (folder / "agent.py").write_text(AGENT)
    with serving("agent.py", cwd=folder, **settings) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield server, a2a_pb2_grpc.A2AServiceStub(channel)


async def db(folder: Path, *arguments: str, status: int = 0) -> dict[str, Any]:
    done = await asyncio.to_thread(command, "db", *arguments, "--json", cwd=folder)
    assert done.returncode == status, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def holding(folder: Path, text: bytes) -> Sequence[str]:
    """The files of the database that hold the text."""
    return [file.name for file in folder.glob("a2a.db*") if text in file.read_bytes()]


async def send(stub: Any, text: str, **more: Any) -> pb.Task:
    answer: pb.SendMessageResponse = await stub.SendMessage(say(text, **more))
    return answer.task


@pytest.mark.req("KEPT-02", "SECR-07")
async def test_a_tenant_is_deleted_while_the_server_runs(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, stub):
        for _ in range(20):
            await send(stub, "cinnamon", skill="echo", tenant="acme")
        kept = await send(stub, "nutmeg", skill="echo", tenant="globex")
        waiting = await send(stub, "cinnamon", skill="ask", tenant="acme")
        counted = await db(tmp_path, "delete", "--tenant", "acme", "--dry-run")
        assert counted == {**NOTHING, "dryRun": True, "tasks": 21, "events": 83, "contextValues": 20}
        assert holding(tmp_path, b"cinnamon")
        assert await db(tmp_path, "delete", "--tenant", "acme", "--yes") == {**counted, "dryRun": False}
        assert not holding(tmp_path, b"cinnamon")
        assert holding(tmp_path, b"nutmeg")
        refusal = await refused(stub.GetTask(pb.GetTaskRequest(id=waiting.id, tenant="acme")))
        assert refusal.reason == "TASK_NOT_FOUND"
        refusal = await refused(stub.SendMessage(say("more", task_id=waiting.id, tenant="acme")))
        assert refusal.reason == "TASK_NOT_FOUND"
        assert (await stub.GetTask(pb.GetTaskRequest(id=kept.id, tenant="globex"))).id == kept.id
        again = await send(stub, "clove", skill="echo", tenant="acme")
        assert (await stub.ListTasks(pb.ListTasksRequest(tenant="acme"))).total_size == 1
        assert again.status.state == pb.TASK_STATE_COMPLETED


@pytest.mark.req("KEPT-02")
async def test_a_task_at_work_is_left_to_the_server(tmp_path: Path) -> None:
    async with served(tmp_path, A2A_LIMITS__DRAIN_GRACE="0.1") as (server, stub):
        held = await send(stub, "cinnamon", skill="hold", configuration=NOW)
        told = await db(tmp_path, "delete", "--task", held.id, "--yes", status=1)
        assert told == {**NOTHING, "dryRun": False, "busy": 1}
        canceled = await stub.CancelTask(pb.CancelTaskRequest(id=held.id))
        assert canceled.status.state == pb.TASK_STATE_CANCELED
        assert (await db(tmp_path, "delete", "--task", held.id, "--yes"))["tasks"] == 1
        assert (await refused(stub.GetTask(pb.GetTaskRequest(id=held.id)))).reason == "TASK_NOT_FOUND"
        await send(stub, "cinnamon", skill="hold", configuration=NOW)
        server.process.kill()
        server.process.wait()
    assert (await db(tmp_path, "delete", "--owner", "anonymous"))["tasks"] == 1  # no server, so nobody works on it
    assert not holding(tmp_path, b"cinnamon")


@pytest.mark.req("KEPT-01")
async def test_sends_go_on_while_old_tasks_are_pruned(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, stub):
        for _ in range(10):
            await asyncio.gather(*(send(stub, "cinnamon", skill="echo") for _ in range(30)))
        pruning = asyncio.create_task(db(tmp_path, "prune", "--older-than", "0s"))
        young = []
        while not pruning.done():
            young.append(await send(stub, "clove", skill="ask"))
        assert (await pruning)["tasks"] == 300
        assert (await stub.ListTasks(pb.ListTasksRequest())).total_size == len(young)


@pytest.mark.req("KEPT-01")
async def test_without_an_age_the_settings_count(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, stub):
        await send(stub, "cinnamon", skill="echo")
    (tmp_path / "a2ad.toml").write_text('[retention]\nevents = "0.001s"\ntasks = "30d"\n')
    assert (await db(tmp_path, "prune", "--dry-run")) == {**NOTHING, "dryRun": True, "events": 4}
    (tmp_path / "a2ad.toml").write_text('[retention]\ntasks = "0.001s"\n')
    assert (await db(tmp_path, "prune"))["tasks"] == 1
    done = await asyncio.to_thread(command, "db", "prune", "--vacuum", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("removed 0 tasks, 0 events")
    with closing(sqlite3.connect(tmp_path / "a2a.db")) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["prune"], 2, "Error: say how old: --older-than 30d, or set ages in [retention]\n"),
        (["prune", "--older-than", "soon"], 2, "must be seconds, or a number with s, m, h, d, w or y, such as 30d\n"),
        (["prune", "--older-than", "-1d"], 2, "must be seconds, or a number with s, m, h, d, w or y, such as 30d\n"),
        (["delete"], 2, "Error: say what: --owner NAME, --tenant NAME, --task ID or --context ID\n"),
        (["delete", "--owner", "ann"], 1, "Error: there is no store a2a.db; a server makes it when it starts\n"),
        (
            ["delete", "--owner", "ann", "--store", "memory:"],
            1,
            "Error: store = 'memory:': only the server's own process can read it\n",
        ),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: list[str], status: int, message: str) -> None:
    done = command("db", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.endswith(message)
    assert not list(tmp_path.iterdir())


@pytest.mark.req("LIMT-02", "KEPT-02")
async def test_operators_see_who_has_how_much_and_make_room_while_the_server_runs(tmp_path: Path) -> None:
    async def told(*arguments: str) -> str:
        done = await asyncio.to_thread(command, "db", "usage", *arguments, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        return str(done.stdout)

    async with served(tmp_path, A2A_LIMITS__TASKS_PER_OWNER="3") as (_, stub):
        assert (await told(), await told("--json")) == ("", "[]\n")
        await send(stub, "cinnamon", skill="echo")
        for _ in range(2):
            await send(stub, "cinnamon", skill="echo", tenant="acme")
        refusal = await refused(stub.SendMessage(say("nutmeg")))
        assert refusal.message.startswith("You have 3 tasks stored, and limits.tasks_per_owner allows 3.")
        there, here = json.loads(await told("--json"))
        assert {name: there[name] for name in ("tenant", "owner", "tasks")} == {
            "tenant": "acme",
            "owner": "anonymous",
            "tasks": 2,
        }
        assert there["bytes"] > here["bytes"] > len("cinnamon")
        assert await told("--owner", "nobody") == ""
        lines = [
            f"anonymous in acme: 2 tasks, {there['bytes']} bytes",
            f"anonymous: 1 tasks, {here['bytes']} bytes",
        ]
        assert (await told()).splitlines() == lines
        assert (await told("--limit", "1")).splitlines() == lines[:1]
        await db(tmp_path, "delete", "--tenant", "acme", "--yes")
        async with asyncio.timeout(20):
            while not await accepted(stub):  # noqa: ASYNC110 - as a client tries
                await asyncio.sleep(0.1)


async def accepted(stub: Any) -> bool:
    try:
        await send(stub, "nutmeg", skill="echo")
    except grpc.aio.AioRpcError:
        return False
    return True


async def test_the_state_of_the_store_is_shown_and_its_schema_upgraded(tmp_path: Path) -> None:
    fresh = await db(tmp_path, "status", status=3)
    assert (fresh["schema"]["version"], fresh["bytes"], fresh["servers"]) == (0, 0, [])
    newest = fresh["schema"]["program"]
    assert await db(tmp_path, "upgrade") == {"before": 0, "after": newest, "waitsFor": []}
    async with served(tmp_path, A2A_UPGRADE_STORE="false") as (_, stub):
        await send(stub, "cinnamon", skill="echo")
        told = await db(tmp_path, "status")
        assert told["schema"] == {"version": newest, "program": newest, "oldest": newest, "due": [], "later": []}
        assert {key: told["rows"][0][key] for key in ("kind", "rows")} == {"kind": "tasks", "rows": 1}
        assert len(told["servers"]) == 1
        refused = await asyncio.to_thread(command, "db", "upgrade", cwd=tmp_path)
        assert refused.returncode == 1
        assert "is in use by another server" in refused.stderr
    with closing(sqlite3.connect(tmp_path / "a2a.db")) as connection:
        connection.execute(f"PRAGMA user_version = {newest + 1}")
    told = await db(tmp_path, "status", status=1)
    assert told["schema"]["oldest"] == newest + 1
    shown = await asyncio.to_thread(command, "db", "status", cwd=tmp_path)
    assert f"servers need version {newest + 1} or newer, and this program has {newest}" in shown.stdout
    away = await db(tmp_path, "status", "--store", "postgresql://ann:cinnamon@127.0.0.1:9/x", status=1)
    assert away == {
        "store": "postgresql://…@127.0.0.1:9/x",
        "reachable": False,
        "why": "the store postgresql://…@127.0.0.1:9/x cannot be reached (ConnectionRefusedError)",
    }


async def test_a_server_with_an_older_file_refuses_to_start_if_it_may_not_upgrade_it(tmp_path: Path) -> None:
    await db(tmp_path, "upgrade")
    with closing(sqlite3.connect(tmp_path / "a2a.db")) as connection:
        (newest,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {newest - 1}")
    done = await asyncio.to_thread(command, "serve", cwd=tmp_path, A2A_UPGRADE_STORE="false", A2A_GRPC="127.0.0.1:0")
    assert done.returncode
    assert f"has schema version {newest - 1}, and this server needs {newest}. Run `a2ad db upgrade`" in done.stderr


@pytest.mark.req("OPER-04")
async def test_a_file_is_moved_to_a_database_and_served_from_there(tmp_path: Path, own_postgres: str) -> None:
    async with served(tmp_path) as (server, stub):
        kept = await send(stub, "cinnamon", skill="echo")
        waiting = await send(stub, "nutmeg", skill="ask")
        refused = await asyncio.to_thread(command, "db", "copy", "--to", own_postgres, cwd=tmp_path)
        assert refused.returncode == 1
        assert "is in use by another server" in refused.stderr
        server.process.terminate()
        server.process.wait()
    told = await db(tmp_path, "copy", "--from", "sqlite:///a2a.db", "--to", own_postgres)
    assert (told["rows"]["tasks"], told["rows"]["context_states"]) == (2, 1)
    async with served(tmp_path, A2A_STORE=own_postgres) as (server, stub):
        assert await stub.GetTask(pb.GetTaskRequest(id=kept.id)) == kept
        again = await send(stub, "more", task_id=waiting.id, skill="ask")
        assert again.status.state == pb.TASK_STATE_INPUT_REQUIRED
        server.process.terminate()  # which ends its session
        server.process.wait()
    rekey = "db", "rekey", "--store", own_postgres
    key = base64.b64encode(bytes(32)).decode()
    done = await asyncio.to_thread(command, *rekey, cwd=tmp_path, A2A_STORE_KEYS=key)
    assert (done.returncode, done.stdout[:8]) == (0, "rewrote ")
    assert "PostgreSQL removes what was overwritten when it vacuums the tables" in done.stderr
    assert b"cinnamon" not in all_rows(own_postgres)
    async with served(tmp_path, A2A_STORE=own_postgres, A2A_STORE_KEYS=key) as (_, stub):
        assert await stub.GetTask(pb.GetTaskRequest(id=kept.id)) == kept
        held = await asyncio.to_thread(command, *rekey, "--plain", cwd=tmp_path, A2A_STORE_KEYS=key)
        assert held.returncode == 1
        assert "Restart all servers with the same store_keys, or stop them" in held.stderr
    wrong = await asyncio.to_thread(command, "db", "copy", "--to", "mysql://x", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "must be sqlite:///PATH or postgresql://USER@HOST/DATABASE" in wrong.stderr
