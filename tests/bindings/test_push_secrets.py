"""Secrets of push configs: sealed wherever they are kept, in clear for the receiver alone (spec: PAID-06, SECR-03)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from tests.bindings.test_push_configs import config, create, get, listed
from tests.bindings.test_push_delivery import received
from tests.support.deliveries import deliver
from tests.support.house import Sealing, SqliteStore, SystemClock, WebhookSender
from tests.support.receivers import HERE, receiver
from tests.support.stage import Stage
from tests.support.world import say, serving

pytestmark = pytest.mark.only_through("grpc", why="it is about what the store keeps, whoever calls")

TOKEN, CREDENTIALS = "t0k3n-that-nobody-may-see", "cr3d3nt1als-that-nobody-may-see"
KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
SOON = {"return_immediately": True}


def secretive(**fields: Any) -> dict[str, Any]:
    authentication = pb.AuthenticationInfo(scheme="Bearer", credentials=CREDENTIALS)
    return {"token": TOKEN, "authentication": authentication, **fields}


def found_in(folder: Path) -> dict[str, set[str]]:
    """Which secrets stand in clear in which files."""
    names = {TOKEN: "token", CREDENTIALS: "credentials"}
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {
        file: shown
        for file, raw in files.items()
        if (shown := {name for secret, name in names.items() if secret.encode() in raw})
    }


@pytest.mark.req("PAID-06", "SECR-03")
@pytest.mark.parametrize("keys", [(KEY,), ()])
async def test_no_file_holds_a_secret_when_there_is_a_key(tmp_path: Path, keys: tuple[bytes, ...]) -> None:
    """Looked for while turns run and messages wait, whose requests are kept, and after everything has been sent."""
    stage, store, seen = Stage(), SqliteStore(tmp_path / "a2a.db"), []
    sender = WebhookSender(HERE, SystemClock(), timeout=10)
    with capture_logs() as logs:
        async with receiver() as client:
            delivery = deliver(sender, sealer=Sealing(keys))
            async with serving(stage.agent, store=store, delivery=delivery) as world:

                def inline(name: str) -> dict[str, Any]:
                    return {"task_push_notification_config": config(**secretive(id=name, url=client.url)), **SOON}

                waiting = await world.send(say(skill="hold", configuration=inline("first")))
                await stage.began()
                await world.send(say("more", task_id=waiting.id, configuration=inline("joined")))
                asked = await world.send(say(skill="ask"))
                made = await create(world, asked.id, **secretive(id="made", url=client.url))
                assert (made.token, made.authentication.credentials) == ("****", "****")
                seen.append(found_in(tmp_path))
                await world.send(say("red", task_id=asked.id, configuration=inline("answer")))
                again = say("work", skill="hold", configuration=inline("once"))
                await world.stub.SendMessage(again, metadata=(("idempotency-key", "k"),))
                seen.append(found_in(tmp_path))
                stage.release.set()
                for one in await received(client, 20):
                    assert one.headers["Authorization"] == f"Bearer {CREDENTIALS}"
                    assert one.headers["X-A2A-Notification-Token"] == TOKEN
                seen.append(found_in(tmp_path))
            seen.append(found_in(tmp_path))
    if keys:
        assert seen == [{}] * 4
    else:
        assert [set().union(*found.values()) for found in seen] == [{"token", "credentials"}] * 4
    assert not [entry for entry in logs if TOKEN in str(entry) or CREDENTIALS in str(entry)]


@pytest.mark.req("PAID-06")
async def test_keys_are_rotated_without_losing_a_secret(tmp_path: Path) -> None:
    path, sender = tmp_path / "a2a.db", WebhookSender(HERE, SystemClock(), timeout=10)
    async with receiver() as client:
        task = pb.Task()
        for keys, answer in (((), ""), ((KEY,), ""), ((OTHER, KEY), "red")):
            delivery = deliver(sender, sealer=Sealing(keys))
            async with serving(Stage().agent, store=SqliteStore(path), delivery=delivery) as world:
                if not task.id:
                    task = await world.send(say(skill="ask"))
                name = f"made-with-{len(keys)}"
                await create(world, task.id, **secretive(id=name, url=client.url))
                assert len((await listed(world, task.id)).configs) == len(keys) + 1
                if answer:
                    await world.send(say(answer, task_id=task.id))
                    found = await received(client, 9)
        assert {one.headers["X-A2A-Notification-Token"] for one in found} == {TOKEN}
        assert {one.headers["Authorization"] for one in found} == {f"Bearer {CREDENTIALS}"}


@pytest.mark.req("PAID-06", "PUSH-13")
async def test_writing_back_what_was_read_keeps_what_is_sealed(tmp_path: Path) -> None:
    sender = WebhookSender(HERE, SystemClock(), timeout=10)
    delivery = deliver(sender, sealer=Sealing([KEY]))
    async with (
        receiver() as client,
        serving(Stage().agent, store=SqliteStore(tmp_path / "a2a.db"), delivery=delivery) as world,
    ):
        task = await world.send(say(skill="ask"))
        await create(world, task.id, **secretive(id="mine", url="http://127.0.0.1:1024/"))
        read = await get(world, task.id, "mine")
        read.url = client.url
        inline = {"task_push_notification_config": read}
        await world.send(say("red", task_id=task.id, configuration=inline))  # put inline, with its masks
        await asyncio.gather(received(client, 3))
        assert {one.headers["X-A2A-Notification-Token"] for one in client.received} == {TOKEN}
        assert {one.headers["Authorization"] for one in client.received} == {f"Bearer {CREDENTIALS}"}
