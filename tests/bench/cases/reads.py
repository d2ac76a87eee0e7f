"""GetTask, and the first page of ListTasks."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench import equality, requests
from tests.bench.fill import fill
from tests.bench.lab import Lab, finished_ids
from tests.bench.load import Plan, drive
from tests.bench.processes import Server
from tests.bench.rows import Row, against

_SPREAD = 64
_PAGE = 50


def get(lab: Lab) -> Iterator[Row]:
    """GetTask of finished echo tasks."""
    with lab.ours("memory") as ours, lab.ours("sqlite") as ours_on_disk, lab.sdk("memory") as sdk:
        equality.check(ours, ours_on_disk, sdk)
        servers = {"ours": ours, "ours/sqlite": ours_on_disk, "sdk": sdk}
        loads = lab.compare({name: (server, _reads(server)) for name, server in servers.items()})
    yield from against("GetTask, both in memory", loads["ours"], loads["sdk"], 3)
    yield from against("GetTask, ours on SQLite, SDK in memory", loads["ours/sqlite"], loads["sdk"])


def _reads(server: Server) -> Plan:
    found = finished_ids(server, requests.message("echo"), _SPREAD)
    return Plan("GetTask", [requests.get(task_id) for task_id in found])


def first_page(lab: Lab) -> Iterator[Row]:
    """ListTasks, the first page of 50, with 10,000 stored tasks."""
    count = lab.effort.size(10_000, 2_000)
    on_disk = lab.place("filled.db")
    fill(on_disk, count)
    with (
        lab.ours("memory") as ours,
        lab.ours("sqlite", place=on_disk) as ours_on_disk,
        lab.sdk("memory", tasks=count) as sdk,
    ):
        drive(ours, Plan("SendMessage", [requests.send("echo")]), calls=count)
        plan = Plan("ListTasks", [requests.page(_PAGE)], connections=2, depth=2)
        loads = lab.compare({"ours": (ours, plan), "ours/sqlite": (ours_on_disk, plan), "sdk": (sdk, plan)})
    name = f"ListTasks, {count:,} tasks"
    yield from against(f"{name}, both in memory", loads["ours"], loads["sdk"], 20)
    yield from against(f"{name}, ours on SQLite, SDK in memory", loads["ours/sqlite"], loads["sdk"])
