"""The server put together: what settings change about it, as its clients see."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import socket
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import trustme
from aiohttp import ClientSession
from joserfc.jwk import ECKey
from pydantic import ValidationError
from structlog.testing import capture_logs

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc, a2a_v0_3_pb2_grpc, discovery_pb2, discovery_pb2_grpc
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_proto.peers_pb2_grpc import PeerStub
from a2a_server.adapters.defaults import SystemClock
from a2a_server.agents import Agent, Turn
from a2a_server.operations.push.configs import form_of
from a2a_server.operations.push.push_options import Patience
from a2a_server.ports.store import StoreRefused
from a2a_server.protocol.names import INPUT_REQUEST_URI
from a2a_server.serve import Server, running
from a2a_server.serve.administration import push_admin_of
from a2a_server.serve.doors import base_of, interface_of, issuer_of, old_interface_of
from a2a_server.serve.parts import UnusableKeys, delivery_of, documents_of, forms_of
from a2a_server.settings import Settings, load
from a2a_server.settings.sections import Push
from a2a_server.transport.address import Address
from tests.support.receivers import receiver

agent = Agent(name="Echo", description="Says it again.", version="1.0.0")


@agent.skill(id="echo", tags=["text"])
async def echo(turn: Turn) -> str:
    """Say it again."""
    return turn.text


@asynccontextmanager
async def open_server(**settings: Any) -> AsyncIterator[tuple[Server, Any]]:
    told = Settings(**{"store": "memory:", "grpc": "127.0.0.1:0", "http": "127.0.0.1:0", **settings})
    async with running(told, agent) as server, grpc.aio.insecure_channel(str(server.grpc)) as channel:
        yield server, a2a_pb2_grpc.A2AServiceStub(channel)


def message(text: str, tenant: str = "") -> pb.SendMessageRequest:
    parts = [pb.Part(text=text)]
    return pb.SendMessageRequest(tenant=tenant, message=pb.Message(message_id="m", role=pb.ROLE_USER, parts=parts))


def secret(letter: str) -> str:
    return "sha256:" + hashlib.sha256(letter.encode()).hexdigest()


ANN = [("authorization", "Bearer ann-token")]
BOB = [("x-api-key", "bob-key")]
AUTH = {
    "tokens": [{"owner": "ann", "hash": secret("ann-token")}],
    "api_keys": [{"owner": "bob", "hash": secret("bob-key")}],
}


async def code(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code()


async def test_an_agent_answers_over_grpc() -> None:
    async with open_server() as (_, stub):
        answer = await stub.SendMessage(message("hello"))
        assert answer.task.artifacts[0].parts[0].text == "hello"
        stream = [item async for item in stub.SendStreamingMessage(message("hello"))]
        assert stream[0].HasField("task")
        assert stream[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


@pytest.mark.req("INTL-02")
async def test_internal_events_of_agents_are_logged() -> None:
    thinker = Agent(name="Thinker", description="Thinks.", version="1.0.0")

    @thinker.skill(id="think", tags=["test"])
    async def think(turn: Turn) -> str:
        turn.internal("tool-start", toolName="search")
        return "thought"

    settings = Settings(store="memory:", grpc="127.0.0.1:0", http="none")
    with capture_logs() as logs:
        async with running(settings, thinker) as server, grpc.aio.insecure_channel(str(server.grpc)) as channel:
            task = (await a2a_pb2_grpc.A2AServiceStub(channel).SendMessage(message("hello"))).task
    (line,) = [entry for entry in logs if entry["event"] == "internal:tool-start"]
    assert (line["task_id"], line["agent_toolName"], line["log_level"]) == (task.id, "search", "debug")


@pytest.mark.req("CARD-07")
async def test_the_card_names_the_doors_that_are_open() -> None:
    async with open_server(auth=AUTH) as (server, _), grpc.aio.insecure_channel(str(server.grpc)) as channel:
        card = await discovery_pb2_grpc.DiscoveryStub(channel).GetAgentCard(discovery_pb2.GetAgentCardRequest())
    assert server.grpc.port != 0
    assert [(door.protocol_binding, door.url, door.protocol_version) for door in card.supported_interfaces] == [
        ("GRPC", str(server.grpc), "1.0"),
        ("HTTP+JSON", f"http://{server.http}", "1.0"),
        ("JSONRPC", f"http://{server.http}/", "1.0"),
        ("JSONRPC", f"http://{server.http}/", "0.3"),
        ("HTTP+JSON", f"http://{server.http}", "0.3"),
        ("GRPC", str(server.grpc), "0.3"),
    ]
    assert set(card.security_schemes) == {"bearer", "apiKey"}


async def test_a_closed_door_is_not_named() -> None:
    async with open_server(http="none") as (server, _):
        assert server.http is None
        assert {door.protocol_binding for door in server.card.supported_interfaces} == {"GRPC"}


def test_the_card_names_what_clients_can_reach() -> None:
    open_to_all = Settings(anonymous_beyond_loopback=True, grpc="0.0.0.0:1")
    assert not interface_of(open_to_all, Address("0.0.0.0", 1)).url.startswith("0.")  # noqa: S104 - only named
    assert interface_of(Settings(public_grpc="agents.example:443"), Address("127.0.0.1", 1)).url == "agents.example:443"


HERE = Address("127.0.0.1", 1)
ANYWHERE = Address("0.0.0.0", 1)  # noqa: S104 - only named


@pytest.mark.req("PAID-05")
@pytest.mark.parametrize(
    ("settings", "http", "grpc", "issuer"),
    [
        ({}, HERE, HERE, "http://127.0.0.1:1"),
        ({"public_url": "https://agents.example/a2a/"}, HERE, HERE, "https://agents.example/a2a"),
        ({"public_url": "https://agents.example/a2a/"}, None, ANYWHERE, "https://agents.example/a2a"),
        ({"public_grpc": "grpc.example:443"}, None, ANYWHERE, "grpc.example:443"),
        ({}, None, HERE, "127.0.0.1:1"),
        ({}, None, ANYWHERE, f"{socket.gethostname()}:1"),
    ],
)
def test_webhooks_are_signed_by_whom_receivers_know(
    settings: dict[str, Any], http: Address | None, grpc: Address, issuer: str
) -> None:
    told = Settings(**settings)
    assert issuer_of(told, base_of(told, http) if http else "", grpc) == issuer


@pytest.mark.req("PAID-05")
async def test_a_server_without_an_http_door_signs_as_its_public_url() -> None:
    push = {"allow_loopback": True, "signing_keys": [ECKey.generate_key("P-256").as_pem(private=True).decode()]}
    settings = {"http": "none", "public_url": "https://agents.example", "push": push}
    async with receiver() as client, open_server(**settings) as (_, stub):
        request = message("hello")
        request.configuration.task_push_notification_config.url = client.url
        await stub.SendMessage(request)
        await asyncio.wait_for(client.arrived.wait(), 10)
    payload = client.received[0].headers["Authorization"].split(".")[1]
    assert json.loads(urlsafe_b64decode(payload + "=="))["iss"] == "https://agents.example"


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:1"),
        ({"public_url": "https://agents.example"}, "http://127.0.0.1:1"),  # says nothing about the gRPC door
        ({"public_grpc": "grpc.example:80"}, "http://grpc.example:80"),
        ({"public_grpc": "grpc.example:443", "public_url": "https://agents.example"}, "https://grpc.example:443"),
        ({"tls": {"cert": "c.pem", "key": "k.pem"}}, "https://127.0.0.1:1"),
    ],
)
def test_0_3_may_name_the_grpc_door_by_a_url(settings: dict[str, Any], url: str) -> None:
    interface = old_interface_of(Settings(**settings, legacy={"grpc_urls": True}), Address("127.0.0.1", 1))
    assert (interface.url, interface.protocol_binding, interface.protocol_version) == (url, "GRPC", "0.3")


async def test_clients_of_0_3_can_dial_what_their_card_says_of_grpc() -> None:
    async with open_server() as (server, _), ClientSession() as session:
        url = f"http://{server.http}/.well-known/agent-card.json"
        async with session.get(url, headers={"A2A-Version": "0.3"}) as answer:
            card = await answer.json()
        (address,) = [door["url"] for door in card["additionalInterfaces"] if door["transport"] == "GRPC"]
        async with grpc.aio.insecure_channel(address) as channel:
            stub: Any = a2a_v0_3_pb2_grpc.A2AServiceStub(channel)
            assert await code(stub.GetTask(v03.GetTaskRequest(name="tasks/t"))) == grpc.StatusCode.NOT_FOUND


@pytest.mark.req("AUTZ-02")
async def test_callers_see_their_own_tasks_only() -> None:
    async with open_server(auth=AUTH) as (_, stub):
        task = (await stub.SendMessage(message("hello"), metadata=ANN)).task
        request = pb.GetTaskRequest(id=task.id)
        assert (await stub.GetTask(request, metadata=ANN)).id == task.id
        assert await code(stub.GetTask(request, metadata=BOB)) == grpc.StatusCode.NOT_FOUND
        assert await code(stub.GetTask(request)) == grpc.StatusCode.UNAUTHENTICATED


async def test_a_refusal_names_the_schemes() -> None:
    async with open_server(auth=AUTH) as (server, stub):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetTask(pb.GetTaskRequest(id="t"))
        trailers: Any = caught.value.trailing_metadata()
        metadata = f'resource_metadata="http://{server.http}/.well-known/oauth-protected-resource"'
        assert dict(trailers)["www-authenticate"] == f'Bearer realm="a2a", {metadata}, ApiKey header="x-api-key"'


@pytest.mark.req("TENA-05")
async def test_tenants_do_not_see_each_other() -> None:
    async with open_server(tenants=["north", "south"], default_tenant="north") as (_, stub):
        task = (await stub.SendMessage(message("hello"))).task
        assert (await stub.GetTask(pb.GetTaskRequest(id=task.id, tenant="north"))).id == task.id
        assert await code(stub.GetTask(pb.GetTaskRequest(id=task.id, tenant="south"))) == grpc.StatusCode.NOT_FOUND
        denied = await code(stub.GetTask(pb.GetTaskRequest(id=task.id, tenant="west")))
        assert denied == grpc.StatusCode.PERMISSION_DENIED


async def test_strictness_and_old_codes_are_settings() -> None:
    async with open_server(strict_version=True, error_codes="1.0.0") as (_, stub):
        assert await code(stub.GetTask(pb.GetTaskRequest(id="t"))) == grpc.StatusCode.UNIMPLEMENTED


async def test_a_server_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    async with open_server() as (server, stub):
        await stub.SendMessage(message("hello"))
        await server.drain()
        assert await code(stub.GetTask(pb.GetTaskRequest(id="t"))) == grpc.StatusCode.UNAVAILABLE
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before


PEERS = {"wakeups": "peers", "peers": {"shared_key": "known to all servers of this test"}}


@pytest.mark.req("SCAL-01")
@pytest.mark.parametrize(
    ("settings", "event", "measured"),
    [
        ({}, "wakeups.connected", True),
        (PEERS, "peers.connected", True),
        ({"wakeups": "none"}, "wakeups.polling", False),
    ],
    ids=["postgres", "peers", "none"],
)
async def test_the_log_has_how_servers_tell_each_other_of_events(
    postgres: str, settings: dict[str, Any], event: str, *, measured: bool
) -> None:
    with capture_logs() as logs:
        async with open_server(store=postgres, **settings) as (_, stub):
            assert (await stub.SendMessage(message("hello"))).task.status.state == pb.TASK_STATE_COMPLETED
    (line,) = [line for line in logs if line["event"].startswith(("wakeups.", "peers."))]
    assert line["event"] == event
    assert (line.get("round_trip_ms", 0) > 0) is measured
    assert "known to all servers" not in str(logs)


async def test_other_servers_and_clients_have_different_ports(postgres: str) -> None:
    with capture_logs() as logs:
        async with open_server(store=postgres, wakeups="peers") as (server, _):
            (line,) = [line for line in logs if line["event"] == "peers.connected"]
            async with (
                grpc.aio.insecure_channel(str(server.grpc)) as door,
                grpc.aio.insecure_channel(line["address"]) as port,
            ):
                assert await code(PeerStub(door).Follow(iter(())).read()) is grpc.StatusCode.UNIMPLEMENTED
                call = a2a_pb2_grpc.A2AServiceStub(port).SendMessage(message("hello"))
                assert await code(call) is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.req("EXTN-10")
async def test_no_extension_of_ours_is_on_by_itself() -> None:
    async with open_server() as (server, _):
        assert not server.card.capabilities.extensions
    async with open_server(replay_extension=True) as (server, _):
        assert [extension.uri for extension in server.card.capabilities.extensions] == ["urn:a2a-server:replay:v1"]


# -- 0.3


def old_message(text: str) -> v03.SendMessageRequest:
    return v03.SendMessageRequest(
        request=v03.Message(message_id="m", role=v03.ROLE_USER, content=[v03.Part(text=text)]),
        configuration=v03.SendMessageConfiguration(blocking=True),
    )


@pytest.mark.req("VERS-07", "LGRP-01")
async def test_0_3_is_served_at_the_same_port_until_it_is_switched_off() -> None:
    async with open_server() as (server, _), grpc.aio.insecure_channel(str(server.grpc)) as channel:
        answer = await a2a_v0_3_pb2_grpc.A2AServiceStub(channel).SendMessage(old_message("hello"))
        assert answer.task.artifacts[0].parts[0].text == "hello"
    off = {"legacy": {"enabled": False}}
    async with open_server(**off) as (server, stub), grpc.aio.insecure_channel(str(server.grpc)) as channel:
        old = a2a_v0_3_pb2_grpc.A2AServiceStub(channel)
        assert await code(old.SendMessage(old_message("hello"))) == grpc.StatusCode.UNIMPLEMENTED
        assert {door.protocol_version for door in server.card.supported_interfaces} == {"1.0"}
        spoken = stub.GetTask(pb.GetTaskRequest(id="t"), metadata=[("a2a-server-spoken", "0.3")])
        assert await code(spoken) == grpc.StatusCode.FAILED_PRECONDITION


async def test_how_0_3_is_spoken_is_a_setting() -> None:
    file = v03.Part(file=v03.FilePart(file_with_bytes=b"\xff", mime_type="text/plain"))
    request = old_message("hello")
    request.request.content.append(file)
    request.ClearField("configuration")
    told = {"wait": "always", "raw_files": True}
    async with open_server(legacy=told) as (server, _), grpc.aio.insecure_channel(str(server.grpc)) as channel:
        answer = await a2a_v0_3_pb2_grpc.A2AServiceStub(channel).SendMessage(request)
    assert answer.task.status.state == v03.TASK_STATE_COMPLETED
    assert answer.task.history[0].content[1].file.file_with_bytes == b"\xff"


@pytest.mark.req("EXTN-10", "XTRA-03")
async def test_input_requests_and_answers_by_reference_are_off_until_switched_on() -> None:
    for settings, declared in (({}, False), ({"input_request_extension": True}, True)):
        async with open_server(**settings) as (server, _):
            assert (
                INPUT_REQUEST_URI in [extension.uri for extension in server.card.capabilities.extensions]
            ) is declared
            assert server.core.services.agents.root.input_requests is declared
            assert not server.core.services.answer_by_reference
    async with open_server(answer_by_reference=True) as (server, _):
        assert server.core.services.answer_by_reference


def faults(url: str, **push: Any) -> list[str]:
    delivery = delivery_of(Settings(push=Push(**push)), SystemClock(), "")
    assert delivery is not None
    return [fault.description for fault in delivery.sender.faults(pb.TaskPushNotificationConfig(url=url))]


@pytest.mark.req("SSRF-03", "CONF-63")
@pytest.mark.parametrize(
    ("url", "push"),
    [
        ("https://client.example/", {}),
        ("https://10.1.2.3/", {"allow_networks": "10.1.0.0/16"}),
        ("https://[fd00:64::5db8:d822]/", {"nat64_prefixes": "fd00:64::/96"}),
        ("http://client.example/", {"https_only": False}),
        ("http://127.0.0.1:1024/", {"allow_loopback": True}),
        ("https://a.client.example/", {"allow_hosts": ".client.example, other.example"}),
        ("https://client.example:22/", {"ports": "22,443"}),
    ],
)
def test_what_settings_allow(url: str, push: dict[str, object]) -> None:
    assert faults(url, **push) == []
    assert faults(url) == [] or push


@pytest.mark.req("SSRF-03", "CONF-63")
@pytest.mark.parametrize(
    ("url", "push"),
    [
        ("https://10.1.2.3/", {}),
        ("http://client.example/", {}),
        ("http://127.0.0.1:1024/", {}),
        ("https://client.example/", {"deny_hosts": "client.example"}),
        ("https://client.example/", {"allow_hosts": ".client.example"}),
        ("https://93.184.216.34/", {"deny_networks": "93.184.0.0/16"}),
        ("https://[2a00:64::a00:1]/", {"nat64_prefixes": "2a00:64::/96"}),
        ("https://client.example:8443/", {"ports": "443"}),
    ],
)
def test_what_settings_refuse(url: str, push: dict[str, object]) -> None:
    assert faults(url, **push)


@pytest.mark.req("CONF-63")
def test_the_development_switch_says_so_at_start() -> None:
    with capture_logs() as logs:
        delivery_of(Settings(), SystemClock(), "")
        assert not logs
        delivery_of(Settings(push=Push(allow_loopback=True)), SystemClock(), "")
    assert [entry["event"] for entry in logs] == ["push.loopback_allowed"]


async def test_authorities_may_have_comments_in_any_alphabet(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes("# Größe\n".encode() + trustme.CA().cert_pem.bytes())
    delivery = delivery_of(Settings(push=Push(trust=str(path))), SystemClock(), "")
    assert delivery is not None
    await delivery.sender.open()
    await delivery.sender.close()


@pytest.mark.req("CAPA-02")
def test_off_is_off() -> None:
    assert delivery_of(Settings(push=Push(enabled=False)), SystemClock(), "") is None


def test_patience_is_set_in_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(getattr(Push(), field.name) == field.default for field in dataclasses.fields(Patience))
    monkeypatch.setenv("A2A_PUSH__GIVE_UP_AFTER", "3")
    monkeypatch.setenv("A2A_PUSH__RETRY_FIRST", "0.5")
    delivery = delivery_of(load().settings, SystemClock(), "")
    assert delivery is not None
    assert (delivery.patience.give_up_after, delivery.patience.retry_first) == (3, 0.5)


def test_each_version_has_its_form_and_others_that_of_1_0() -> None:
    forms = forms_of()
    assert set(forms) == {"1.0", "0.3", "draft"}
    assert form_of(forms, "2.0") == forms["1.0"]
    assert [form_of(forms, version).whole for version in ("1.0", "0.3", "draft")] == [False, True, False]


def test_keys_in_the_environment_may_be_a_list_or_json(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("one, two", '["one", "two"]'):
        monkeypatch.setenv("A2A_PUSH__SECRET_KEYS", text)
        keys = load().settings.push.secret_keys
        assert [key.get_secret_value() for key in keys] == ["one", "two"]
        assert "one" not in repr(keys)
        with pytest.raises(UnusableKeys, match="secret_keys"):
            delivery_of(load().settings, SystemClock(), "")
    with pytest.raises(ValidationError):
        Push(secret_keys=cast("Any", "[1, 2"))


@pytest.mark.req("PAID-05")
def test_without_keys_there_is_no_page_of_keys() -> None:
    assert documents_of(Settings()) == {}


def test_books_are_those_of_a_file() -> None:
    with pytest.raises(StoreRefused, match="memory:"):
        push_admin_of(Settings(store="memory:"))
