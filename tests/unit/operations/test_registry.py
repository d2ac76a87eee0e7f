"""Who may run, who waits, and who comes next."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.operations.limits import Limits
from a2a_server.operations.turns.registry import QueuedTurn, Slots, owner_of
from a2a_server.ports.authenticator import Caller
from a2a_server.protocol.errors import A2AError, Reason

ANN, BOB, CID = (Caller(name, authenticated=True) for name in ("ann", "bob", "cid"))


def slots(*, running: int = 2, each: int = 2, waiting: int = 100) -> Slots:
    return Slots(Limits(running_turns=running, running_turns_per_caller=each, waiting_turns=waiting))


class Turns:
    """Enters turns and notes which have begun."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.begun: list[str] = []
        self.places: dict[str, QueuedTurn] = {}

    def enter(self, name: str, owner: str = "ann") -> None:
        if self.slots.occupy(owner):
            self.begun.append(name)
        else:
            self.places[name] = self.slots.wait(owner, lambda: self._woken(name))

    def _woken(self, name: str) -> None:
        if not self.places[name].canceled:
            self.begun.append(name)


@pytest.mark.req("AGNT-04")
def test_turns_begin_at_once_while_there_are_slots_and_then_in_order() -> None:
    turns = Turns(slots())
    for name in "abcd":
        turns.enter(name)
    assert (turns.begun, turns.slots.running, turns.slots.waiting) == (["a", "b"], 2, 2)
    turns.slots.release("ann")
    assert turns.begun == ["a", "b", "c"]
    turns.slots.release("ann")
    assert turns.begun == ["a", "b", "c", "d"]
    turns.slots.release("ann")
    turns.slots.release("ann")
    assert (turns.slots.running, turns.slots.waiting) == (0, 0)


@pytest.mark.req("AGNT-04", "LIMT-02")
def test_a_caller_who_has_its_share_lets_others_pass() -> None:
    turns = Turns(slots(running=3, each=1))
    turns.enter("a1", "ann")
    turns.enter("a2", "ann")
    turns.enter("b1", "bob")
    assert turns.begun == ["a1", "b1"]
    turns.slots.release("bob")
    assert turns.begun == ["a1", "b1"]
    turns.slots.release("ann")
    assert turns.begun == ["a1", "b1", "a2"]


@pytest.mark.req("AGNT-04")
def test_nobody_overtakes_its_own_queue() -> None:
    turns = Turns(slots(running=2, each=1))
    for name in ("a1", "a2"):
        turns.enter(name, "ann")
    turns.enter("b1", "bob")
    turns.slots.release("ann")  # a2 begins
    turns.enter("a3", "ann")
    assert turns.begun == ["a1", "b1", "a2"]


@pytest.mark.req("AGNT-04")
def test_the_queue_is_bounded_before_anything_happens() -> None:
    turns = Turns(slots(running=1, waiting=1))
    turns.slots.check(Caller())
    turns.enter("a", "")
    turns.enter("b", "")
    with pytest.raises(A2AError) as error:
        turns.slots.check(Caller())
    assert error.value.reason is Reason.OVERLOADED
    assert error.value.retry_after == 1


def admitted(turns: Turns, caller: Caller) -> bool:
    """Enter one more turn for the caller, if that is not refused."""
    try:
        turns.slots.check(caller)
    except A2AError:
        return False
    turns.enter(f"{caller.owner}{len(turns.places)}", owner_of(caller))
    return True


@pytest.mark.req("AGNT-04", "LIMT-02")
def test_an_owner_alone_may_fill_the_queue_and_keeps_nobody_out() -> None:
    turns = Turns(slots(running=1, waiting=12))
    turns.enter("first", owner_of(ANN))
    assert [admitted(turns, ANN) for _ in range(13)] == [True] * 12 + [False]
    assert [admitted(turns, BOB) for _ in range(7)] == [True] * 6 + [False]  # half, because two wait
    assert [admitted(turns, CID) for _ in range(5)] == [True] * 4 + [False]  # a third
    assert not admitted(turns, ANN._replace(extended_card=True))
    for place in turns.places.values():
        turns.slots.leave(place)
    assert turns.slots.waiting == 0
    assert [admitted(turns, CID) for _ in range(13)] == [True] * 12 + [False]  # nothing of the others is left


