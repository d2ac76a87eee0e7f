"""Token buckets: what they let through, what they say, and how many there are (spec: LIMT-03)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.ports.access import Bucket
from tests.support.house import TokenBuckets, network_of_client

TEN = Bucket(rate=2.0, burst=10)


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_lets_through_its_burst_and_then_its_rate() -> None:
    time = Time()
    buckets = TokenBuckets(time)
    assert [buckets.take("a", TEN, 1) for _ in range(10)] == [(True, lacking / 2) for lacking in range(1, 11)]
    assert buckets.take("a", TEN, 1) == (False, 5.0)
    assert (TEN.wait(5.0, 1), TEN.wait(5.0, 3), TEN.wait(4.0, 1)) == (0.5, 1.5, 0.0)
    time.now += 0.5
    assert buckets.take("a", TEN, 1)[0]
    assert not buckets.take("a", TEN, 1)[0]
    time.now += 100
    assert buckets.take("a", TEN, 10)[0]  # and no more than the burst has come together
    assert not buckets.take("a", TEN, 1)[0]
    assert buckets.take("b", TEN, 1) == (True, 0.5)


def test_of_too_many_buckets_the_one_unused_for_longest_is_forgotten() -> None:
    buckets = TokenBuckets(Time(), most=2)
    for key in ("a", "b", "a", "c"):
        buckets.take(key, TEN, 1)
    assert buckets.take("a", TEN, 1) == (True, 1.5)
    assert buckets.take("b", TEN, 1) == (True, 0.5)


@given(st.lists(st.tuples(st.floats(0, 3), st.sampled_from([0.5, 1.0, 2.5])), max_size=60))
def test_never_more_than_burst_and_rate_together(calls: list[tuple[float, float]]) -> None:
    time = Time()
    buckets, began, taken = TokenBuckets(time), time.now, 0.0
    for pause, cost in calls:
        time.now += pause
        if buckets.take("a", TEN, cost)[0]:
            taken += cost
        assert taken <= TEN.burst + (time.now - began) * TEN.rate + 1e-6


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("", ""),
    ],
)
def test_an_address_is_counted_by_what_its_owner_has(peer: str, counted: str) -> None:
    assert network_of_client(peer) == counted
