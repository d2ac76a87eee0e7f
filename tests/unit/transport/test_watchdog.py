"""A blocked event loop is noticed, with the place where it is stuck."""

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from a2a_server.transport.watchdog import Watchdog


def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)


@pytest.mark.req("AGNT-05")
async def test_what_blocks_the_loop_is_named() -> None:
    watchdog = Watchdog(0.1)
    with capture_logs() as logs:
        watchdog.start()
        await asyncio.sleep(0.3)
        assert logs == []
        block_the_loop(0.5)
        await asyncio.sleep(0.2)
        watchdog.stop()
    assert [entry["event"] for entry in logs] == ["loop.blocked", "loop.free"]
    assert any("block_the_loop" in frame for frame in logs[0]["frames"])
    assert logs[1]["seconds"] >= 0.2


async def test_no_patience_watches_nothing() -> None:
    watchdog = Watchdog(0)
    watchdog.start()
    watchdog.stop()
