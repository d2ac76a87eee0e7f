"""The gateway as a process of its own, between HTTP clients and a gRPC server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from a2a_proto import a2a_pb2 as pb
from tests.bench import equality, requests
from tests.bench.doors import DOORS, REST, ask
from tests.bench.http1 import DONE, HttpPlan
from tests.bench.lab import Lab
from tests.bench.load import Load, Plan, Work, drive
from tests.bench.processes import CLIENT_CORE, GATEWAY_CORE, Server
from tests.bench.rows import NETWORK, Row, Target

_SPREAD = 64
_SHARE = Target("≥", 0.6)


@dataclass(frozen=True, slots=True)
class Busiest:
    """What clients see, and the processor time of whichever process uses more: it is what limits them all."""

    load: Load
    dearest: float

    @property
    def limit(self) -> float:
        """Calls per second that are possible when every process has a core for itself."""
        return self.load.calls / self.dearest


def networked(lab: Lab) -> Iterator[Row]:
    """GetTask and SendMessage through `a2ad gateway`, against the same server called over gRPC."""
    with lab.ours("memory") as server, lab.gateway(server) as gateway, lab.ours("memory") as other:
        equality.check(gateway, other, doors=DOORS)
        sent = [ask(REST, gateway, REST.send("echo"), pb.SendMessageResponse) for _ in range(_SPREAD)]
        ids = [found.task.id for found in sent]
        pairs = {
            "GetTask": (
                HttpPlan("GetTask", [REST.get(task_id).raw() for task_id in ids], DONE),
                Plan("GetTask", [requests.get(task_id) for task_id in ids]),
            ),
            "SendMessage": (
                HttpPlan("SendMessage", [REST.send("echo").raw()], DONE),
                Plan("SendMessage", [requests.send("echo")]),
            ),
        }
        for name, (through, directly) in pairs.items():
            sides = {
                "through": partial(_drive, lab, gateway, through, [server, gateway]),
                "directly": partial(_drive, lab, server, directly, [server]),
            }
            for warm_up in sides.values():
                warm_up()
            loads = lab.take_turns(sides)
            yield from _rows(f"{name} over REST and gRPC ÷ over gRPC", loads["through"], loads["directly"])


def _drive(lab: Lab, door: Server, work: Work, busy: Sequence[Server]) -> Busiest:
    before = [server.cpu() for server in busy]
    load = drive(door, work, seconds=lab.effort.seconds)
    return Busiest(load, max(server.cpu() - began for server, began in zip(busy, before, strict=True)))


def _rows(name: str, through: Sequence[Busiest], directly: Sequence[Busiest]) -> Iterator[Row]:
    shared = CLIENT_CORE == GATEWAY_CORE
    yield Row(
        section=NETWORK,
        bench=name,
        metric="calls/s, gateway and load on one core" if shared else "calls/s",
        ours=[found.load.rate for found in through],
        other=[found.load.rate for found in directly],
        higher_is_better=True,
        target=None if shared else _SHARE,
    )
    yield Row(
        section=NETWORK,
        bench=name,
        metric="calls per CPU second of the busier process",
        ours=[found.limit for found in through],
        other=[found.limit for found in directly],
        higher_is_better=True,
        target=_SHARE,
    )
