"""Blocking message/send, as clients of 0.3 call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.bench import equality, old_door
from tests.bench.doors import JSON_RPC
from tests.bench.http1 import DONE, HttpPlan
from tests.bench.lab import Lab
from tests.bench.load import Load
from tests.bench.rows import OLDER, Row, Target, against

_OLD = HttpPlan("message/send over JSON-RPC 0.3", [old_door.send("echo").raw()], old_door.DONE)
_NEW = HttpPlan("SendMessage over JSON-RPC", [JSON_RPC.send("echo").raw()], DONE)
_COSTS: Sequence[tuple[str, Callable[[Load], float]]] = (
    ("server CPU µs/call", lambda load: load.server_cpu),
    ("elapsed µs/call", lambda load: load.seconds),
)


def old_send(lab: Lab) -> Iterator[Row]:
    """Blocking message/send over JSON-RPC of 0.3: against the SDK's, and against SendMessage of 1.0."""
    with (
        lab.ours("memory") as ours,
        lab.ours("memory") as ours_for_1_0,
        lab.ours("sqlite") as ours_on_disk,
        lab.sdk("memory", http=True, legacy=True) as sdk,
        lab.sdk("sqlite", http=True, legacy=True) as sdk_on_disk,
    ):
        equality.alike(old_door.answers, ours, ours_on_disk, sdk, sdk_on_disk)
        loads = lab.compare(
            {
                "ours": (ours, _OLD),
                "ours, 1.0": (ours_for_1_0, _NEW),
                "ours/sqlite": (ours_on_disk, _OLD),
                "sdk": (sdk, _OLD),
                "sdk/sqlite": (sdk_on_disk, _OLD),
            }
        )
    yield from against(f"{_OLD.name}, both in memory", loads["ours"], loads["sdk"], 11)
    yield from against(f"{_OLD.name}, ours on SQLite, SDK in memory", loads["ours/sqlite"], loads["sdk"], 8)
    yield from against(f"{_OLD.name}, both on SQLite", loads["ours/sqlite"], loads["sdk/sqlite"], 60)
    for metric, cost in _COSTS:
        old, new = ([1e6 * cost(load) / load.calls for load in loads[name]] for name in ("ours", "ours, 1.0"))
        bench = "message/send ÷ SendMessage over JSON-RPC, in memory"
        yield Row(section=OLDER, bench=bench, metric=metric, ours=old, other=new, target=Target("≤", 1.3))
