"""Every route of the draft comes from an annotation of 1.0, in all forms of the table (spec: DRFT-01)."""

from __future__ import annotations

import pytest

from a2a_gateway.older.draft.doors import routes
from a2a_gateway.routing.table import Unknown
from tests.support.doors import DISCOVERY, SERVICE

TABLE = routes()

# wire-0.3, section 9.
PATHS = [
    ("POST", "message:send", "SendMessage"),
    ("POST", "message:stream", "SendStreamingMessage"),
    ("GET", "tasks", "ListTasks"),
    ("GET", "tasks/t", "GetTask"),
    ("POST", "tasks/t:cancel", "CancelTask"),
    ("POST", "tasks/t:subscribe", "SubscribeToTask"),
    ("GET", "tasks/t:subscribe", "SubscribeToTask"),
    ("POST", "tasks/t/pushNotificationConfigs", "CreateTaskPushNotificationConfig"),
    ("GET", "tasks/t/pushNotificationConfigs", "ListTaskPushNotificationConfigs"),
    ("GET", "tasks/t/pushNotificationConfigs/c", "GetTaskPushNotificationConfig"),
    ("DELETE", "tasks/t/pushNotificationConfigs/c", "DeleteTaskPushNotificationConfig"),
    ("GET", "extendedAgentCard", "GetExtendedAgentCard"),
]


@pytest.mark.req("DRFT-01")
@pytest.mark.parametrize(("verb", "path", "rpc"), PATHS)
@pytest.mark.parametrize("form", ["/", "/v1/", "/north/", "/north/v1/"])
def test_the_table(form: str, verb: str, path: str, rpc: str) -> None:
    route, captures = TABLE.match(verb, form + path)
    assert (route.method.name, route.method.containing_service) == (rpc, SERVICE)
    assert captures.get("tenant") == ("north" if "north" in form else None)
    expected = {"t", "c"} if path.endswith("/c") else {"t"} if "tasks/t" in path else set()
    assert {*captures.values()} - {"north"} == expected


@pytest.mark.req("DRFT-01")
def test_every_rpc_has_all_forms() -> None:
    assert {path[2] for path in PATHS} == {method.name for method in SERVICE.methods}
    assert len(TABLE.routes) == len(PATHS) * 4 + 2 * len(DISCOVERY.methods)


@pytest.mark.parametrize("path", ["/v1", "/v1/north/tasks/t/x", "/north/v1/v1/tasks", "/v1/", "/agent.json"])
def test_there_is_nothing_else(path: str) -> None:
    with pytest.raises(Unknown):
        TABLE.match("GET", path)
