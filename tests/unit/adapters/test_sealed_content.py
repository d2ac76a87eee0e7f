"""Content of stores: sealed for one place, opened there only, and clear about what is wrong (spec: SECR-03)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.records import Receipt
from a2a_server.ports.sealing import PLAIN, UNSEALED, Place, event_place, head_place
from a2a_server.ports.store import StoreDamaged, StoreRefused
from tests.conformance.authors import chunk
from tests.support.house import Scope, SealedContent

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
HERE: Place = ("head", "acme", "ann", "t")
ANN = Scope("acme", "ann")
EVENT = chunk(7, "cinnamon").wire


@pytest.mark.req("SECR-03")
@given(st.binary(max_size=200), st.text(max_size=10), st.sampled_from([(OLD,), (NEW, OLD)]))
def test_what_is_sealed_opens(value: bytes, name: str, keys: tuple[bytes, ...]) -> None:
    sealing = SealedContent(keys)
    for place in (("head", name), event_place(name, 7)):
        sealed = sealing.seal(value, place)
        assert sealing.open(sealed, place) == value
        assert SealedContent(keys).open(sealed, place) == value  # by another process
        assert bool(sealed) == bool(value)


@pytest.mark.req("SECR-03")
def test_a_sealed_value_shows_nothing_and_no_two_are_equal() -> None:
    sealing = SealedContent([OLD])
    sealed = {sealing.seal(b"cinnamon", HERE) for _ in range(1000)}
    assert len(sealed) == 1000
    assert not any(b"cinnamon" in one for one in sealed)
    assert {len(one) for one in sealed} == {len(b"cinnamon") + 43}
    assert OLD.hex() not in repr(vars(sealing)["_boxes"])


@pytest.mark.req("SECR-03")
def test_two_processes_never_count_alike() -> None:
    """A nonce that is used twice would show both values."""
    one, two = SealedContent([OLD]), SealedContent([OLD])
    assert one.seal(b"cinnamon", HERE)[9:27] != two.seal(b"cinnamon", HERE)[9:27]


@pytest.mark.req("SECR-03")
def test_the_first_key_seals_and_all_open() -> None:
    old, both = SealedContent([OLD]), SealedContent([NEW, OLD])
    was = old.seal(b"cinnamon", HERE)
    now = both.seal(b"cinnamon", HERE)
    assert both.open(was, HERE) == b"cinnamon"
    assert SealedContent([NEW]).open(now, HERE) == b"cinnamon"
    assert [both.key_of(one) for one in (was, now, b"cinnamon")] == [old.first, both.first, PLAIN]
    with pytest.raises(
        StoreDamaged, match=r"^the head acme ann t in the store is damaged: store_keys has no key for it$"
    ):
        old.open(now, HERE)


@pytest.mark.req("SECR-03")
def test_a_value_opens_nowhere_else() -> None:
    sealing = SealedContent([OLD])
    sealed = sealing.seal(b"cinnamon", HERE)
    for place in (("head", "acme", "bob", "t"), ("head", "acme", "ann", "u"), ("turn", "acme", "ann", "t")):
        with pytest.raises(StoreDamaged, match=r"is damaged, or in the wrong place$") as caught:
            sealing.open(sealed, place)
        assert caught.value.__cause__ is None
    assert head_place(Scope("a", "b\0c"), "t") != head_place(Scope("a\0b", "c"), "t")


@pytest.mark.req("SECR-03")
def test_every_changed_byte_is_noticed() -> None:
    sealing = SealedContent([OLD])
    sealing.begin([sealing.first])
    for value, place in ((b"cinnamon", HERE), (EVENT, event_place("t", 7))):
        sealed = sealing.seal(value, place)
        for at in range(len(sealed)):
            touched = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
            with pytest.raises(StoreDamaged):
                sealing.open(touched, place)
            with pytest.raises(StoreDamaged):
                sealing.open(sealed[: at or 1], place)


@pytest.mark.req("SECR-03")
def test_an_event_tells_its_kind_and_nothing_else() -> None:
    sealed = SealedContent([OLD]).seal(EVENT, event_place("t", 7))
    assert sealed[0] >> 3 == pb.StreamResponse.ARTIFACT_UPDATE_FIELD_NUMBER
    assert b"cinnamon" not in sealed


@pytest.mark.req("SECR-03")
def test_what_was_stored_before_there_were_keys_is_read_until_it_is_sealed() -> None:
    sealing = SealedContent([OLD])
    sealing.begin([PLAIN])
    assert sealing.open(b"cinnamon", HERE) == b"cinnamon"
    assert sealing.open(EVENT, event_place("t", 7)) == EVENT
    sealing.begin([sealing.first])
    for value, place in ((b"cinnamon", HERE), (EVENT, event_place("t", 7))):
        with pytest.raises(StoreDamaged, match="store_keys has no key for it"):
            sealing.open(value, place)


@pytest.mark.req("SECR-03")
def test_a_missing_key_is_named_with_its_setting() -> None:
    old = SealedContent([OLD]).first
    SealedContent([NEW, OLD]).begin([old, PLAIN])
    with pytest.raises(StoreRefused) as caught:
        SealedContent([NEW]).begin([old, PLAIN])
    assert str(caught.value) == (
        f"the store has content that is sealed with the key {old!r}, which store_keys lacks. "
        "Add it behind the first; `a2ad db rekey` makes it needless"
    )
    with pytest.raises(StoreRefused) as caught:
        UNSEALED.begin([old, PLAIN])
    assert str(caught.value) == (
        f"the store has content that is sealed with the key {old!r}, and store_keys is empty. "
        "Set it to the keys that the store was used with"
    )
    UNSEALED.begin([PLAIN])


def test_a_receipt_opens_in_its_scope_only() -> None:
    sealing, receipt = SealedContent([OLD]), Receipt("k", b"fingerprint", "t", 5, b"reply")
    sealed = sealing.sealed_receipt(ANN, receipt)
    assert sealing.opened_receipt(ANN, sealed) == receipt
    assert (sealed.key, sealed.task_id, sealed.expires_ms) == ("k", "t", 5)
    assert b"fingerprint" not in sealed.fingerprint
    with pytest.raises(StoreDamaged):
        sealing.opened_receipt(Scope("acme", "bob"), sealed)
