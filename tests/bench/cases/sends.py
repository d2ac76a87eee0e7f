"""Blocking SendMessage."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench import equality, requests
from tests.bench.lab import EXECUTOR, Lab
from tests.bench.load import Plan
from tests.bench.rows import Row, against

_PLAN = Plan("SendMessage", [requests.send("echo")])


def send(lab: Lab) -> Iterator[Row]:
    """Blocking SendMessage to the echo agent: memory and SQLite, ours and the SDK's."""
    with (
        lab.ours("memory") as ours,
        lab.ours("sqlite") as ours_on_disk,
        lab.sdk("memory") as sdk,
        lab.sdk("sqlite") as sdk_on_disk,
        lab.ours("memory", agent=EXECUTOR) as bridged,
    ):
        equality.check(ours, ours_on_disk, sdk, sdk_on_disk, bridged)
        servers = {
            "ours": ours,
            "ours/sqlite": ours_on_disk,
            "sdk": sdk,
            "sdk/sqlite": sdk_on_disk,
            "executor": bridged,
        }
        loads = lab.compare({name: (server, _PLAN) for name, server in servers.items()})
    yield from against("SendMessage, both in memory", loads["ours"], loads["sdk"], 9)
    yield from against("SendMessage, ours on SQLite, SDK in memory", loads["ours/sqlite"], loads["sdk"], 8)
    yield from against("SendMessage, the SDK's executor on both, in memory", loads["executor"], loads["sdk"], 6)
    yield from against("SendMessage, both on SQLite", loads["ours/sqlite"], loads["sdk/sqlite"], 70)
