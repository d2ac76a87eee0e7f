"""What a task costs as JSON, with our codec and with protobuf's own, in this process."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import orjson
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import loads
from a2a_server.protocol.json_v1 import V1
from tests.bench import requests
from tests.bench.exchange import Broken
from tests.bench.lab import Lab
from tests.bench.rows import ALONE, Row, Target

_NAME = "Codec, a task of 3 messages and 2 artifacts"
_BATCH = 50
_PAGE = os.sysconf("SC_PAGE_SIZE")


def codec(lab: Lab) -> Iterator[Row]:
    """Encode and decode a task, against json_format + orjson; memory held by a million round trips."""
    task = _task()
    text, wire = V1.encode(task), task.SerializeToString()
    if V1.decode(loads(text), pb.Task) != task or orjson.loads(text) != MessageToDict(task):
        raise Broken("the codec does not do what json_format does")
    measures: dict[str, Callable[[], object]] = {
        "encode": lambda: V1.encode(task),
        "encode again": lambda: V1.encode_kept(task),
        "encode an event again": lambda: V1.encode_wire(pb.Task, wire),
        "decode": lambda: V1.decode(loads(text), pb.Task),
        "slow encode": lambda: orjson.dumps(MessageToDict(task)),
        "slow decode": lambda: ParseDict(orjson.loads(text), pb.Task()),
    }
    seconds = lab.effort.seconds / len(measures)
    times = lab.take_turns({name: _timed(measure, seconds) for name, measure in measures.items()})
    for name, other, target in (
        ("encode", "slow encode", 2.5),
        ("decode", "slow decode", 6),
        ("encode again", "slow encode", 20),
        ("encode an event again", "slow encode", 20),
    ):
        yield from _rows(name, times[name], times[other], target)
    yield _memory(lab, measures["encode"], measures["decode"])


def _task() -> pb.Task:
    parts = [pb.Part(text=requests.TEXT)]
    task_id, context_id = "t" * 36, "c" * 36
    return pb.Task(
        id=task_id,
        context_id=context_id,
        status=pb.TaskStatus(state=pb.TASK_STATE_COMPLETED, timestamp=Timestamp(seconds=1770091506, nanos=789_000_000)),
        history=[
            pb.Message(
                message_id=f"{number:036}", context_id=context_id, task_id=task_id, role=pb.ROLE_USER, parts=parts
            )
            for number in range(3)
        ],
        artifacts=[pb.Artifact(artifact_id=f"{number:036}", name="answer", parts=parts) for number in range(2)],
    )


def _timed(measure: Callable[[], object], seconds: float) -> Callable[[], float]:
    """Processor seconds per call of the best batch: whatever else runs here can only slow it down."""

    def best() -> float:
        end, found = time.monotonic() + seconds, float("inf")
        while time.monotonic() < end:
            begun = time.thread_time()
            for _ in range(_BATCH):
                measure()
            if (spent := time.thread_time() - begun) > 0:  # a virtual machine's clock may stand still
                found = min(found, spent)
        return found / _BATCH

    return best


def _rows(name: str, ours: Sequence[float], other: Sequence[float], target: float) -> Iterator[Row]:
    yield Row(section=ALONE, bench=_NAME, metric=f"{name}: µs", ours=[1e6 * sample for sample in ours])
    ratios = [slow / fast for fast, slow in zip(ours, other, strict=True)]
    metric = f"{name}: times json_format + orjson"
    yield Row(section=ALONE, bench=_NAME, metric=metric, ours=ratios, target=Target("≥", target))


def _memory(lab: Lab, *steps: Callable[[], object]) -> Row:
    """Growth of the process while it goes round and round."""
    count = lab.effort.size(1_000_000, 20_000)
    for _ in range(count // 10):
        for step in steps:
            step()
    before = _resident()
    for _ in range(count):
        for step in steps:
            step()
    metric = f"bytes of RAM left by each of {count:,} round trips"
    return Row(section=ALONE, bench=_NAME, metric=metric, ours=[(_resident() - before) / count], target=Target("≤", 1))


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * _PAGE
