"""What waits for slow clients: who has to go when it is too much (spec: DOOR-04, RPLY-06)."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from a2a_gateway.http.backlog import NO_TEXT, PATIENCE, Backlog, SharedText


@dataclass(eq=False)
class Client:
    unsent: int
    text: SharedText = NO_TEXT
    gone: bool = False

    def cut_off(self) -> None:
        self.gone = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def gone(*clients: Client) -> list[bool]:
    return [client.gone for client in clients]


@pytest.mark.req("DOOR-04", "RPLY-06")
def test_the_one_for_whom_the_most_waits_has_to_go() -> None:
    backlog = Backlog(100)
    clients = [Client(40), Client(50), Client(10)]
    for client in clients:
        backlog.wait(client)
    assert (backlog.size, gone(*clients)) == (100, [False, False, False])
    late = Client(11)
    backlog.wait(late)
    assert (backlog.size, gone(*clients, late)) == (61, [False, True, False, False])


@pytest.mark.req("RPLY-06")
def test_as_many_go_as_it_takes_and_the_last_one_stays() -> None:
    backlog = Backlog(10)
    clients = [Client(6), Client(4), Client(500)]
    for client in clients:
        backlog.wait(client)
    assert gone(*clients) == [False, False, True]
    alone = Backlog(10)
    alone.wait(clients[2])
    assert alone.size == 500
    alone.wait(Client(600))
    assert alone.size == 500


@pytest.mark.req("RPLY-06")
def test_who_has_just_been_sent_something_goes_last(clock: list[float]) -> None:
    backlog = Backlog(100)
    deaf, slow, fresh = Client(40), Client(50), Client(60)
    for client in (deaf, slow):
        backlog.wait(client)
    clock[0] += PATIENCE + 1
    slow.unsent = 45  # has taken something since
    for client in (deaf, slow, fresh):
        backlog.wait(client)
    assert gone(deaf, slow, fresh) == [True, False, True]
    assert backlog.size == 45


def test_what_was_taken_is_forgotten() -> None:
    backlog = Backlog(100)
    client = Client(60)
    for unsent in (60, 90, 10):
        client.unsent = unsent
        backlog.wait(client)
        assert backlog.size == unsent
    backlog.go_on(client)
    backlog.go_on(client)
    assert backlog.size == 0


@pytest.mark.req("RPLY-06")
def test_what_is_shared_counts_once() -> None:
    backlog = Backlog(1000)
    text = SharedText(b"x" * 700, beside=50)
    clients = [Client(20, text) for _ in range(10)]
    for client in clients:
        backlog.wait(client)
    assert backlog.size == 750 + 200
    for client in clients[1:]:
        backlog.go_on(client)
    assert backlog.size == 750 + 20
    other = Client(0, SharedText(b"y" * 300))
    backlog.wait(other)
    assert (backlog.size, gone(clients[0], other)) == (300, [True, False])
    backlog.go_on(other)
    assert backlog.size == 0
    assert not backlog._holders  # noqa: SLF001 - or texts would stay
