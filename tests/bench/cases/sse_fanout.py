"""One task and many subscribers over SSE."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from tests.bench.audience import Delivery, Stage, gate, perform, stall, task_stage, was_cut
from tests.bench.cases.streams import FRAME
from tests.bench.doors import REST, Request
from tests.bench.lab import Lab
from tests.bench.processes import Server
from tests.bench.requests import Show
from tests.bench.rows import ALONE, BARE, GROWTH, SDK, Row, Target

_CHUNKS = 200
_PAUSE = 0.03  # longer than it takes to write to a thousand
_FEW, _LARGE = 10, 1 << 16
_BOUND = 2.0
"""Seconds after which a reader that takes nothing is cut, here."""
_FRAME_END = "\n\n"


def sse_fanout(lab: Lab) -> Iterator[Row]:
    """One task to 100 SSE subscribers, to 1,000, and to one that stops reading."""
    yield from _hundred(lab)
    yield from _thousand(lab)
    yield from _stalled(lab)


def _hundred(lab: Lab) -> Iterator[Row]:
    audience = lab.effort.size(100, 20)
    with lab.ours("memory") as ours, lab.sdk("memory", http=True) as sdk:
        found = lab.take_turns(
            {
                "ours": partial(_repeat, lab, lambda: _show(ours, audience, Show(gate(), _CHUNKS))),
                "sdk": partial(_repeat, lab, lambda: _show(sdk, audience, Show(gate(), _CHUNKS))),
            }
        )
    name = f"1 task to {audience} SSE subscribers, both in memory"
    rates = {side: [delivery.rate for delivery in found[side]] for side in found}
    yield Row(
        section=SDK,
        bench=name,
        metric="events/s",
        ours=rates["ours"],
        other=rates["sdk"],
        higher_is_better=True,
        target=Target("≥", 40),
    )
    costs = {side: [delivery.cost for delivery in found[side]] for side in found}
    yield Row(section=SDK, bench=name, metric="server CPU µs/event", ours=costs["ours"], other=costs["sdk"])


def _show(server: Server, audience: int, show: Show) -> Delivery:
    """The chunks, and COMPLETED."""
    return perform(server, task_stage(server, show), audience, show.count + 1)


def _repeat(lab: Lab, measure: Callable[[], Delivery]) -> Delivery:
    """Measure until the round is over; the pauses in between do not count."""
    total = measure()
    while total.seconds < lab.effort.seconds and not lab.effort.quick:
        total += measure()
    return total


def _thousand(lab: Lab) -> Iterator[Row]:
    audience = lab.effort.size(1_000, 100)
    count = lab.effort.size(100, 10)  # so many that the ends of streams hardly matter
    with lab.ours("memory", settings=f"[gateway]\nstreams_per_client = {audience + 10}\n") as ours:
        size = _size(ours)
        with lab.bare(size) as bare:
            for name, pause in (("one by one", _PAUSE), ("at once", 0.0)):
                found = lab.take_turns(
                    {
                        "ours": partial(_paced, ours, audience, count, pause),
                        "bare": partial(_bare, bare, audience, count + 1, pause),
                    }
                )
                yield Row(
                    section=BARE,
                    bench=f"1 task to {audience:,} SSE subscribers, {count} events {name}",
                    metric="server CPU µs/event",
                    ours=[delivery.cost for delivery in found["ours"]],
                    other=[delivery.cost for delivery in found["bare"]],
                    target=Target("≤", 1.3),
                )


def _paced(server: Server, audience: int, count: int, pause: float) -> Delivery:
    return _show(server, audience, Show(gate(), count, pause=pause))


def _bare(server: Server, audience: int, events: int, pause: float) -> Delivery:
    begin = Request("POST", f"/begin?events={events}&pause={pause}")
    return perform(server, Stage(Request("GET", "/subscribe"), partial(begin.fetch, server)), audience, events)


def _size(server: Server) -> int:
    """Bytes of a chunk's event as our server writes it."""
    frames = REST.stream("chunks", "3").fetch(server).split(_FRAME_END)
    return len((frames[FRAME] + _FRAME_END).encode())


def _stalled(lab: Lab) -> Iterator[Row]:
    show = partial(Show, count=200, size=_LARGE)
    cut: list[float] = []
    with lab.ours("memory", settings=f"[gateway]\nwrite_timeout = {_BOUND}\n") as ours:

        def alone() -> Delivery:
            return _show(ours, _FEW, show(gate()))

        def disturbed() -> Delivery:
            stage = task_stage(ours, found := show(gate()))
            with closing(stall(ours, stage.subscribe)) as stalled:
                delivery = perform(ours, stage, _FEW, found.count + 1)
                time.sleep(1.5 * _BOUND)
                cut.append(was_cut(stalled))
            return delivery

        found = lab.take_turns({"alone": alone, "disturbed": disturbed})
    yield Row(
        section=GROWTH,
        bench=f"{_FEW} SSE subscribers beside one that stops reading ÷ without it",
        metric="elapsed ms",
        ours=[1e3 * delivery.seconds for delivery in found["disturbed"]],
        other=[1e3 * delivery.seconds for delivery in found["alone"]],
        target=Target("≤", 1.1),
    )
    yield Row(
        section=ALONE,
        bench=f"1 SSE subscriber that stops reading for {_BOUND:g} s",
        metric="times it is cut",
        ours=cut,
        target=Target("≥", 1),
    )