@pytest.mark.req("AGNT-04", "LIMT-02")
def test_naming_other_tenants_makes_nobody_another_owner() -> None:
    assert owner_of(ANN) == owner_of(Caller("ann", authenticated=True)) != owner_of(BOB)
    assert owner_of(ANN._replace(tenant="north")) != owner_of(ANN)  # bound to it by the operator
    assert owner_of(Caller("anonymous")) == owner_of(Caller("other")) == ""


@pytest.mark.req("AGNT-04", "LIMT-02")
def test_owners_take_turns_with_the_slots_that_get_free() -> None:
    turns = Turns(slots(running=1))
    for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
        turns.enter(name, name[0])
    for name in ("a", "a", "b"):
        turns.slots.release(name)
    turns.enter("b3", "b")
    turns.enter("c2", "c")  # had left the round, so it begins at the end
    for name in ("c", "a", "b", "c", "a"):
        turns.slots.release(name)
    assert turns.begun == ["a1", "a2", "b1", "c1", "a3", "b2", "c2", "a4", "b3"]


def test_whoever_leaves_does_not_begin_and_is_forgotten_at_once() -> None:
    """However long the first in the queue waits: a client that sends and cancels must not make the queue grow."""
    turns = Turns(slots(running=1))
    turns.enter("a")
    turns.enter("b")
    woken: list[str] = []
    place = turns.slots.wait("ann", lambda: woken.append("once"))
    gone = weakref.ref(place.wake)
    turns.slots.leave(place)
    turns.slots.leave(place)
    assert place.canceled
    assert woken == ["once"]
    assert turns.slots.waiting == 1
    del place
    gc.collect()
    assert gone() is None
    turns.slots.release("ann")
    assert turns.begun == ["a", "b"]


def test_leaving_after_the_slot_was_given_changes_nothing() -> None:
    turns = Turns(slots(running=1))
    turns.enter("a")
    turns.enter("b")
    turns.slots.release("ann")
    turns.slots.leave(turns.places["b"])
    assert not turns.places["b"].canceled
    assert (turns.slots.running, turns.slots.waiting) == (1, 0)


@pytest.mark.req("AGNT-04")
@given(
    st.lists(st.tuples(st.sampled_from(["enter", "leave", "release"]), st.sampled_from("ABC")), max_size=60),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_bounds_hold_nobody_starves_and_nothing_is_left(steps: list[tuple[str, str]], running: int, each: int) -> None:
    turns = Turns(slots(running=running, each=each))
    active: list[str] = []
    left: set[str] = set()
    for number, (step, owner) in enumerate(steps):
        before = len(turns.begun)
        if step == "enter":
            turns.enter(f"{owner}{number}", owner)
        elif step == "release" and any(name[0] == owner for name in active):
            active.remove(next(name for name in active if name[0] == owner))
            turns.slots.release(owner)
        elif step == "leave":
            for name, place in turns.places.items():
                if name[0] == owner and not place.left:
                    turns.slots.leave(place)
                    left.add(name)
                    break
        active += turns.begun[before:]
        waiting = [name for name, place in turns.places.items() if not place.left]
        assert turns.slots.running == len(active) <= running
        assert turns.slots.waiting == len(waiting)
        assert all(sum(name[0] == who for name in active) <= each for who in "ABC")
        if len(active) < running:  # a free slot means that whoever waits has its share
            assert all(sum(name[0] == who[0] for name in active) == each for who in waiting)
    while active:
        owner = active.pop(0)[0]
        before = len(turns.begun)
        turns.slots.release(owner)
        active += turns.begun[before:]
    assert (turns.slots.running, turns.slots.waiting) == (0, 0)
    assert not left & set(turns.begun)
    for who in "ABC":
        mine = [name for name in turns.begun if name[0] == who]
        assert mine == sorted(mine, key=lambda name: int(name[1:]))
