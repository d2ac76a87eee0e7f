"""The upstream over channels: several addresses, retries, servers that come and go."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from google.protobuf.message import Message
from google.rpc import code_pb2 as code

from a2a_gateway.channel import ChannelUpstream, UnusableOptions, call_failures, endpoints
from a2a_gateway.upstream import CallContext, Upstream, is_read
from a2a_proto import a2a_pb2 as pb
from a2a_server.operations.call import Call
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.options import ChannelOptions, target_of
from a2a_server.transport.grpc_options import GrpcOptions, Tls
from tests.support.upstreams import CARD, PLAIN, SERVICE, channel_to, get, items, refused, rpc
from tests.support.yielding import Batches, yielding
from tests.unit.transport.doors import Door, Seen, open_door

GET, SEND, STREAM = rpc("GetTask"), rpc("SendMessage"), rpc("SendStreamingMessage")


class Flaky:
    """Refuses the first calls."""

    def __init__(self, failures: int, reason: Reason = Reason.UNAVAILABLE) -> None:
        self.failures = failures
        self.calls = 0
        self._error = A2AError(reason, "Not now.", retry_after=1)

    async def __call__(self, call: Call, request: Message) -> Message:
        self.calls += 1
        if self.calls <= self.failures:
            raise self._error
        return pb.Task(id="t") if isinstance(request, pb.GetTaskRequest) else pb.SendMessageResponse()


def test_what_changes_nothing_is_read_off_the_annotations() -> None:
    reads = {method.name for method in (*SERVICE.methods, CARD) if is_read(method)}
    assert reads == {
        "GetTask",
        "ListTasks",
        "SubscribeToTask",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "GetExtendedAgentCard",
        "GetAgentCard",
    }


@pytest.mark.req("DOOR-01", "IDEM-01")
async def test_a_read_is_tried_again() -> None:
    flaky = Flaky(2)
    async with open_door({"GetTask": flaky}) as door, channel_to(door.address.port) as to:
        assert await get(to) == "t"
    assert flaky.calls == 3


async def test_a_read_is_not_tried_for_ever() -> None:
    flaky = Flaky(99)
    async with open_door({"GetTask": flaky}) as door, channel_to(door.address.port, attempts=2) as to:
        refusal = await refused(get(to))
    assert (refusal.code, refusal.message) == (code.UNAVAILABLE, "Not now.")
    assert flaky.calls == 2


async def test_a_read_is_not_tried_beyond_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_failures, "FIRST_PAUSE", 60.0)
    flaky = Flaky(99)
    async with open_door({"GetTask": flaky}) as door, channel_to(door.address.port) as to:
        assert (await refused(get(to, CallContext({}, 5)))).message == "Not now."
    assert flaky.calls == 1


@pytest.mark.parametrize("reason", [Reason.OVERLOADED, Reason.INTERNAL, Reason.TASK_NOT_FOUND])
async def test_only_absence_is_a_reason_to_try_again(reason: Reason) -> None:
    flaky = Flaky(1, reason)
    async with open_door({"GetTask": flaky}) as door, channel_to(door.address.port) as to:
        assert (await refused(get(to))).code == reason.status()
    assert flaky.calls == 1


@pytest.mark.req("DOOR-01")
async def test_a_send_is_never_sent_twice() -> None:
    flaky = Flaky(1)
    async with open_door({"SendMessage": flaky}) as door, channel_to(door.address.port) as to:
        assert (await refused(to.unary(SEND, pb.SendMessageRequest(), PLAIN))).message == "Not now."
    assert flaky.calls == 1


@asynccontextmanager
async def several(*names: str) -> AsyncIterator[list[Door]]:
    """Servers whose tasks bear their names."""
    async with AsyncExitStack() as stack:
        answers = [{"GetTask": Seen().answering(pb.Task(id=name))} for name in names]
        yield [await stack.enter_async_context(open_door(answer)) for answer in answers]


async def connected(to: ChannelUpstream, *names: str) -> None:
    """Wait until calls reach all of these, and nobody else."""
    async with asyncio.timeout(30):
        while {await get(to) for _ in range(2 * len(names))} != set(names):  # noqa: ASYNC110 - as a client would
            await asyncio.sleep(0.01)


@pytest.mark.req("DOOR-01")
async def test_calls_go_round_all_addresses() -> None:
    async with several("a", "b", "c") as doors, channel_to(*(door.address.port for door in doors)) as to:
        await connected(to, "a", "b", "c")
        assert Counter([await get(to) for _ in range(30)]) == {"a": 10, "b": 10, "c": 10}


async def test_calls_go_round_all_addresses_of_one_target() -> None:
    async with several("a", "b") as doors:
        target = "ipv4:" + ",".join(str(door.address) for door in doors)
        to = ChannelUpstream(ChannelOptions(addresses=(target,)))
        await connected(to, "a", "b")
        assert Counter([await get(to) for _ in range(20)]) == {"a": 10, "b": 10}
        await to.close()


@pytest.mark.req("DOOR-01")
async def test_of_two_servers_one_may_die() -> None:
    async with several("a", "b") as doors, channel_to(*(door.address.port for door in doors)) as to:
        await connected(to, "a", "b")
        await doors[0].server.stop(None)
        assert {await get(to) for _ in range(20)} == {"b"}
        assert await to.ready()


async def test_with_health_checks_a_server_that_stops_gets_no_new_calls() -> None:
    async with several("a", "b") as doors:
        ports = [door.address.port for door in doors]
        async with channel_to(*ports, health_checks=True) as to:
            await connected(to, "a", "b")
            await doors[0].server.refuse_health()
            await connected(to, "b")
            await doors[1].server.refuse_health()
            async with asyncio.timeout(30):
                while await to.ready():  # noqa: ASYNC110 - an answer counts for a moment
                    await asyncio.sleep(0.01)


@pytest.mark.req("DOOR-01", "ERRS-06")
async def test_without_a_server_calls_fail_at_once() -> None:
    async with several("a") as (door,):
        port = door.address.port
    async with channel_to(port) as to:
        for method in (GET, SEND):
            refusal = await refused(to.unary(method, pb.GetTaskRequest(id="t"), PLAIN))
            assert (refusal.code, refusal.message) == (code.UNAVAILABLE, "The agent's server cannot be reached now.")
            assert [packed.TypeName().rpartition(".")[2] for packed in refusal.details] == ["ErrorInfo", "RetryInfo"]
        assert (await refused(stream_of(to))).code == code.UNAVAILABLE
        assert not await to.ready()


async def stream_of(to: Upstream, context: CallContext = PLAIN) -> list[Any]:
    return await items(await to.stream(STREAM, pb.SendMessageRequest(), context))


async def test_a_name_that_nobody_has_is_an_absence_too() -> None:
    async with channel_to(50051, host="nowhere.invalid") as to:
        refusal = await refused(get(to))
    assert refusal.code == code.UNAVAILABLE
    assert "nowhere" not in str(refusal)


class Dns(asyncio.DatagramProtocol):
    """Knows no name until it is told to; then every name is this machine's."""

    def __init__(self) -> None:
        self.knows = False
        self.asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.asked += 1
        end = data.index(0, 12) + 5
        question = data[12:end]
        address = self.knows and question[-4:-2] == b"\0\1"
        header = data[:2] + (b"\x81\x80" if self.knows else b"\x81\x83") + struct.pack(">4H", 1, address, 0, 0)
        answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton("127.0.0.1") if address else b""
        self._transport.sendto(header + question + answer, addr)


