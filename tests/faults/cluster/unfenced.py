"""The agent of fault runs, in a server without fencing: it writes whatever the epoch, and its session never ends."""

from __future__ import annotations

from math import inf
from typing import Any

from tests.faults.cluster.agent import agent
from tests.support.house import Session, postgres_writes

__all__ = ["agent"]


async def _forever(session: Session, _: Any) -> bool:
    session.until = inf
    return True


for _name in ("append", "change"):
    postgres_writes.SQL[_name] = postgres_writes.SQL[_name].replace("AND fences.epoch = given.epoch", "")  # type: ignore[index]  # a dict
Session._beat = _forever  # type: ignore[assignment, method-assign]  # noqa: SLF001 - there is no switch for this
