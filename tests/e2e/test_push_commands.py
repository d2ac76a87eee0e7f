"""`a2ad push`, beside a running server and without one; and the keys it publishes (spec: PAID-03, PAID-05)."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import grpc
import pytest
from aiohttp import web
from joserfc.jwk import ECKey

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import Running, command, serving
from tests.support.house import schema
from tests.support.receivers import Received, receiver
from tests.support.world import say

AGENT = str(Path(__file__).parents[1] / "support" / "door_agent.py")
SETTINGS = {"A2A_PUSH__ALLOW_LOOPBACK": "true", "A2A_PUSH__RETRY_FIRST": "0.01", "A2A_PUSH__GIVE_UP_AFTER": "2"}


class Broken:
    """A receiver that refuses until it is repaired."""

    status = 500

    async def __call__(self, _: Received) -> web.StreamResponse:
        return web.Response(status=self.status)


def told(*arguments: str, cwd: Path) -> Any:
    done = command("push", *arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def accounts(cwd: Path, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = told("list", *arguments, cwd=cwd)["configs"]
    return found


async def parked(cwd: Path, *arguments: str) -> list[dict[str, Any]]:
    """Wait until something is parked."""
    while True:
        found: list[dict[str, Any]] = await in_thread(accounts, cwd, "--parked", *arguments)
        if found:
            return found


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def in_thread(function: Any, *arguments: Any, **more: Any) -> Any:
    return await asyncio.to_thread(function, *arguments, **more)


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Running, Any]]:
    with serving(AGENT, cwd=folder, **SETTINGS) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            yield server, a2a_pb2_grpc.A2AServiceStub(channel)


async def send(stub: Any, url: str, config_id: str) -> str:
    config = pb.TaskPushNotificationConfig(id=config_id, url=url, token="t0k3n")
    request = say("hello", configuration={"task_push_notification_config": config})
    return str((await stub.SendMessage(request)).task.id)


@pytest.mark.req("PAID-03", "OPER-04", "SECR-03")
async def test_what_is_parked_is_shown_and_retried_while_the_server_runs(tmp_path: Path) -> None:
    broken = Broken()
    async with receiver(broken) as client, served(tmp_path) as (_, stub):
        task_id = await send(stub, client.url, "mine")
        (account,) = await parked(tmp_path)
        assert account.pop("parkedSince") >= account.pop("failingSince")
        assert account == {
            "taskId": task_id,
            "configId": "mine",
            "tenant": "",
            "owner": "anonymous",
            "url": client.url,
            "version": "1.0",
            "owed": 4,
            "nextEvent": 1,
            "delivered": 0,
            "skipped": 0,
            "failed": 2,
            "attempts": 2,
            "underWay": False,
            "dueAt": None,
            "why": "status 500",
        }
        shown = await in_thread(command, "push", "list", cwd=tmp_path)
        assert shown.stdout.startswith(f"{task_id} mine {client.url}\n    parked since 20")
        assert "after 2 attempts (status 500); owed 4, delivered 0, skipped 0, failed attempts 2\n" in shown.stdout
        assert shown.stdout.endswith("1 configs, 1 parked; 4 webhooks owed\n")
        assert "t0k3n" not in shown.stdout

        broken.status = 204
        assert await in_thread(told, "retry", "--task", task_id, "--config-id", "mine", cwd=tmp_path) == {"retried": 1}
        while len(client.received) < 6:
            client.arrived.clear()
            await client.arrived.wait()
        while await in_thread(accounts, tmp_path):
            pass
        (account,) = await in_thread(accounts, tmp_path, "--task", task_id)
        assert (account["delivered"], account["failed"], account["owed"], account["why"]) == (4, 2, 0, "")


@pytest.mark.req("CONF-81", "OPER-04")
async def test_what_was_skipped_is_shown_and_stays_skipped(tmp_path: Path) -> None:
    async def no_artifacts(one: Received) -> web.StreamResponse:
        return web.Response(status=400 if "artifactUpdate" in json.loads(one.body) else 204)

    async with receiver(no_artifacts) as client, served(tmp_path) as (_, stub):
        task_id = await send(stub, client.url, "mine")
        while await in_thread(accounts, tmp_path) or len(client.received) < 6:
            pass
        (account,) = await in_thread(accounts, tmp_path, "--task", task_id)
        counts = [account[name] for name in ("owed", "delivered", "skipped", "failed", "parkedSince")]
        assert counts == [0, 3, 1, 3, None]
        shown = await in_thread(command, "push", "list", "--task", task_id, cwd=tmp_path)
        assert "    nothing owed; owed 0, delivered 3, skipped 1, failed attempts 3\n" in shown.stdout
        assert await in_thread(told, "retry", "--task", task_id, cwd=tmp_path) == {"retried": 0}
        assert len(client.received) == 6


@pytest.mark.req("PAID-03", "OPER-04")
async def test_the_same_without_a_server_and_what_is_dropped_stays_dropped(tmp_path: Path) -> None:
    broken = Broken()
    async with receiver(broken) as client:
        async with served(tmp_path) as (server, stub):
            first, second = await send(stub, client.url, "a"), await send(stub, client.url, "b")
            while len(await in_thread(accounts, tmp_path, "--parked")) < 2:
                pass
            server.process.terminate()
            assert await in_thread(server.process.wait, 10) == 0
        assert {one["configId"] for one in accounts(tmp_path)} == {"a", "b"}
        assert told("drop", "--task", first, cwd=tmp_path) == {"dropped": 4}
        assert [one["taskId"] for one in accounts(tmp_path)] == [second]
        assert told("retry", "--parked", cwd=tmp_path) == {"retried": 1}
        assert told("retry", "--parked", cwd=tmp_path) == {"retried": 0}
        assert [one["parkedSince"] for one in accounts(tmp_path)] == [None]
        assert names(tmp_path) == {"a2a.db", "a2a.db.lock"}

        broken.status, count = 200, len(client.received)
        async with served(tmp_path):
            while len(client.received) < count + 4:
                client.arrived.clear()
                await client.arrived.wait()
        assert {one.headers["A2A-Task-Id"] for one in client.received[count:]} == {second}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["list"], 1, "Error: there is no store a2a.db; a server makes it when it starts\n"),
        (
            ["list", "--store", "memory:"],
            1,
            "Error: store = 'memory:': only the server's own process can read it\n",
        ),
        (["retry"], 2, "Error: choose the configs: --task ID, --parked or --all\n"),
        (["drop", "--all", "--parked"], 2, "Error: choose the configs: --task ID, --parked or --all\n"),
        (
            ["list", "--config-id", "c"],
            2,
            "Error: --config-id needs --task: different tasks may have configs with the same id\n",
        ),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: list[str], status: int, message: str) -> None:
    done = command("push", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.endswith(message)
    assert not list(tmp_path.iterdir())


def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a2a.db"
    path.write_text("no database at all, but long enough to be looked at")
    assert "cannot be used: file is not a database" in command("push", "list", cwd=tmp_path).stderr
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE t (x)")
    assert "is a database of another program" in command("push", "list", cwd=tmp_path).stderr


def test_files_of_other_versions_are_left_to_their_servers(tmp_path: Path) -> None:
    path = tmp_path / "a2a.db"
    known = max(schema.migrations())
    for version, advice in ((known - 1, "Run `a2ad db upgrade`"), (known + 1, "Use the version that wrote it")):
        path.unlink(missing_ok=True)
        with ExitStack() as held:
            schema.connect_writer(path, held)
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"PRAGMA user_version = {version}")
        done = command("push", "list", cwd=tmp_path)
        assert done.returncode == 1
        assert f"has schema version {version}, and this command needs {known}. {advice}" in done.stderr


def test_help_says_what_parking_is(tmp_path: Path) -> None:
    told = command("push", "--help", cwd=tmp_path).stdout
    assert "push.give_up_after" in told
    names = re.findall(r"^  (\w+) ", told.partition("Commands:")[2], re.MULTILINE)
    assert {"list", "retry", "drop"} <= set(names)
    for name in names:
        assert "--parked" in command("push", name, "--help", cwd=tmp_path).stdout


# -- keys


@pytest.mark.req("PAID-05", "SSRF-06")
async def test_keys_of_signatures_are_published_and_nothing_secret_of_them(tmp_path: Path) -> None:
    key = ECKey.generate_key("P-256")
    (tmp_path / "key.pem").write_bytes(key.as_pem(private=True))
    settings = {**SETTINGS, "A2A_PUSH__SIGNING_KEYS": "file:key.pem"}
    async with receiver() as client:
        with serving(AGENT, "--store", "memory:", cwd=tmp_path, **settings) as server:
            async with grpc.aio.insecure_channel(server.address) as channel:
                await send(a2a_pb2_grpc.A2AServiceStub(channel), client.url, "c")
            while not client.received:
                client.arrived.clear()
                await client.arrived.wait()
            published = await in_thread(page, f"{server.http}/.well-known/jwks.json")
        assert [one["kid"] for one in published["keys"]] == [key.thumbprint()]
        assert "d" not in published["keys"][0]
        assert client.last.headers["Authorization"].startswith("Bearer ey")


def page(url: str) -> Any:
    with urlopen(url) as answer:  # noqa: S310 - our own server
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Cache-Control"] == "public, max-age=300"
        return json.loads(answer.read())


@pytest.mark.req("PAID-05", "PAID-06", "OPER-05", "SECR-03")
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SIGNING_KEYS", "nonsense", "push.signing_keys[0] must be an EC key on the curve P-256, as PEM or JWK"),
        ("SECRET_KEYS", "c2hvcnQ=", "push.secret_keys[0] must be 32 bytes in base64"),
        ("SECRET_KEYS", "file:nowhere", "push.secret_keys (environment): the file 'nowhere' cannot be read"),
        ("PORTS", "443,nine", "push.ports = '443,nine' (environment): 'nine': must be a port"),
        ("ALLOW_NETWORKS", "10.0.0.0/99", "push.allow_networks = '10.0.0.0/99' (environment): must be addresses"),
        ("NAT64_PREFIXES", "64:ff9b::/97", "must be IPv6 prefixes of 32, 40, 48, 56, 64 or 96 bits"),
        ("NAT64_PREFIXES", "10.0.0.0/32", "must be IPv6 prefixes of 32, 40, 48, 56, 64 or 96 bits"),
        ("DENY_HOSTS", "a b", "push.deny_hosts = 'a b' (environment): 'a b': must name a host"),
        ("TRUST", "nowhere", "push.trust = 'nowhere' (environment): cannot be read: No such file"),
        ("TRUST", "text.pem", "push.trust = 'text.pem' (environment): is not a PEM file of certificates"),
        ("TIMEOUT", "0.5", "push.timeout = '0.5' (environment)"),
    ],
)
def test_settings_that_cannot_be_worked_with_stop_the_start(
    tmp_path: Path, name: str, value: str, message: str
) -> None:
    (tmp_path / "text.pem").write_text("hello")
    ports = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    done = command("serve", "--store", "memory:", *ports, cwd=tmp_path, **{f"A2A_PUSH__{name}": value})
    assert done.returncode == 2
    assert message.replace("(environment)", f"(environment A2A_PUSH__{name})") in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.req("OPER-05", "SECR-03")
def test_keys_are_not_shown_among_the_settings(tmp_path: Path) -> None:
    secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    shown = command("config", cwd=tmp_path, A2A_PUSH__SECRET_KEYS=secret).stdout
    assert 'secret_keys = ["…"]  # environment' in shown
    assert secret not in shown
