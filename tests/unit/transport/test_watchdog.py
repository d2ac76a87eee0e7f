"""A blocked event loop is noticed, with the place where it is stuck."""

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from a2a_server.serve.watchdog import Watchdog


def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)


@pytest.mark.req("AGNT-05")
async def test_what_blocks_the_loop_is_named() -> None:
    watchdog = Watchdog(0.1)
    with capture_logs() as logs:
        watchdog.start()
        await asyncio.sleep(0.1)
        block_the_loop(0.5)
        async with asyncio.timeout(10):
            while not any(entry["event"] == "loop.free" for entry in logs):  # noqa: ASYNC110 - written by a thread
                await asyncio.sleep(0.02)
        watchdog.stop()
    # A busy machine may block the loop as well; ours is the one that says so.
    blocked = [entry for entry in logs if entry["event"] == "loop.blocked"]
    assert any("block_the_loop" in frame for entry in blocked for frame in entry["frames"])


async def test_a_loop_that_answers_in_time_is_not_named() -> None:
    watchdog = Watchdog(30)
    with capture_logs() as logs:
        watchdog.start()
        await asyncio.sleep(0.05)
        watchdog.stop()
    assert logs == []


async def test_no_patience_watches_nothing() -> None:
    watchdog = Watchdog(0)
    watchdog.start()
    watchdog.stop()
