"""What a look at the sender's objects tells (spec: SECR-03)."""

from __future__ import annotations

import logging

import pytest
import structlog

from tests.support.receivers import hook, notice, receiver, sending


@pytest.mark.req("SECR-03")
def test_no_repr_shows_a_secret() -> None:
    made = hook("https://hook.example/?key=hunter2", token="hunter2", scheme="Bearer", credentials="hunter2")
    assert "hunter2" not in f"{made!r} {made}"
    said = notice(made, body=b"hunter2")
    assert "hunter2" not in f"{said!r} {said}"
    assert "number=1, delivery_id='d-1', attempt=1" in repr(said)


@pytest.mark.req("SECR-03")
async def test_no_log_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    """Not even at the most talkative level, of all libraries together."""
    secrets = {"token": "hunter2", "scheme": "Bearer", "credentials": "hunter3"}
    caplog.set_level(logging.DEBUG)
    with structlog.testing.capture_logs() as logs:
        async with receiver() as client, sending() as sender:
            assert (await sender.send(notice(hook(f"{client.url}?key=hunter4", **secrets)))).delivered
            await sender.send(notice(hook("http://127.0.0.1:1/?key=hunter4", **secrets)))
            await sender.send(notice(hook("https://10.0.0.1/?key=hunter4", **secrets)))
            await sender.send(notice(hook("https://127.0.0.1:" + str(client.port) + "/?key=hunter4", **secrets)))
            await sender.challenge(hook(f"{client.url}?key=hunter4", **secrets))
        assert "hunter" not in repr((logs, vars(sender)))
    ours = [record for record in caplog.records if not record.name.startswith("aiohttp.access")]
    assert "hunter" not in repr([record.getMessage() for record in ours])
