"""Secrets at rest: sealed, opened, and what an operator hears when that is impossible (spec: PAID-06, SECR-03)."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.adapters.sealing import Sealing, sealing_keys
from a2a_server.ports.push import Unsealable

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
looks = st.sampled_from(["", "sealed:1:", "plain:1:", "plain:1:sealed:1:", "sealed:1:0a1b2c3d:"])


@pytest.mark.req("PAID-06")
@given(looks, st.text(max_size=40), st.sampled_from([(), (OLD,), (NEW, OLD)]))
def test_what_is_sealed_opens(look: str, text: str, keys: tuple[bytes, ...]) -> None:
    sealing = Sealing(keys)
    assert sealing.open(sealing.seal(look + text, "here"), "here") == look + text


@pytest.mark.req("PAID-06", "SECR-03")
def test_a_sealed_text_shows_nothing() -> None:
    sealing = Sealing([OLD])
    sealed = sealing.seal("s3cr3t", "here")
    assert sealed.startswith("sealed:1:")
    assert "s3cr3t" not in sealed
    assert sealed != sealing.seal("s3cr3t", "here")  # so that equal secrets are not seen to be equal
    assert OLD.hex() not in repr(vars(sealing))


@pytest.mark.req("PAID-06")
def test_the_first_key_seals_and_all_open() -> None:
    old = Sealing([OLD]).seal("s3cr3t", "here")
    both = Sealing([NEW, OLD])
    assert both.open(old, "here") == "s3cr3t"
    new = both.seal("s3cr3t", "here")
    assert Sealing([NEW]).open(new, "here") == "s3cr3t"
    with pytest.raises(Unsealable):
        Sealing([OLD]).open(new, "here")


@pytest.mark.req("PAID-06")
def test_what_was_stored_before_there_were_keys_is_read() -> None:
    assert Sealing([OLD]).open("s3cr3t", "here") == "s3cr3t"
    assert Sealing([OLD]).open("", "here") == Sealing([OLD]).seal("", "here") == ""
    assert Sealing([OLD]).open(Sealing().seal("sealed:1:x", "here"), "here") == "sealed:1:x"


@pytest.mark.req("PAID-06")
@pytest.mark.parametrize("keys", [(), (NEW,)])
def test_a_missing_key_is_named_with_its_setting(keys: tuple[bytes, ...]) -> None:
    sealed = Sealing([OLD]).seal("s3cr3t", "here")
    with pytest.raises(Unsealable) as caught:
        Sealing(keys).open(sealed, "here")
    assert str(caught.value) == (
        f"push.secret_keys lacks the key '{sealed.split(':')[2]}', which a stored secret is sealed with"
    )


@pytest.mark.req("PAID-06")
def test_a_secret_opens_nowhere_else_and_not_if_it_was_touched() -> None:
    sealing = Sealing([OLD])
    sealed = sealing.seal("s3cr3t", "ann/t/c/token")
    touched = sealed[:-4] + ("AAAA" if sealed[-4:] != "AAAA" else "BBBB")
    for text, place in (
        (sealed, "bob/t/c/token"),
        (touched, "ann/t/c/token"),
        (sealed[:-4], "ann/t/c/token"),
        (sealed[:-1], "ann/t/c/token"),
        (sealed[:30], "ann/t/c/token"),
    ):
        with pytest.raises(Unsealable, match="damaged or in the wrong place") as caught:
            sealing.open(text, place)
        assert "s3cr3t" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_keys_are_read_in_both_alphabets() -> None:
    key = bytes([0xFB, 0xFF] * 16)
    assert sealing_keys([b64encode(key).decode() + "\n", urlsafe_b64encode(key).decode()]) == (key, key)


@pytest.mark.parametrize("text", ["", "short", b64encode(bytes(31)).decode(), "é" * 44, "!" * 44, OLD.hex()])
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"push\.secret_keys\[1\] must be 32 bytes in base64") as caught:
        sealing_keys([b64encode(OLD).decode(), text])
    assert not text or text not in str(caught.value)
