"""How long a receiver may ask for, in whatever words (spec: PAID-03, RFC 9110 10.2.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_server.adapters.webhook.sender import of_failure, seconds_until
from a2a_server.ports.push import Outcome

NOW = 1_767_225_600_000  # Thu, 01 Jan 2026 00:00:00 GMT
HOUR = 3600.0


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("0120", 120.0),
        ("3601", HOUR),
        ("9999999999", HOUR),
        ("99999999999", None),  # not worth counting
        ("1.5", None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("٣", None),
        ("²", None),
        ("", None),
        ("soon", None),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120.0),
        ("Thursday, 01-Jan-26 00:02:00 GMT", 120.0),  # as of old; to be read for ever
        ("Thu Jan  1 00:02:00 2026", 120.0),
        ("Thu, 01 Jan 2026 01:02:00 +0100", 120.0),
        ("Thu, 01 Jan 2026 00:02:00 -0000", 120.0),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0.0),
        ("Fri, 01 Jan 2027 00:00:00 GMT", HOUR),
        ("Fri, 31 Dec 9999 23:59:59 GMT", HOUR),
        ("Thu, 99 Jan 2026 00:02:00 GMT", None),
        ("Thu, 01 Jan 99999 00:02:00 GMT", None),
        ("Thu, 01 Jan 2026 00:02:00 +9999999999", None),
    ],
)
def test_seconds_and_dates(wish: str, seconds: float | None) -> None:
    assert seconds_until(wish, NOW, HOUR) == seconds


@given(st.text() | st.text("0123456789:+-, GMTThuJan", max_size=40))
def test_any_words_are_bounded(wish: str) -> None:
    seconds = seconds_until(wish, NOW, HOUR)
    assert seconds is None or 0 <= seconds <= HOUR


@pytest.mark.req("SECR-03")
def test_failures_have_words_and_no_details() -> None:
    assert of_failure(TimeoutError("hunter2")) == Outcome(delivered=False, why="timeout")
    assert of_failure(BrokenPipeError("hunter2")) == Outcome(delivered=False, why="connection")
