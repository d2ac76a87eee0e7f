"""What webhooks cost those who do not wait for them, and how many go out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from urllib.request import urlopen

from a2a_proto import a2a_pb2 as pb
from tests.bench import requests
from tests.bench.exchange import Broken
from tests.bench.lab import VERSION, Engine, Lab, stub
from tests.bench.load import PATIENCE, Plan
from tests.bench.processes import Server, free_port
from tests.bench.rows import ALONE, GROWTH, SDK, Row, Target

_SETTINGS = "[push]\nallow_loopback = true\n"
_HOSTS = 10
_CONFIGS_PER_TASK = 100
_TASKS = 8
_SLOW = 0.1

_echo = Plan("SendMessage", [requests.send("echo")])


def webhooks(lab: Lab) -> Iterator[Row]:
    """Webhooks: sends beside 1,000 configs on dead hosts, a healthy receiver, and one that takes 100 ms."""
    yield from _dead(lab)
    for engine in ("memory", "sqlite"):
        yield _healthy(lab, engine)
    yield from _slow(lab)


def _dead(lab: Lab) -> Iterator[Row]:
    tasks = lab.effort.size(10, 2)
    with lab.ours("sqlite", settings=_SETTINGS) as dead, lab.ours("sqlite", settings=_SETTINGS) as none:
        _indebt(dead, tasks)
        loads = lab.compare({"dead": (dead, _echo), "none": (none, _echo)})
    bench = f"SendMessage beside {tasks * _CONFIGS_PER_TASK:,} configs on dead hosts, SQLite"
    latency = {name: [1e3 * load.latency for load in found] for name, found in loads.items()}
    yield _dearer(bench, "latency, ms", latency["dead"], latency["none"], 1.1)
    cpu = {name: [1e6 * load.server_cpu / load.calls for load in found] for name, found in loads.items()}
    yield _dearer(bench, "server CPU µs/call", cpu["dead"], cpu["none"])


def _indebt(server: Server, tasks: int) -> None:
    """Tasks with configs whose hosts refuse connections, and two events for each."""
    port = free_port()
    with stub(server) as client:
        for _ in range(tasks):
            task = client.SendMessage(requests.message("ask"), metadata=VERSION).task
            for number in range(_CONFIGS_PER_TASK):
                url = f"http://127.0.0.{2 + number % _HOSTS}:{port}/"
                config = pb.TaskPushNotificationConfig(task_id=task.id, url=url)
                client.CreateTaskPushNotificationConfig(config, metadata=VERSION)
            answer = requests.message("ask")
            answer.message.task_id = task.id
            client.SendMessage(answer, metadata=VERSION)


def _healthy(lab: Lab, engine: Engine) -> Row:
    chunks = lab.effort.size(500, 50)
    with lab.ours(engine, settings=_SETTINGS) as server, lab.receiver() as receiver:
        _deliver(server, receiver, 10)
        rates = lab.take_turns({"": partial(_deliver, server, receiver, chunks)})[""]
    bench = f"{_TASKS} tasks of {chunks} chunks told to one receiver, {engine}"
    return Row(
        section=ALONE,
        bench=bench,
        metric="webhooks/s",
        ours=rates,
        higher_is_better=True,
        target=Target("≥", 1_000),
    )


def _deliver(server: Server, receiver: Server, chunks: int) -> float:
    """Webhooks per second, from the first send until the last receipt."""
    (before, ended), begun = _counted(receiver), time.perf_counter()
    with stub(server) as client:
        for _ in range(_TASKS):
            client.SendMessage(_told("chunks", receiver, str(chunks), wait=False), metadata=VERSION)
    until = begun + PATIENCE
    while (now := _counted(receiver))[1] < ended + _TASKS:
        if time.perf_counter() > until:
            raise Broken(f"{server.name} still owes webhooks after {PATIENCE:g} s")
        time.sleep(0.005)
    return (now[0] - before) / (time.perf_counter() - begun)


def _counted(receiver: Server) -> tuple[int, int]:
    with urlopen(_url(receiver), timeout=PATIENCE) as answer:  # noqa: S310 - our own
        webhooks, ends = answer.read().split()
    return int(webhooks), int(ends)


def _url(receiver: Server) -> str:
    return f"http://127.0.0.1:{receiver.http}/"


def _told(skill: str, receiver: Server, text: str = requests.TEXT, *, wait: bool = True) -> pb.SendMessageRequest:
    request = requests.message(skill, text)
    request.configuration.task_push_notification_config.url = _url(receiver)
    request.configuration.return_immediately = not wait
    return request


def _slow(lab: Lab) -> Iterator[Row]:
    """One call at a time: what waits for a receiver shows, and nothing else does."""
    with (
        lab.ours("sqlite", settings=_SETTINGS) as ours,
        lab.sdk("memory", push=True) as sdk,
        lab.receiver(_SLOW) as receiver,
    ):
        plain, told = _alone([requests.send("echo")]), _alone([_told("echo", receiver).SerializeToString()])
        loads = lab.compare(
            {
                "sent": (ours, plain),
                "sent and told": (ours, told),
                "answered": (ours, _alone(_answers(ours, lab, ""))),
                "answered and told": (ours, _alone(_answers(ours, lab, _url(receiver)))),
                "sdk": (sdk, plain),
                "sdk told": (sdk, told),
            }
        )
    latency = {name: [1e3 * load.latency for load in found] for name, found in loads.items()}
    bench = "with a receiver that takes 100 ms"
    yield _dearer(
        f"a turn of a task {bench}, SQLite", "latency, ms", latency["answered and told"], latency["answered"], 1.05
    )
    yield _dearer(
        f"SendMessage that brings its config, {bench}", "latency, ms", latency["sent and told"], latency["sent"]
    )
    yield _dearer("the same, SDK in memory", "latency, ms", latency["sdk told"], latency["sdk"])
    yield Row(
        section=SDK,
        bench=f"SendMessage {bench}",
        metric="latency, ms",
        ours=latency["sent and told"],
        other=latency["sdk told"],
    )


def _alone(bodies: Sequence[bytes]) -> Plan:
    return Plan("SendMessage", bodies, connections=1, depth=1)


def _answers(server: Server, lab: Lab, url: str) -> Sequence[bytes]:
    """Messages to tasks that ask again and again; with a URL each has a config."""
    bodies = []
    with stub(server) as client:
        for _ in range(lab.effort.size(200, 20)):
            request = requests.message("ask")
            if url:
                request.configuration.task_push_notification_config.url = url
            answer = requests.message("ask")
            answer.message.task_id = client.SendMessage(request, metadata=VERSION).task.id
            bodies.append(answer.SerializeToString())
    return bodies


def _dearer(bench: str, metric: str, ours: list[float], other: list[float], bound: float | None = None) -> Row:
    target = None if bound is None else Target("≤", bound)
    return Row(section=GROWTH, bench=bench, metric=metric, ours=ours, other=other, target=target)