async def test_a_name_that_becomes_known_is_noticed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "RENEW_SECONDS", 0.1)
    loop = asyncio.get_running_loop()
    async with several("a") as (door,):
        transport, dns = await loop.create_datagram_endpoint(Dns, local_addr=("127.0.0.1", 0))
        port = transport.get_extra_info("sockname")[1]
        to = ChannelUpstream(ChannelOptions(addresses=(f"dns://127.0.0.1:{port}/a.test:{door.address.port}",)))
        async with asyncio.timeout(30):
            while dns.asked < 10:  # gRPC by itself would have asked twice in the first second
                await refused(get(to))
                await asyncio.sleep(0.05)
        dns.knows = True
        await connected(to, "a")
        await to.close()
        transport.close()


async def test_an_answer_that_is_too_large_is_told_apart() -> None:
    big = Seen().answering(pb.Task(id="x" * 10_000))
    async with open_door({"GetTask": big}) as door, channel_to(door.address.port, max_message_bytes=1000) as to:
        refusal = await refused(get(to))
    assert (refusal.code, refusal.message) == (code.INTERNAL, "The answer is larger than this gateway accepts.")


async def test_a_request_that_is_too_large_is_told_apart() -> None:
    async with open_door(options=GrpcOptions(max_message_bytes=1000)) as door, channel_to(door.address.port) as to:
        refusal = await refused(to.unary(GET, pb.GetTaskRequest(id="x" * 10_000), PLAIN))
    assert refusal.message == "The request is larger than the agent's server accepts."


