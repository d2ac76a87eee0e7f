"""The draft as operators switch it on: `--profile draft`, for a server and for a gateway (spec: DRFT-01, OPER-04)."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.processes import command, serving
from tests.e2e.test_gateway import Gateway, gateway

BODY = {
    "message": {"messageId": "m", "role": "user", "parts": [{"text": "echo hello"}]},
    "configuration": {"blocking": True},
}
CARD = "/.well-known/agent-card.json"
MEMORY = ("--store", "memory:")


def spoken(door: Gateway, path: str) -> str:
    """Send over REST, read over JSON-RPC and in 1.0; the task's id."""
    status, headers, sent = door.ask("POST", f"{path}/v1/message:send", BODY)
    assert (status, headers["Content-Type"]) == (200, "application/a2a+json")
    assert sent["task"]["status"]["state"] == "completed"
    task_id: str = sent["task"]["id"]
    params = {"name": f"tasks/{task_id}"}
    for root in (path, f"{path}/"):
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": params}
        assert door.ask("POST", root, rpc)[2]["result"] == sent["task"]
    assert door.ask("GET", f"/tasks/{task_id}")[2]["status"]["state"] == "TASK_STATE_COMPLETED"
    status, headers, problem = door.ask("GET", f"{path}/tasks/nope")
    assert (status, headers["Content-Type"]) == (404, "application/problem+json")
    assert problem["type"] == "https://a2a-protocol.org/errors/task-not-found"
    card = door.ask("GET", path + CARD)[2]
    assert (card["protocolVersion"], card["url"]) == ("0.3.0", door.url + path)
    return task_id


@pytest.mark.req("DRFT-01", "DRFT-03", "DRFT-05", "DRFT-07", "OPER-05")
def test_a_server_and_a_gateway_speak_the_draft_where_they_are_told_to(tmp_path: Path) -> None:
    with serving(*MEMORY, "--profile", "draft", cwd=tmp_path) as server:
        near = Gateway(server.process, server.http, server.welcome)
        task_id = spoken(near, "/draft")
        with gateway(
            *("--upstream", server.address),
            cwd=tmp_path,
            A2A_GATEWAY__PROFILES="draft",
            A2A_GATEWAY__DRAFT_PATH="/a2a/2025-12",
        ) as far:
            spoken(far, "/a2a/2025-12")
            assert far.ask("GET", f"/a2a/2025-12/tasks/{task_id}")[2]["id"] == task_id
            assert far.ask("GET", "/draft/v1/tasks")[0] == 404
        with gateway("--upstream", server.address, "--profile", "draft,draft", cwd=tmp_path) as far:
            spoken(far, "/draft")


@pytest.mark.req("DRFT-01", "CONF-49")
def test_without_0_3_the_draft_may_have_the_root(tmp_path: Path) -> None:
    told = {"A2A_LEGACY__ENABLED": "false", "A2A_GATEWAY__DRAFT_PATH": "/"}
    with serving(*MEMORY, "--profile", "draft", cwd=tmp_path, **told) as server:
        far = gateway("--upstream", server.address, "--profile", "draft", cwd=tmp_path, **told)
        with far as door:
            for place in (Gateway(server.process, server.http, server.welcome), door):
                status, headers, sent = place.ask("POST", "/v1/message:send", BODY)
                assert (status, headers["Content-Type"]) == (200, "application/a2a+json")
                assert sent["task"]["status"]["state"] == "completed"
                listed = [entry["url"] for entry in place.ask("GET", CARD)[2]["supportedInterfaces"]]
                assert listed[-2:] == [place.url, f"{place.url}/v1/"]


