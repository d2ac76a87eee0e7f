"""Push configs in memory, and their pending deliveries (spec: PAID-01, PAID-02, PAID-03)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import Trace
from a2a_server.ports.push import ClaimLimits, Delivery, FailedAttempt, PushConfig
from a2a_server.ports.records import MESSAGE, Write


@dataclass(slots=True)
class ConfigRow:
    """A push config, its pending deliveries, and when the first of them may be tried."""

    scope: Scope
    task_id: str
    serial: int
    wire: bytes
    version: str
    schemes: Sequence[str]
    host: str
    pending: dict[int, Trace | None] = field(default_factory=dict)
    """Numbers of entries, in order, so that the first can be read from the front; with the trace of each."""
    due_ms: int | None = None
    attempts: int = 0
    rejections: int = 0
    claimed_until_ms: int | None = None
    served_ms: int = 0
    failing_ms: int | None = None
    parked_ms: int | None = None

    @property
    def lane(self) -> tuple[str, str]:
        """Whose deliveries to which host."""
        return self.scope.owner, self.host

    @property
    def hook(self) -> PushConfig:
        return PushConfig(pb.TaskPushNotificationConfig.FromString(self.wire), self.version, self.schemes)


def _order(config: ConfigRow) -> tuple[int, int]:
    """Of due configs, by time."""
    return config.due_ms or 0, config.serial


ConfigRows = Mapping[str, ConfigRow]
"""The configs of one task, by id."""


class Deliveries:
    """Which configs are due. A config has one delivery at a time, and those that have waited longest come first."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], list[ConfigRow]] = {}
        """The due configs of each lane, in order. Lanes take turns in the order of this dict."""
        self._known: dict[tuple[str, str], dict[int, ConfigRow]] = {}
        """The configs of each lane by serial number, those included that have nothing to send any more."""

    def add(self, configs: ConfigRows, write: Write) -> bool:
        """Queue a delivery per config and entry; whether any config has become due."""
        numbers = [entry.number for entry in write.entries if entry.kind != MESSAGE]
        added = {number: write.trace_of(number) for number in numbers} if write.traces else dict.fromkeys(numbers)
        due = False
        for config in configs.values() if numbers else ():
            config.pending.update(added)
            if config.parked_ms is None:
                due = True
                if config.due_ms is None:
                    self._set_due(config, config.served_ms)
        return due

    # -- when configs are due

    def _set_due(self, config: ConfigRow, due_ms: int | None) -> None:
        if config.due_ms is not None:
            line = self._lanes[config.lane]
            del line[bisect_left(line, _order(config), key=_order)]
            if not line:
                del self._lanes[config.lane]
        config.due_ms = due_ms
        if due_ms is not None:
            insort(self._lanes.setdefault(config.lane, []), config, key=_order)

    def _start_over(self, config: ConfigRow) -> None:
        """Forget what has failed. The config is due if it has pending deliveries and no attempt is running."""
        config.attempts, config.rejections, config.failing_ms, config.parked_ms = 0, 0, None, None
        if config.claimed_until_ms is None:
            self._set_due(config, config.served_ms if config.pending else None)

    def know(self, config: ConfigRow) -> None:
        self._known.setdefault(config.lane, {})[config.serial] = config

    def counts(self, owner: str, host: str | None, is_over: Callable[[str], bool]) -> Iterator[int]:
        """How many configs of each lane may have something to send. `is_over` says whether a task is finished."""
        for lane, known in self._known.items():
            if lane[0] == owner and host in (lane[1], None):
                for config in [config for config in known.values() if not config.pending and is_over(config.task_id)]:
                    del known[config.serial]
                yield sum(config.parked_ms is None for config in known.values())

    def replaced(self, config: ConfigRow, host: str) -> None:
        """A config was replaced. An attempt that is running for the old one has no claim on the new one."""
        self._set_due(config, None)
        self._known[config.lane].pop(config.serial, None)
        config.host, config.claimed_until_ms = host, None
        self.know(config)
        self._start_over(config)

    def forget(self, config: ConfigRow) -> None:
        self._set_due(config, None)
        self._known[config.lane].pop(config.serial, None)

    # -- claims

    def next_due(self) -> int | None:
        return min((line[0].due_ms or 0 for line in self._lanes.values()), default=None)

    def claim(self, now_ms: int, until_ms: int, limit: int, limits: ClaimLimits) -> Sequence[Delivery]:
        deliveries: list[Delivery] = []
        for lane in list(self._lanes):
            if len(deliveries) == limit:
                break
            self._lanes[lane] = self._lanes.pop(lane)  # the next claim begins with the others
            room = limits.room(*lane)
            for delivery in self._claim_of(lane, now_ms, until_ms, min(limit - len(deliveries), room)):
                deliveries.append(delivery)
                limits.take(*lane)
        return deliveries

    def _claim_of(self, lane: tuple[str, str], now_ms: int, until_ms: int, limit: int) -> Iterator[Delivery]:
        line = self._lanes[lane]
        due = line[: max(0, min(limit, bisect_left(line, (now_ms + 1, 0), key=_order)))]
        for config in due:
            self._set_due(config, until_ms)
            config.claimed_until_ms, config.served_ms = until_ms, now_ms
            number, trace = next(iter(config.pending.items()))
            failed = config.attempts, until_ms, config.host, config.failing_ms
            yield Delivery(config.scope, config.task_id, number, config.hook, *failed, trace, config.rejections)

    def finish(self, config: ConfigRow | None, delivery: Delivery, failure: FailedAttempt | None) -> bool:
        if config is None or config.claimed_until_ms != delivery.until_ms or delivery.number not in config.pending:
            return False
        config.claimed_until_ms = None
        if failure is not None and not failure.skips:
            self._put_off(config, failure)
            return True
        del config.pending[delivery.number]
        self._start_over(config)
        return True

    def _put_off(self, config: ConfigRow, failure: FailedAttempt) -> None:
        self._set_due(config, failure.retry_ms)
        if failure.retry_ms is None:
            config.parked_ms = failure.now_ms
        if failure.tried:
            config.attempts += 1
            config.rejections += failure.rejected
            config.failing_ms = failure.now_ms if config.failing_ms is None else config.failing_ms
