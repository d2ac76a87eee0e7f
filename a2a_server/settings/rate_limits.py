"""The settings of how often callers may call (spec: LIMT-03)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Final, Self

from annotated_types import Ge, Gt
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from a2a_proto import a2a_pb2, discovery_pb2
from a2a_server.ports.access import Bucket
from a2a_server.protocol.options import NameList, all_are
from a2a_server.settings.sections import Section, tables
from a2a_server.transport.rates import CallerClass, Quota, Quotas

_RATE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*/\s*(s|min|m|h|d)").fullmatch
_SECONDS: Final = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
_SERVICES: Final = (
    a2a_pb2.DESCRIPTOR.services_by_name["A2AService"],
    discovery_pb2.DESCRIPTOR.services_by_name["Discovery"],
)
OPERATIONS: Final = frozenset(rpc.name for service in _SERVICES for rpc in service.methods)


def _rate(text: str) -> str:
    found = _RATE(text.strip()) if text else None
    if text and (found is None or not float(found[1])):
        raise ValueError("must be a number of calls per s, min, h or d, such as 100/s or 600/min")
    return text.strip()


Rate = Annotated[str, AfterValidator(_rate)]
Operations = Annotated[NameList, all_are(OPERATIONS.__contains__, f"must be of {', '.join(sorted(OPERATIONS))}")]


def _bucket(rate: str, burst: int) -> Bucket:
    found = _RATE(rate)
    assert found is not None  # noqa: S101 - it was checked
    number = float(found[1])
    return Bucket(number / _SECONDS[found[2]], burst or math.ceil(number))


class OperationRate(Section):
    """Operations with a weight or a rate of their own."""

    operations: Operations = Field(min_length=1)
    """The RPCs, as 1.0 calls them. 0.3 and the draft count as the same."""
    rate: Rate = ""
    """How often these may be called together; empty = they count for `per_caller`."""
    burst: Annotated[int, Ge(0)] = 0
    """How many calls at once; 0 = as many as the number in `rate`."""
    weight: Annotated[float, Gt(0), Field(allow_inf_nan=False)] = 1.0
    """How many calls each of these counts for."""


_OPERATIONS: Final = BeforeValidator(tables('[{"operations": ["SendMessage"], "rate": "10/s"}]'))
_CLASSES: Final = BeforeValidator(tables('[{"name": "partners", "owners": ["ann"], "per_caller": "1000/s"}]'))


class RateTable(Section):
    """The rates of some callers."""

    per_caller: Rate = ""
    """How often each caller may call: 100/s, 600/min, 1000/h. Anonymous callers are counted by their address; empty =
    no limit."""
    burst: Annotated[int, Ge(0)] = 0
    """How many calls at once; 0 = as many as the number in `per_caller`."""
    operations: Annotated[tuple[OperationRate, ...], _OPERATIONS] = ()
    """Operations with another weight, or a rate of their own. The first entry that names an operation counts."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for rule in self.operations:
            bucket = self._bucket_of(rule)
            if bucket is not None and rule.weight > bucket.burst:
                what = "rate or burst" if rule.rate else "per_caller or burst"
                raise ValueError(f"operations.weight {rule.weight:g} is more than {what} lets through at once")
            if rule.burst and not rule.rate:
                raise ValueError("operations.burst needs a rate of its own")
        if self.burst and not self.per_caller:
            raise ValueError("burst needs per_caller")
        return self

    def _bucket_of(self, rule: OperationRate) -> Bucket | None:
        if rule.rate:
            return _bucket(rule.rate, rule.burst)
        return _bucket(self.per_caller, self.burst) if self.per_caller else None

    def quotas(self, name: str) -> Quotas:
        """What the pipeline needs; `name` tells the buckets of classes apart."""
        others = Quota(name, _bucket(self.per_caller, self.burst)) if self.per_caller else None
        return Quotas(others, dict(self._by_operation(name)))

    def _by_operation(self, name: str) -> Mapping[str, Quota]:
        found: dict[str, Quota] = {}
        for rule in self.operations:
            own = f"{name}.{rule.operations[0]}" if rule.rate else name
            if (bucket := self._bucket_of(rule)) is not None:
                for rpc in rule.operations:
                    found.setdefault(rpc, Quota(own, bucket, rule.weight))
        return found


class RateClass(RateTable):
    """Callers with rates of their own."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    """What clients and logs call the class."""
    owners: NameList = ()
    """The owners in this class."""
    scopes: NameList = ()
    """Callers with one of these scopes or roles are in this class, too."""


class RateLimits(RateTable):
    """How often callers may call. Without any rate nothing is counted. Servers on one PostgreSQL count together."""

    calls_per_caller: Annotated[int, Ge(0)] = 0
    """How many calls of one caller may be under way at once, on each server, streams aside; 0 = no limit."""
    wrong_credentials: Annotated[int, Ge(0)] = 60
    """How many wrong credentials may come per minute from one address, and for one user name of HTTP Basic. Then
    only credentials that were right before are checked. 0 = any number."""
    classes: Annotated[tuple[RateClass, ...], _CLASSES] = ()
    """Classes of callers, by owners or scopes. The first class that a caller is in replaces the rates above."""

    @property
    def on(self) -> bool:
        tables: tuple[RateTable, ...] = (self, *self.classes)
        return any(table.per_caller or any(rule.rate for rule in table.operations) for table in tables)

    @property
    def caller_classes(self) -> tuple[CallerClass, ...]:
        return tuple(
            CallerClass(frozenset(known.owners), frozenset(known.scopes), known.quotas(known.name))
            for known in self.classes
        )