@pytest.mark.req("DURA-08")
async def test_a_gateway_that_stops_tells_its_readers() -> None:
    asked = asyncio.Event()

    @yielding
    async def endless(call: Call, request: Message) -> Batches:
        asked.set()
        await asyncio.Event().wait()
        yield ()

    told: list[A2AError] = []
    async with open_door({"SendStreamingMessage": endless}) as door:
        to = ChannelUpstream(ChannelOptions(addresses=(str(door.address),)))
        stream = await to.stream(STREAM, pb.SendMessageRequest(), PLAIN)

        async def cut(error: A2AError) -> None:
            told.append(error)
            reading.cancel()

        stream.on_cut(cut)
        reading = asyncio.ensure_future(items(stream))
        await asked.wait()
        await to.close()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert [(error.reason, error.retry_after) for error in told] == [(Reason.UNAVAILABLE, 1)]
        assert not to._streams  # noqa: SLF001 - nothing is left behind


def test_without_an_address_there_is_nothing_to_call() -> None:
    with pytest.raises(UnusableOptions, match="needs the address of at least one server"):
        ChannelUpstream(ChannelOptions())


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("agent:50051", "dns:///agent:50051"),
        ("127.0.0.1:50051", "dns:///127.0.0.1:50051"),
        ("[::1]:50051", "dns:///[::1]:50051"),
        ("unix:/run/a2a.sock", "unix:/run/a2a.sock"),
        ("ipv4:10.0.0.1:1,10.0.0.2:1", "ipv4:10.0.0.1:1,10.0.0.2:1"),
    ],
)
def test_addresses(address: str, target: str) -> None:
    assert target_of(address) == target


@pytest.mark.parametrize(
    "address", ["", "agent", "agent:", ":1", "::1:1", "agent:0", "agent:65536", "http://agent:1", "a b:1"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT, such as"):
        target_of(address)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, ca = tmp_path_factory.mktemp("tls"), trustme.CA()
    for name in ("agent", "gateway"):
        issued = ca.issue_cert(f"{name}.example")
        (folder / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        (folder / f"{name}.key").write_bytes(issued.private_key_pem.bytes())
    (folder / "ca.pem").write_bytes(ca.cert_pem.bytes())
    return folder


def tls(folder: Path, *, mutual: bool = False) -> Tls:
    ca = str(folder / "ca.pem") if mutual else ""
    return Tls(cert=str(folder / "agent.pem"), key=str(folder / "agent.key"), client_ca=ca)


@pytest.mark.req("DOOR-01")
async def test_tls_with_its_own_authority_and_name(folder: Path) -> None:
    options = {"ca": str(folder / "ca.pem"), "server_name": "agent.example"}
    async with open_door(tls=tls(folder)) as door, channel_to(door.address.port, **options) as to:
        assert await get(to) == "t"


@pytest.mark.req("DOOR-01")
async def test_tls_with_certificates_on_both_sides(folder: Path) -> None:
    own = {"cert": str(folder / "gateway.pem"), "key": str(folder / "gateway.key")}
    options = {"ca": str(folder / "ca.pem"), "server_name": "agent.example"}
    async with open_door(tls=tls(folder, mutual=True)) as door:
        async with channel_to(door.address.port, **own, **options) as to:
            assert await get(to) == "t"
        async with channel_to(door.address.port, **options) as to:
            assert (await refused(get(to))).code == code.UNAVAILABLE


@pytest.mark.parametrize("ca", ["", "ca.pem"], ids=["the system's authorities", "another name"])
async def test_nobody_else_is_talked_to(folder: Path, ca: str) -> None:
    options: dict[str, Any] = {"tls": True, "ca": str(folder / ca) if ca else ""}
    async with open_door(tls=tls(folder)) as door, channel_to(door.address.port, **options) as to:
        assert (await refused(get(to))).code == code.UNAVAILABLE
        assert not door.seen.calls
