"""Who did what, and who was denied: the audit's events, through every door (docs/operating.md has the table)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import stat
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from a2a_server.ports.journal import AuditKind
from a2a_server.settings import SettingsError, load
from tests.support.callers import EVERYWHERE, KNOWN, House, bearer, house
from tests.support.house import StartError
from tests.support.world import say

TOKEN = "t0k-of-ann"
ANN = {"owner": "ann", "hash": "sha256:" + hashlib.sha256(TOKEN.encode()).hexdigest()}
METADATA = [("authorization", f"Bearer {TOKEN}")]
ROOT = Path(__file__).parents[2]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def written(path: Path, kind: str, many: int = 1) -> list[dict[str, Any]]:
    """Wait for events of a kind."""
    async with asyncio.timeout(30):
        while True:
            found = [line for line in lines_of(path) if line["event"] == kind]
            if sum(line.get("times", 1) for line in found) >= many:
                return found
            await asyncio.sleep(0.02)


@asynccontextmanager
async def audited(path: Path, **settings: Any) -> AsyncIterator[tuple[House, Any]]:
    options = {"to": f"file:{path}", **settings.pop("audit", {})}
    async with house(audit=options, auth={"tokens": [ANN]}, **settings) as here:
        yield here, a2a_pb2_grpc.A2AServiceStub(here.channel)


@pytest.mark.req("SECR-01", "GATE-04")
async def test_a_denial_through_any_door_is_told(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    async with audited(path, gateway=True) as (here, _):
        for number, door in enumerate(EVERYWHERE, 1):
            assert await here.told(door, bearer(TOKEN)) == KNOWN
            assert (await here.told(door, bearer("s3cr3t-guess"))).code == "UNAUTHENTICATED"
            told = (await written(path, "call.denied", number))[-1]
            kind = "rest" if door.startswith("rest") else "jsonrpc" if door.startswith("jsonrpc") else "grpc"
            assert told.pop("timestamp").endswith("Z")
            told.pop("times", 0)
            expected = {"event": "call.denied", "peer": "127.0.0.1", "door": kind, "rpc": "GetTask"}
            assert told == {**expected, "reason": "UNAUTHENTICATED"}, door
    assert "s3cr3t" not in path.read_text()


@pytest.mark.req("SECR-01", "GATE-04")
async def test_whose_call_is_forbidden_is_told(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    async with audited(path, tenants=["acme"]) as (_, stub):
        with pytest.raises(Exception, match="may not act"):
            await stub.GetTask(pb.GetTaskRequest(id="1", tenant="other"), metadata=METADATA)
        told = (await written(path, "call.denied"))[0]
    assert (told["owner"], told["reason"], told["peer"]) == ("ann", "PERMISSION_DENIED", "127.0.0.1")


@pytest.mark.req("SECR-01", "DOOR-04")
async def test_pages_of_others_are_denied_and_told_by_whoever_refuses_them(tmp_path: Path) -> None:
    near, far = tmp_path / "near.log", tmp_path / "far.log"
    async with audited(near, gateway=True, relay={"audit": {"to": f"file:{far}"}}) as (here, _):
        for base, path in ((here.base, near), (here.gateway, far)):
            async with here.session.post(f"{base}/message:send", headers={"Origin": "https://evil.example"}) as answer:
                assert answer.status == 403
            async with here.session.get(f"{base}/tasks", headers={"Host": "evil.example"}) as answer:
                assert answer.status == 421
            told = await written(path, "call.denied", 2)
            assert {line["reason"] for line in told} == {"PERMISSION_DENIED", "MISDIRECTED_REQUEST"}
            assert {(line["door"], line["peer"]) for line in told} == {("http", "127.0.0.1")}


@pytest.mark.req("SECR-01", "GATE-04")
@pytest.mark.parametrize("streams", [False, True])
async def test_what_callers_change_is_told(tmp_path: Path, *, streams: bool) -> None:
    path = tmp_path / "audit.log"
    async with audited(path) as (_, stub):
        config = {"task_push_notification_config": pb.TaskPushNotificationConfig(url="https://hook.example/", id="c1")}
        request = say("secret words", skill="booking", configuration={**config, "return_immediately": True})
        if streams:
            items = stub.SendStreamingMessage(request, metadata=METADATA)
            task_id = (await items.read()).task.id
        else:
            task_id = (await stub.SendMessage(request, metadata=METADATA)).task.id
        second = pb.TaskPushNotificationConfig(
            task_id=task_id, url="https://hook.example/", token="h00k-s3cr3t", id="c2"
        )
        await stub.CreateTaskPushNotificationConfig(second, metadata=METADATA)
        await stub.DeleteTaskPushNotificationConfig(
            pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="c2"), metadata=METADATA
        )
        await written(path, "push_config.deleted")
    told = [{name: value for name, value in line.items() if name != "timestamp"} for line in lines_of(path)]
    who = {"owner": "ann", "peer": "127.0.0.1", "door": "grpc", "task_id": task_id}
    assert told == [
        {"event": "task.created", **who},
        {"event": "push_config.created", **who, "config_id": "c1"},
        {"event": "push_config.created", **who, "config_id": "c2"},
        {"event": "push_config.deleted", **who, "config_id": "c2"},
    ]
    assert not re.search("secret|s3cr3t|hook.example|t0k", path.read_text())


@pytest.mark.req("SECR-01", "GATE-04")
async def test_a_cancel_is_told_and_one_that_failed_is_not(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    async with audited(path) as (_, stub):
        request = say("hello", configuration={"return_immediately": True}, skill="booking")
        task_id = (await stub.SendMessage(request, metadata=METADATA)).task.id
        await stub.CancelTask(pb.CancelTaskRequest(id=task_id), metadata=METADATA)
        with pytest.raises(Exception, match="nothing is left to cancel"):
            await stub.CancelTask(pb.CancelTaskRequest(id=task_id), metadata=METADATA)
    told = [line for line in lines_of(path) if line["event"] == "task.canceled"]
    assert [(line["owner"], line["task_id"]) for line in told] == [("ann", task_id)]


@pytest.mark.req("SECR-01", "GATE-04")
async def test_the_same_denial_is_one_line_a_second(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    async with audited(path) as (here, _):
        for _ in range(300):
            await here.told("grpc", bearer("wrong"))
    told = lines_of(path)
    assert sum(line.get("times", 1) for line in told) == 300
    assert len(told) < 30


@pytest.mark.req("SECR-01")
async def test_floods_and_mass_cancels_are_told(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    async with audited(path, audit={"tasks_per_minute": 3, "cancels_per_minute": 2}) as (_, stub):
        for _ in range(7):
            request = say("hello", configuration={"return_immediately": True}, skill="booking")
            task = (await stub.SendMessage(request, metadata=METADATA)).task
            await stub.CancelTask(pb.CancelTaskRequest(id=task.id), metadata=METADATA)
    told = [(line["event"], line["owner"], line["times"]) for line in lines_of(path) if "pattern" in line["event"]]
    assert sorted(told) == [
        ("pattern.cancels", "ann", 3),
        ("pattern.cancels", "ann", 5),
        ("pattern.cancels", "ann", 7),
        ("pattern.tasks", "ann", 4),
        ("pattern.tasks", "ann", 7),
    ]


@pytest.mark.req("GATE-04")
async def test_the_file_is_private_and_only_grows(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for number in (1, 2):
        async with audited(path) as (here, _):
            await here.told("grpc", {})
        assert len(lines_of(path)) == number
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.req("GATE-04")
async def test_rotation_begins_a_new_file_and_a_hangup_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    async with audited(path) as (here, _):
        await here.told("grpc", {})
        await written(path, "call.denied")
        path.rename(tmp_path / "audit.log.1")
        os.kill(os.getpid(), signal.SIGHUP)
        await here.told("rest", {})
        await written(path, "call.denied")
    assert len(lines_of(tmp_path / "audit.log.1")) == 1


@pytest.mark.req("GATE-04")
async def test_a_full_disk_stops_no_call_and_is_said_once() -> None:
    with capture_logs() as logs:
        async with audited(Path("/dev/full")) as (here, stub):
            for _ in range(3):
                await here.told("grpc", {})
                await stub.SendMessage(say("hello"), metadata=METADATA)
                await asyncio.sleep(0.3)
    told = [line for line in logs if line["event"] == "audit.unwritable"]
    assert [(line["why"], line["path"]) for line in told] == [("No space left on device", "/dev/full")]


def events(logs: list[Any]) -> Iterator[str]:
    return (line["event"] for line in logs if line["event"] in {kind.value for kind in AuditKind})


@pytest.mark.req("SECR-01", "GATE-04")
@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("denials", {"call.denied": 1}),
        ("log", {"call.denied": 1, "task.created": 1}),
        ("none", {}),
    ],
)
async def test_the_log_takes_denials_unless_more_or_nothing_is_wanted(to: str, told: dict[str, int]) -> None:
    with capture_logs() as logs:
        async with house(audit={"to": to}, auth={"tokens": [ANN]}) as here:
            await here.told("rest", {})
            await a2a_pb2_grpc.A2AServiceStub(here.channel).SendMessage(say("hello"), metadata=METADATA)
    assert Counter(events(logs)) == told


@pytest.mark.req("OPER-05")
async def test_a_file_that_cannot_be_opened_keeps_the_server_from_starting(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"audit\.to: the file .*nowhere.* cannot be opened: No such file"):
        async with audited(tmp_path / "nowhere" / "audit.log"):
            pass
    with pytest.raises(SettingsError, match=r"audit\.to"):
        load({"audit": {"to": "syslog"}})


def test_the_page_has_every_kind() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    table = set(re.findall(r"^\| `([a-z_.]+)`", page, re.MULTILINE))
    assert {kind.value for kind in AuditKind} <= table
