"""Traces of clients, and what their webhooks and agents were told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.support.receivers import Received

ONE: Final = {"traceparent": "00-11111111111111111111111111111111-1111111111111111-01", "tracestate": "a=1,b=2"}
TWO: Final = {"traceparent": "00-22222222222222222222222222222222-2222222222222222-00"}
NONE: Final[Mapping[str, str]] = {}


def along(trace: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Call metadata with the trace in it."""
    return tuple(trace.items())


def traces(found: Sequence[Received]) -> Sequence[Mapping[str, str]]:
    """The trace of each webhook; none may say anything twice."""
    told = []
    for one in found:
        lines = {name: one.headers.getall(name, []) for name in ("traceparent", "tracestate")}
        assert all(len(values) <= 1 for values in lines.values()), lines
        told.append({name: values[0] for name, values in lines.items() if values})
    return told
