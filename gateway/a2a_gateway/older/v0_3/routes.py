"""REST's routes of 0.3: the annotations of its proto, and three lines that only its prose has (LRES-01, -07, -08)."""

from __future__ import annotations

from typing import Final

from a2a_gateway.older.v0_3.answers import RPCS
from a2a_gateway.routing.annotations import Route
from a2a_gateway.routing.table import Table
from a2a_gateway.routing.template import parse
from a2a_proto import a2a_v0_3_pb2 as v03

_SERVICE: Final = v03.DESCRIPTOR.services_by_name["A2AService"]
_CREATE: Final = _SERVICE.methods_by_name["CreateTaskPushNotificationConfig"]

PREFIX: Final = "/v1/"

MORE: Final = (
    # 0.3.0's own annotation misspells the path that its table has right.
    Route("POST", parse("/v1/{parent=task/*/pushNotificationConfigs}"), "config", "", _CREATE),
    # Of the table that compares the transports: no RPC of 0.3 lists tasks.
    Route("GET", parse("/v1/tasks"), "", "", RPCS["ListTasks"]),
)
"""The verb POST of `…:subscribe` is the third: an alias that all versions share."""


def table() -> Table:
    return Table.of([_SERVICE], more=MORE)