@pytest.mark.req("DOOR-15")
def test_the_card_lists_the_doors_that_a_flag_names(tmp_path: Path) -> None:
    def listed(door: Gateway) -> list[tuple[str, str]]:
        found = door.ask("GET", CARD)[2]["supportedInterfaces"]
        return [(entry["protocolVersion"], entry["protocolBinding"]) for entry in found]

    told = ("--profile", "draft", "--card-doors", "draft/rest,jsonrpc")
    wanted = [("draft", "HTTP+JSON"), ("1.0", "JSONRPC"), ("0.3", "JSONRPC")]
    with serving(*MEMORY, *told, cwd=tmp_path) as server:
        assert listed(Gateway(server.process, server.http, server.welcome)) == wanted
        with gateway("--upstream", server.address, *told, cwd=tmp_path) as far:
            assert listed(far) == wanted
        (tmp_path / "a2ad.toml").write_text('[card]\ndoors = ["0.3/rest", "1.0/grpc"]\n')
        with gateway("--upstream", server.address, cwd=tmp_path) as far:
            assert listed(far) == [("0.3", "HTTP+JSON")]  # the server does not tell of its gRPC door


@pytest.mark.req("DOOR-15", "OPER-05")
@pytest.mark.parametrize("program", ["serve", "gateway"])
def test_doors_that_cannot_be_listed_stop_the_start(program: str, tmp_path: Path) -> None:
    upstream = ("--upstream", "127.0.0.1:1") if program == "gateway" else ()
    for told, message in (
        ({"A2A_CARD__DOORS": ""}, "card.doors = [] (environment A2A_CARD__DOORS): must name at least one door"),
        (
            {"A2A_CARD__DOORS": "rest,http"},
            "card.doors = 'http' (environment A2A_CARD__DOORS): must be all, by itself, or",
        ),
        (
            {"A2A_CARD__DOORS": "draft/rest"},
            "card.doors = 'draft/rest' (environment A2A_CARD__DOORS): is not open; open",
        ),
    ):
        ended = command(program, *upstream, cwd=tmp_path, **told)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert message in ended.stderr


@pytest.mark.req("DRFT-01")
def test_the_draft_is_off_unless_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a2ad.toml").write_text('store = "memory:"\n')
    with serving(cwd=tmp_path) as server:
        door = Gateway(server.process, server.http, server.welcome)
        for path in ("/v1/message:send", "/", ""):
            assert door.ask("POST", f"/draft{path}", BODY)[0] == 404
    (tmp_path / "a2ad.toml").write_text('store = "memory:"\n[gateway]\nprofiles = ["draft"]\n')
    with serving(cwd=tmp_path) as server:
        spoken(Gateway(server.process, server.http, server.welcome), "/draft")


@pytest.mark.req("DRFT-01", "OPER-05")
@pytest.mark.parametrize(
    ("told", "variables", "message"),
    [
        (("--profile", "rough"), {}, "gateway.profiles.0 = 'rough' (flag): must be draft"),
        (("--profile", "draft", "--profile", "x"), {}, "gateway.profiles.1 = 'x' (flag): must be draft"),
        (
            ("--profile", "draft"),
            {"A2A_GATEWAY__DRAFT_PATH": "/tasks"},
            "gateway.draft_path = '/tasks' (environment A2A_GATEWAY__DRAFT_PATH): /tasks is served already",
        ),
        (
            ("--profile", "draft"),
            {"A2A_TENANTS": "north,draft"},
            "gateway.draft_path = '/draft': /draft is where a tenant is served; choose another path",
        ),
        (
            ("--profile", "draft"),
            {"A2A_GATEWAY__DRAFT_PATH": "/"},
            "gateway.draft_path = '/' (environment A2A_GATEWAY__DRAFT_PATH): /v1 is where 0.3 is served; set legacy.",
        ),
        (
            ("--profile", "draft"),
            {"A2A_GATEWAY__DRAFT_PATH": ""},
            "gateway.draft_path = '' (environment A2A_GATEWAY__DRAFT_PATH): must be a path",
        ),
    ],
)
@pytest.mark.parametrize("program", ["serve", "gateway"])
def test_what_cannot_be_served_stops_the_start(
    program: str, told: Any, variables: dict[str, str], message: str, tmp_path: Path
) -> None:
    upstream = ("--upstream", "127.0.0.1:1") if program == "gateway" else ()
    ended = command(program, *upstream, *told, cwd=tmp_path, **variables)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr
