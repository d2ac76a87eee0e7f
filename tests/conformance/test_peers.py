"""Wake-ups from server to server: what is told, to whom, and what happens when it does not arrive (spec: SCAL-01)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from socket import create_connection
from typing import Any

import grpc
import pytest
import structlog
import trustme

from a2a_proto.peers_pb2 import Asked, Growth
from a2a_proto.peers_pb2_grpc import PeerStub
from a2a_server.ports.records import Entry
from tests.support.house import (
    SHARED_NAME,
    Identity,
    LocalWakeups,
    MemoryStore,
    PeerTls,
    PeerWakeups,
    peer_door,
    peer_link,
    shared_identity,
)
from tests.support.relay import Relay, relay

KEY = "a shared key that is long enough for all"


def entries(first: int, last: int, size: int = 10) -> Sequence[Entry]:
    return [Entry(number, bytes([number % 256]) * size) for number in range(first, last + 1)]


class Ear:
    """Keeps what it is told. A hint without a number only shows that it is heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, Sequence[Entry]]] = []
        self.hinted = False

    def woken(self, number: int, entries: Sequence[Entry]) -> None:
        self.hinted = True
        if number:
            self.heard.append((number, entries))

    @property
    def number(self) -> int:
        return self.heard[-1][0] if self.heard else 0

    @property
    def entries(self) -> Sequence[Entry]:
        return [entry for _, entries in self.heard for entry in entries]


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)


def shared(key: str = KEY) -> PeerTls:
    return PeerTls(shared_identity(key), SHARED_NAME)


def issued(authority: trustme.CA, name: str, trusts: trustme.CA | None = None) -> Identity:
    made = authority.issue_cert(name)
    chain = b"".join(pem.bytes() for pem in made.cert_chain_pems)
    return Identity(made.private_key_pem.bytes(), chain, (trusts or authority).cert_pem.bytes())


class Place:
    """A store, and the servers on it."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.store = MemoryStore()
        self._stack = stack

    async def server(self, tls: PeerTls | None = None, *, behind: Relay | None = None) -> PeerWakeups:
        """The wake-ups of one more server, which the others reach directly, or through a relay."""
        one = PeerWakeups(LocalWakeups(), self.store, tls, look_every=0.05)
        port = one.listen_at("127.0.0.1:0")
        self._stack.push_async_callback(one.close)
        if behind is not None:
            behind.target = port
        await one.start(f"127.0.0.1:{behind.port if behind else port}")
        await self.store.beat(f"session of {port}", 600, one.address)
        return one


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        yield Place(stack)


@asynccontextmanager
async def behind_relay(place: Place) -> AsyncIterator[tuple[PeerWakeups, PeerWakeups, Relay]]:
    """Two servers; the second one reaches the first through the relay."""
    async with relay() as between:
        here, there = await place.server(shared(), behind=between), await place.server(shared())
        await until(lambda: there.round_trips)
        yield here, there, between


async def follow(here: PeerWakeups, there: PeerWakeups, task_id: str = "t") -> Ear:
    """Somebody on one server who follows a log that is written on the other."""
    ear = Ear()
    await until(lambda: here.address in there.round_trips)
    there.listen(task_id, ear)
    there.ask_others(task_id, ear)
    await hears(here, ear, task_id)
    return ear


async def hears(here: PeerWakeups, ear: Ear, task_id: str = "t") -> None:
    """Wait until the server knows who follows the log."""
    ear.hinted = False

    def hinted() -> bool:
        here.tell(task_id, 0, ())
        return ear.hinted

    await until(hinted)


@pytest.mark.req("SCAL-01")
@pytest.mark.parametrize("tls", [None, "shared", "files", "named files"])
async def test_entries_arrive_where_somebody_follows_and_nowhere_else(place: Place, tls: str | None) -> None:
    authority = trustme.CA()
    kinds: Mapping[str | None, Callable[[], PeerTls | None]] = {
        None: lambda: None,
        "shared": shared,
        "files": lambda: PeerTls(issued(authority, "127.0.0.1")),
        "named files": lambda: PeerTls(issued(authority, "peers.example"), "peers.example"),
    }
    here, there = await place.server(kinds[tls]()), await place.server(kinds[tls]())
    ear, other, near = await follow(here, there), Ear(), Ear()
    there.listen("other", other)
    here.listen("t", near)
    for first in range(1, 200, 2):
        here.tell("t", first + 1, entries(first, first + 1))
        here.tell("other", first + 1, entries(first, first + 1))
    await until(lambda: ear.number == 200)
    assert list(ear.entries) == list(near.entries) == entries(1, 200)
    assert not other.heard
    assert 0 < there.round_trips[here.address] < 30


async def test_who_has_left_is_told_nothing(place: Place) -> None:
    here, there = await place.server(), await place.server()
    gone, stays = await follow(here, there, "gone"), await follow(here, there, "stays")
    there.forget("gone", gone)
    await until(lambda: "gone" not in here._door._followers)  # noqa: SLF001 - nobody else knows
    here.tell("gone", 1, entries(1, 1))
    here.tell("stays", 1, entries(1, 1))
    await until(lambda: stays.heard)
    assert not gone.heard


async def test_a_listener_that_leaves_late_takes_nothing_from_the_next_one(place: Place) -> None:
    here, there = await place.server(), await place.server()
    early, late = await follow(here, there), Ear()
    there.listen("t", late)
    there.ask_others("t", late)
    there.forget("t", early)
    here.tell("t", 1, entries(1, 1))
    await until(lambda: late.heard)
    assert not early.heard


async def test_hints_go_no_further_than_to_those_who_asked(place: Place) -> None:
    """What one server hears from another it does not tell a third one, which has asked both."""
    servers = [await place.server() for _ in range(3)]
    ears = [await follow(servers[0], one) for one in servers[1:]]
    servers[0].tell("t", 1, entries(1, 1))
    for ear in ears:
        await until(lambda ear=ear: ear.heard)  # type: ignore[misc]  # mypy knows no defaults of lambdas
    await asyncio.sleep(0.05)
    assert [[number for number, _ in ear.heard] for ear in ears] == [[1], [1]]


# -- bounds


@pytest.fixture
def followers() -> dict[str, set[peer_door.Follower]]:
    return {}


async def test_what_comes_together_is_told_together(followers: dict[str, set[peer_door.Follower]]) -> None:
    follower = peer_door.Follower(followers)
    for number in range(1, 101):
        follower.add("t", number, entries(number, number))
        follower.add(f"task-{number}", 1, entries(1, 1))
    message = await follower.next()
    assert message is not None
    grown = {one.task_id: one for one in message.logs}
    assert (grown["t"].number, len(grown["t"].entries), len(grown)) == (100, 100, 101)


async def test_a_server_that_takes_nothing_is_told_numbers_alone(
    followers: dict[str, set[peer_door.Follower]],
) -> None:
    follower = peer_door.Follower(followers)
    for number in range(1, 101):
        follower.add("t", number, entries(number, number, 100_000))
        follower.add("other", number, ())
    first = await follower.next()
    assert first is not None
    assert first.ByteSize() < 5_000_000
    assert {one.task_id: one.number for one in first.logs} == {"t": 100, "other": 100}
    follower.add("t", 101, entries(101, 101, 100_000))
    second = await follower.next()
    assert second is not None
    assert [(one.number, len(one.entries)) for one in second.logs] == [(101, 1)]


async def test_an_entry_that_is_too_large_is_left_out(followers: dict[str, set[peer_door.Follower]]) -> None:
    follower = peer_door.Follower(followers)
    follower.add("t", 1, entries(1, 1))
    follower.add("t", 2, entries(2, 2, 5_000_000))
    message = await follower.next()
    assert message is not None
    assert [(one.number, len(one.entries)) for one in message.logs] == [(2, 0)]


async def test_entries_after_a_gap_stand_alone(followers: dict[str, set[peer_door.Follower]]) -> None:
    """Another server has written in between: the entries of one message have no gaps."""
    follower = peer_door.Follower(followers)
    follower.add("t", 2, entries(1, 2))
    follower.add("t", 5, entries(5, 5))
    message = await follower.next()
    assert message is not None
    assert [(one.number, list(one.entries)) for one in message.logs] == [(5, [entries(5, 5)[0].wire])]


async def test_one_server_follows_so_many_logs_and_no_more(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_door, "_MOST_FOLLOWED", 2)
    here, there = await place.server(), await place.server()
    ears = [await follow(here, there, task_id) for task_id in ("one", "two")]
    beyond = Ear()
    there.listen("three", beyond)
    there.ask_others("three", beyond)
    there.forget("one", ears[0])
    await until(lambda: "one" not in here._door._followers)  # noqa: SLF001 - nobody else knows
    here.tell("three", 1, entries(1, 1))
    here.tell("two", 1, entries(1, 1))
    await until(lambda: ears[1].heard)
    assert not beyond.heard


# -- connections


@pytest.fixture
def said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has a lost connection as soon as it is lost."""
    monkeypatch.setattr(peer_link, "_UNSAID", 0.0)


@pytest.mark.req("SCAL-01")
@pytest.mark.usefixtures("said_at_once")
async def test_a_connection_that_is_cut_comes_back_and_knows_what_was_followed(place: Place) -> None:
    async with behind_relay(place) as (here, there, between):
        ear = await follow(here, there)
        with structlog.testing.capture_logs() as logs:
            between.cut()
            await until(lambda: here.address not in there.round_trips)
            late = Ear()
            there.listen("late", late)
            there.ask_others("late", late)
            await until(lambda: here.address in there.round_trips)
        await hears(here, late, "late")
        here.tell("t", 1, entries(1, 1))
        await until(lambda: ear.heard)
        assert ear.entries == entries(1, 1)
        lines = [(line["event"], line.get("why")) for line in logs if line["address"] == here.address]
        assert lines == [("peers.unreachable", "the connection was lost"), ("peers.connected", None)]


async def test_nothing_is_said_of_a_connection_that_is_back_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_link, "_UNSAID", 30.0)  # so long may a busy machine take
    async with behind_relay(place) as (here, there, between):
        ear = await follow(here, there)
        with structlog.testing.capture_logs() as logs:
            before = between.passed
            between.cut()
            await until(lambda: between.passed > before)
            await hears(here, ear)
        assert not [line for line in logs if line["address"] == here.address]


async def test_nothing_is_said_of_a_server_that_stops(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session is over, and so it is not looked for any more."""
    monkeypatch.setattr(peer_link, "_UNSAID", 30.0)
    here, there = await place.server(), await place.server()
    await follow(here, there)
    with structlog.testing.capture_logs() as logs:
        await place.store.end_session(f"session of {here.address.rpartition(':')[2]}")
        await here.close()
        await until(lambda: not there._links)  # noqa: SLF001 - nobody else knows
    assert not logs


@pytest.mark.req("SCAL-01")
@pytest.mark.usefixtures("said_at_once")
async def test_a_server_that_has_fallen_silent_is_noticed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_link, "_PING", 0.2)
    monkeypatch.setattr(peer_link, "_SILENCE", 2.0)
    monkeypatch.setattr(peer_link, "_CONNECT", 2.0)
    async with behind_relay(place) as (here, there, between):
        ear = await follow(here, there)
        with structlog.testing.capture_logs() as logs:
            between.passing.clear()
            here.tell("t", 1, entries(1, 1))
            await until(lambda: here.address not in there.round_trips)
            before = between.passed
            await until(lambda: between.passed > before)
            between.passing.set()
            await until(lambda: here.address in there.round_trips)
        await hears(here, ear)
        why = [line["why"] for line in logs if line["event"] == "peers.unreachable" and line["address"] == here.address]
        assert why == ["it does not answer"]


@pytest.mark.req("SCAL-01")
async def test_a_slow_server_holds_up_no_other(place: Place) -> None:
    """It does not read, and is not sent more than a few megabytes: the number of the last entry stands for the rest."""

    async def asks() -> AsyncIterator[Asked]:
        yield Asked(follow=["t"])
        await asyncio.Event().wait()

    here, quick = await place.server(), await place.server()
    ear = await follow(here, quick)
    async with grpc.aio.insecure_channel(here.address) as channel:
        slow = PeerStub(channel).Follow(asks())
        await until(lambda: len(here._door._followers["t"]) == 2)  # noqa: SLF001 - nobody else knows
        for number in range(1, 301):
            here.tell("t", number, entries(number, number, 100_000))
            while ear.number != number:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.001)
        assert list(ear.entries) == entries(1, 300, 100_000)
        logs = [log async for log in logs_of(slow, until=300)]
        slow.cancel()
    assert sum(len(log.entries) for log in logs) < 200


async def logs_of(call: Any, until: int) -> AsyncIterator[Growth]:
    """What is told of a log, up to a number."""
    while True:
        for log in (await call.read()).logs:
            yield log
            if log.number == until:
                return


async def test_who_has_no_session_any_more_is_left(place: Place) -> None:
    here, there = await place.server(), await place.server()
    await follow(here, there)
    await place.store.end_session(f"session of {here.address.rpartition(':')[2]}")
    await until(lambda: not there.round_trips)


async def test_an_address_that_leads_back_is_not_taken_for_another_server(place: Place) -> None:
    async with relay() as between:
        one = await place.server()
        between.target = int(one.address.rpartition(":")[2])
        with structlog.testing.capture_logs() as logs:
            await place.store.beat("its twin", 600, between.address)
            await until(lambda: logs)
        assert [line["why"] for line in logs] == ["the address leads to this very server"]
        assert not one.round_trips


# -- strangers


@pytest.mark.req("SCAL-01")
@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        ("no key", "it ends connections at once: it uses TLS, or does not accept this server's certificate"),
        ("another key", "its certificate is of another authority: peers.shared_key or peers.ca differ"),
        ("another authority", "its certificate is of another authority: peers.shared_key or peers.ca differ"),
        ("not accepted", "it ends connections at once: it uses TLS, or does not accept this server's certificate"),
        ("another name", "its certificate does not name it: check peers.advertise, peers.server_name"),
    ],
)
async def test_a_stranger_hears_nothing_and_is_told_why(place: Place, theirs: str, why: str) -> None:
    one, two = trustme.CA(), trustme.CA()
    tls = {
        "no key": (shared(), None),
        "another key": (shared(), shared("some other key that is long enough, too")),
        "another authority": (PeerTls(issued(one, "127.0.0.1")), PeerTls(issued(two, "127.0.0.1"))),
        "not accepted": (PeerTls(issued(one, "127.0.0.1")), PeerTls(issued(two, "127.0.0.1", trusts=one))),
        "another name": (PeerTls(issued(one, "a.example"), "a.example"), PeerTls(issued(one, "127.0.0.1"))),
    }[theirs]
    here = await place.server(tls[0])
    with structlog.testing.capture_logs() as logs:
        stranger = await place.server(tls[1])
        ear = Ear()
        stranger.listen("t", ear)
        stranger.ask_others("t", ear)
        await until(lambda: any(line["address"] == here.address for line in logs))
    here.tell("t", 1, entries(1, 1))
    await asyncio.sleep(0.1)
    assert not ear.heard
    assert here.address not in stranger.round_trips
    assert "t" not in here._door._followers  # noqa: SLF001 - that nothing was asked
    (line,) = [line for line in logs if line["address"] == here.address]
    assert (line["event"], line["why"]) == ("peers.unreachable", why)


async def test_a_certificate_with_another_name_is_refused_in_these_words(place: Place) -> None:
    authority = trustme.CA()
    here = await place.server(PeerTls(issued(authority, "peers.example"), "peers.example"))
    other = issued(authority, "someone.example")
    credentials = grpc.ssl_channel_credentials(other.ca, other.key, other.cert)
    named = [("grpc.ssl_target_name_override", "peers.example")]
    async with grpc.aio.secure_channel(here.address, credentials, named) as channel:
        call = PeerStub(channel).Follow(iter([Asked(follow=["t"])]))
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await call.read()
    assert refusal.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert refusal.value.details() == "The certificate does not name peers.example."


async def test_nonsense_on_the_port_harms_nobody(place: Place) -> None:
    here, there = await place.server(shared()), await place.server(shared())
    host, _, port = here.address.rpartition(":")
    for said in (b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 100, b""):
        with closing(create_connection((host, int(port)))) as connection:
            connection.sendall(said)
    ear = await follow(here, there)
    here.tell("t", 1, entries(1, 1))
    await until(lambda: ear.heard)


async def test_new_certificates_count_for_new_connections(place: Place) -> None:
    one, two = trustme.CA(), trustme.CA()
    now = {"ca": one}

    def renewing() -> PeerTls:
        return PeerTls(issued(one, "127.0.0.1"), again=lambda: issued(now["ca"], "127.0.0.1"))

    here = await place.server(renewing())
    now["ca"] = two
    there = await place.server(renewing())
    ear = await follow(here, there)
    here.tell("t", 1, entries(1, 1))
    await until(lambda: ear.heard)
    stays = PeerTls(issued(two, "127.0.0.1"), again=lambda: None)
    third = await place.server(stays)
    await until(lambda: here.address in third.round_trips)


async def test_a_connection_that_misses_its_cancel_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC may end a call at the moment of the cancel, and then says that the call was canceled."""
    missed: list[str] = []

    async def keep(link: peer_link.PeerLink) -> None:
        link.tried.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            missed.append(link.address)
        await asyncio.sleep(3600)

    monkeypatch.setattr(peer_link.PeerLink, "keep", keep)
    async with asyncio.timeout(30), AsyncExitStack() as stack:
        here = await Place(stack).server()
    assert missed == [here.address]
