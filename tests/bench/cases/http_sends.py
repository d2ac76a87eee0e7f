"""Blocking SendMessage through the HTTP doors."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench import equality
from tests.bench.doors import DOORS
from tests.bench.http1 import DONE, HttpPlan
from tests.bench.lab import EXECUTOR, Lab
from tests.bench.rows import Row, against


def http_send(lab: Lab) -> Iterator[Row]:
    """Blocking SendMessage over REST and JSON-RPC: memory and SQLite, ours and the SDK's."""
    for door in DOORS:  # each with servers of its own: what a fast one has kept in memory makes it slower
        with (
            lab.ours("memory") as ours,
            lab.ours("sqlite") as ours_on_disk,
            lab.sdk("memory", http=True) as sdk,
            lab.sdk("sqlite", http=True) as sdk_on_disk,
            lab.ours("memory", agent=EXECUTOR) as bridged,
        ):
            servers = {
                "ours": ours,
                "ours/sqlite": ours_on_disk,
                "sdk": sdk,
                "sdk/sqlite": sdk_on_disk,
                "executor": bridged,
            }
            equality.check(*servers.values(), doors=DOORS)
            plan = HttpPlan(f"SendMessage over {door.name}", [door.send("echo").raw()], DONE)
            loads = lab.compare({name: (server, plan) for name, server in servers.items()})
        target = 13 if lab.compiled else 8.5
        yield from against(f"{plan.name}, both in memory", loads["ours"], loads["sdk"], target)
        yield from against(f"{plan.name}, ours on SQLite, SDK in memory", loads["ours/sqlite"], loads["sdk"], 8)
        name = f"{plan.name}, the SDK's executor on both, in memory"
        yield from against(name, loads["executor"], loads["sdk"], 6)
        yield from against(f"{plan.name}, both on SQLite", loads["ours/sqlite"], loads["sdk/sqlite"], 60)
