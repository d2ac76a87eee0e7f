"""GetTask, and the first page of ListTasks, through the HTTP doors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from a2a_proto import a2a_pb2 as pb
from tests.bench import equality, requests
from tests.bench.doors import DOORS, REST, Door, ask
from tests.bench.fill import fill
from tests.bench.http1 import DONE, HttpPlan
from tests.bench.lab import Lab
from tests.bench.load import Plan, drive
from tests.bench.processes import Server
from tests.bench.rows import GO, Row, against

_SPREAD = 64
_PAGE = 50


def http_get(lab: Lab) -> Iterator[Row]:
    """GetTask of finished echo tasks over REST and JSON-RPC."""
    with lab.ours("memory") as ours, lab.ours("sqlite") as ours_on_disk, lab.sdk("memory", http=True) as sdk:
        servers = {"ours": ours, "ours/sqlite": ours_on_disk, "sdk": sdk}
        equality.check(*servers.values(), doors=DOORS)
        for door in DOORS:
            loads = lab.compare({name: (server, _reads(door, _ids(server))) for name, server in servers.items()})
            name = f"GetTask over {door.name}"
            yield from against(f"{name}, both in memory", loads["ours"], loads["sdk"], 3.5)
            yield from against(f"{name}, ours on SQLite, SDK in memory", loads["ours/sqlite"], loads["sdk"])


def go(lab: Lab) -> Iterator[Row]:
    """GetTask over REST, against grpc-gateway in front of a gRPC server, both in Go and in one process."""
    with lab.ours("memory") as ours:
        ids = _ids(ours)
        plan = _reads(REST, ids)
        with lab.grpc_gateway(ids) as other:
            loads = lab.compare({"ours": (ours, plan), "go": (other, plan)})
    for row in against("GetTask over REST", loads["ours"], loads["go"], 1):
        yield replace(row, section=GO)


def _ids(server: Server) -> Sequence[str]:
    """Of tasks that the server has just finished."""
    sent = [ask(REST, server, REST.send("echo"), pb.SendMessageResponse) for _ in range(_SPREAD)]
    return [found.task.id for found in sent]


def _reads(door: Door, ids: Sequence[str]) -> HttpPlan:
    return HttpPlan("GetTask", [door.get(task_id).raw() for task_id in ids], DONE)


def http_list(lab: Lab) -> Iterator[Row]:
    """ListTasks over REST, the first page of 50, with 10,000 stored tasks."""
    count = lab.effort.size(10_000, 2_000)
    on_disk = lab.place("filled.db")
    fill(on_disk, count)
    with (
        lab.ours("memory") as ours,
        lab.ours("sqlite", place=on_disk) as ours_on_disk,
        lab.sdk("memory", tasks=count, http=True) as sdk,
    ):
        drive(ours, Plan("SendMessage", [requests.send("echo")]), calls=count)
        plan = HttpPlan("ListTasks", [REST.page(_PAGE).raw()], DONE, connections=4)
        loads = lab.compare({"ours": (ours, plan), "ours/sqlite": (ours_on_disk, plan), "sdk": (sdk, plan)})
    name = f"ListTasks over REST, {count:,} tasks"
    yield from against(f"{name}, both in memory", loads["ours"], loads["sdk"], 60)
    yield from against(f"{name}, ours on SQLite, SDK in memory", loads["ours/sqlite"], loads["sdk"])
