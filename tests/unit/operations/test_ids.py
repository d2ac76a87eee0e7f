"""Ids are UUIDs of version 7."""

from __future__ import annotations

import uuid

import pytest

from tests.support.house import Ids


@pytest.mark.req("CTX-07")
def test_ids_are_sound_uuids_and_all_different() -> None:
    ids = Ids()
    made = [ids.new() for _ in range(2_000)]  # several blocks of entropy
    assert len(set(made)) == len(made)
    for text in made:
        parsed = uuid.UUID(text)
        assert str(parsed) == text
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)


def test_neighbours_in_time_are_neighbours_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1_000_000_000_000, 1_000_000_000_100))
    monkeypatch.setattr("a2a_server.operations.services.time.time_ns", lambda: next(times) * 1_000_000)
    ids = Ids()
    made = [ids.new() for _ in range(100)]
    assert made == sorted(made)
