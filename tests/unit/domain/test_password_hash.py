"""Password hashes: what is read, and what would take too much to verify (spec: GATE-01)."""

from __future__ import annotations

import pytest

from tests.support.house import PasswordHash

SMALL = PasswordHash.of("word", bytes(16), 12, 1, 1)


@pytest.mark.req("GATE-01")
def test_a_hash_is_read_as_it_was_written() -> None:
    read = PasswordHash.parse(str(SMALL))
    assert read == SMALL
    assert read.matches("word")
    assert not read.matches("Word")


@pytest.mark.parametrize(("power", "blocks", "rounds"), [(1, 8, 1), (40, 8, 1), (12, 0, 1), (12, 8, 0), (20, 64, 64)])
def test_parameters_that_protect_nothing_or_take_too_much_memory_are_refused(
    power: int, blocks: int, rounds: int
) -> None:
    text = str(SMALL._replace(power=power, blocks=blocks, rounds=rounds))
    with pytest.raises(ValueError, match="has parameters out of bounds; make it with `a2ad token password`"):
        PasswordHash.parse(text)


def test_a_password_is_no_hash_and_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="never the password itself") as caught:
        PasswordHash.parse("s3cr3t")
    assert "s3cr3t" not in str(caught.value)
