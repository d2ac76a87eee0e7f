"""Messages and their outcomes, over every binding (spec: CLI-10 to CLI-24, CLI-48 to CLI-50)."""

from __future__ import annotations

import json

import pytest

from a2a_proto import a2a_pb2 as pb
from tests.e2e.client_command.command_line import BINDINGS, CommandRunner
from tests.e2e.client_command.scripted_doors import ScriptedServer

registry = pytest.mark.registry


@pytest.mark.req("CLI-03", "CLI-17", "CLI-34", "CLI-36", "CLI-57", "CLI-70")
@registry("SEND_001", "OUT_002", "OUT_004", "TX_002", "TX_004", "TX_005", "DEFAULT_001")
def test_a_send_waits_for_the_outcome_and_prints_one_document(a2ad: CommandRunner, server: ScriptedServer) -> None:
    answers = a2ad.over("send", "slow", "-o", "json", "-a", server.origin)
    for done, binding in zip(answers, BINDINGS, strict=True):
        assert done.code == 0, done.err
        task = done.json["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"][0]["parts"] == [{"text": "one\ntwo"}]
        assert set(done.json) == {"task"}
        calls = [call for call in server.agent.calls if call.binding == binding]
        assert [call.rpc for call in calls] == ["SendStreamingMessage", "GetTask"]


@pytest.mark.req("CLI-17", "CLI-28")
@registry("SEND_001")
def test_without_streaming_the_task_is_asked_for(a2ad: CommandRunner, server: ScriptedServer) -> None:
    plain = server.card("/plain.json", capabilities={"streaming": False})
    for done in a2ad.over("send", "slow", "-o", "json", "-a", plain, "--poll-interval", "10ms"):
        assert (done.code, done.json["task"]["status"]["state"]) == (0, "TASK_STATE_COMPLETED"), done.err
    assert set(server.agent.rpcs()) == {"SendMessage", "GetTask"}
    assert server.agent.sent().configuration.return_immediately, "no server is asked to hold a call"


@pytest.mark.req("CLI-17")
@registry("SEND_002", "OUT_006", "DEFAULT_001")
def test_async_returns_the_ids_at_once(a2ad: CommandRunner, server: ScriptedServer) -> None:
    for done in a2ad.over("send", "endless", "-o", "json", "-a", server.origin, "--async"):
        task = done.json["task"]
        assert (done.code, task["status"]["state"]) == (0, "TASK_STATE_SUBMITTED")
        assert task["id"].startswith("task-")
        assert task["contextId"].startswith("context-")
    for alias in ("--no-wait", "--return-immediately"):
        assert a2ad.run("send", "endless", "-a", server.origin, alias).code == 0


@pytest.mark.req("CLI-22")
@registry("SEND_003")
def test_a_bare_message_is_a_success(a2ad: CommandRunner, server: ScriptedServer) -> None:
    lines = [
        ["send", "message", "-a", server.origin, "-o", "json"],
        ["send", "message", "-a", server.origin, "-o", "json", "--stream"],
        ["send", "message", "-a", server.origin],
    ]
    for done in a2ad.each(lines[:2]):
        assert (done.code, done.json["message"]["parts"]) == (0, [{"text": "just words"}])
        assert set(done.json) == {"message"}
    assert a2ad.run(*lines[2]).out == "Context: c-1\nMessage: just words\n"


@pytest.mark.req("CLI-23", "CLI-58", "CLI-35")
@registry("SEND_003", "OUT_003", "VER_003")
def test_a_stream_falls_back_where_there_is_none(a2ad: CommandRunner, server: ScriptedServer) -> None:
    plain = server.card("/plain.json", capabilities={})
    done = a2ad.run("send", "slow", "-a", plain, "-o", "json", "--stream", "--poll-interval", "10ms")
    assert done.code == 0
    assert "no streaming" in done.err
    assert [set(line) for line in done.lines] == [{"task"}] * len(done.lines)
    assert done.lines[-1]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "SendStreamingMessage" not in server.agent.rpcs()


@pytest.mark.req("CLI-18", "CLI-19", "CLI-20")
@registry("SEND_005", "SEND_006")
def test_parts_keep_their_order_and_types(a2ad: CommandRunner, server: ScriptedServer) -> None:
    (a2ad.home / "a.pdf").write_bytes(b"%PDF\x00")
    (a2ad.home / "order.json").write_text('{"seats": 2}')
    line = [
        "send",
        "quick",
        "--data",
        "-",
        "--text",
        "more",
        "--media-type",
        "text/markdown",
        "--file",
        "a.pdf",
        "--data",
        "order.json",
    ]
    line += ["--file", "https://files.invalid/x/big%20one.bin", "--file", "a.pdf", "--media-type", "x/y"]
    done = a2ad.run(*line, "-a", server.origin, "--transport", "rest", stdin="[1.5, null]")
    assert done.code == 0, done.err
    parts = server.agent.sent().message.parts
    assert [part.WhichOneof("content") for part in parts] == ["text", "data", "text", "raw", "data", "url", "raw"]
    types = ["text/plain", "application/json", "text/markdown", "application/pdf", "application/json"]
    assert [part.media_type for part in parts] == [*types, "application/octet-stream", "x/y"]
    assert [part.filename for part in parts] == ["", "", "", "a.pdf", "", "big one.bin", "a.pdf"]
    assert parts[3].raw == b"%PDF\x00"
    assert parts[5].url == "https://files.invalid/x/big%20one.bin", "sent as it is, and not fetched"
    assert server.agent.sent().message.role == pb.ROLE_USER


@pytest.mark.req("CLI-19", "CLI-18")
@registry("SEND_005")
@pytest.mark.parametrize(
    "wrong",
    [
        ["--media-type", "a/b", "--text", "x"],
        ["--text", "x", "--media-type", "a/b", "--media-type", "c/d"],
        ["--data", "-", "--data", "-"],
        ["--data", "absent.json"],
        [],
    ],
    ids=" ".join,
)
def test_parts_that_make_no_sense_are_a_usage_error(
    a2ad: CommandRunner, server: ScriptedServer, wrong: list[str]
) -> None:
    done = a2ad.run("send", *wrong, "-o", "json", "-a", server.origin)
    assert (done.code, done.error["code"]) == (2, "A2ACLI_ERR_USAGE")
    assert not server.agent.calls


@pytest.mark.req("CLI-10", "CLI-11", "CLI-12")
@registry("INTERACT_001", "INTERACT_002", "INTERACT_003")
def test_ids_travel_as_given_and_are_never_made_up(a2ad: CommandRunner, server: ScriptedServer) -> None:
    assert a2ad.run("send", "quick", "-a", server.origin).code == 0
    message = server.agent.sent().message
    assert (message.task_id, message.context_id) == ("", "")
    done = a2ad.run("send", "quick", "-a", server.origin, "--context-id", "mine", "-o", "json")
    assert done.json["task"]["contextId"] == "mine"
    asking = a2ad.run("send", "state INPUT_REQUIRED", "-a", server.origin, "-o", "json").json["task"]
    done = a2ad.run(
        "send", "quick", "-a", server.origin, "--task-id", asking["id"], "--context-id", "other", "-o", "json"
    )
    assert (done.code, done.json["task"]["id"]) == (0, asking["id"])
    message = server.agent.sent().message
    assert (message.task_id, message.context_id) == (asking["id"], "other"), "nothing is corrected"


@pytest.mark.req("CLI-13")
@registry("INTERACT_002")
def test_a_refused_id_starts_no_other_task(a2ad: CommandRunner, server: ScriptedServer) -> None:
    finished = a2ad.run("send", "quick", "-a", server.origin, "-o", "json").json["task"]["id"]
    before = len(server.agent.tasks)
    for task_id, name in (("nobody", "TaskNotFoundError"), (finished, "UnsupportedOperationError")):
        for done in a2ad.over("send", "quick", "--task-id", task_id, "-a", server.origin, "-o", "json"):
            assert (done.code, done.error["code"]) == (1, name)
            assert name != "TaskNotFoundError" or "--debug" in done.error["hint"]
    assert len(server.agent.tasks) == before


@pytest.mark.req("CLI-06")
@registry("INTERACT_005", "CONFIG_001")
def test_nothing_is_kept_from_one_run_to_the_next(a2ad: CommandRunner, server: ScriptedServer) -> None:
    for _ in range(2):
        assert a2ad.run("send", "state INPUT_REQUIRED", "-a", server.origin).code == 0
        assert not server.agent.sent().message.task_id
    assert a2ad.run("send", "x", "--continue", "-a", server.origin).code == 2
    assert list(a2ad.home.iterdir()) == []


@pytest.mark.req("CLI-21")
@registry("AUTH_001")
def test_metadata_is_in_the_payload_and_service_parameters_beside_it(
    a2ad: CommandRunner, server: ScriptedServer
) -> None:
    line = ["send", "quick", "-a", server.origin, "--metadata", '{"n": {"deep": [1, true]}}']
    for done in a2ad.over(*line, "--svc-param", "x-one:1", "--svc-param", "X-Two=a:b"):
        assert done.code == 0, done.err
    for call in server.agent.calls:
        assert (call.headers["x-one"], call.headers["x-two"]) == ("1", "a:b")
        assert not {"x-one", "x-two"} & {name.lower() for name in call.query}
    assert json.loads(_json(server.agent.sent().metadata)) == {"n": {"deep": [1, True]}}
    done = a2ad.run("send", "quick", "-a", server.origin, "--metadata", "[1]", "-o", "json")
    assert (done.code, done.error["code"]) == (2, "A2ACLI_ERR_USAGE")


def _json(message: object) -> str:
    from google.protobuf.json_format import MessageToJson  # noqa: PLC0415 - one line

    return MessageToJson(message)  # type: ignore[arg-type]


@pytest.mark.req("CLI-48")
@registry("TX_001", "TX_002", "DEFAULT_001")
def test_the_card_chooses_the_transport_unless_the_user_does(a2ad: CommandRunner, server: ScriptedServer) -> None:
    card = server.card("/order.json", "GRPC", "HTTP+JSON")
    rest_first = server.card("/rest-first.json", "HTTP+JSON", "GRPC", "JSONRPC")
    exotic = [{"url": "x", "protocolBinding": "CARRIER-PIGEON", "protocolVersion": "1.0"}]
    known = json.loads(server.cards["/order.json"])["supportedInterfaces"]
    pigeons = server.card("/pigeons.json", supportedInterfaces=exotic + known)
    cases = [
        ([card], "GRPC"),
        ([rest_first], "HTTP+JSON"),
        ([pigeons], "GRPC"),
        ([card, "--transport", "jsonrpc", "--transport", "rest"], "HTTP+JSON"),
        ([card, "--transport", "JSONRPC"], "GRPC"),
    ]
    for line, binding in cases:
        assert a2ad.run("send", "quick", "-a", *line, "--async").code == 0
        assert server.agent.calls[-1].binding == binding, line
    none = server.card("/none.json", supportedInterfaces=exotic)
    done = a2ad.run("send", "quick", "-a", none, "-o", "json")
    assert (done.code, done.error["code"]) == (1, "A2ACLI_ERR_INTERNAL")


@pytest.mark.req("CLI-49")
@registry("TX_003")
def test_the_tenant_is_in_every_request_or_nowhere(a2ad: CommandRunner, server: ScriptedServer) -> None:
    interfaces = [
        {"url": url, "protocolBinding": name, "protocolVersion": "1.0", "tenant": "t-ann"}
        for name, url in server.urls().items()
    ]
    shared = server.card("/tenants.json", supportedInterfaces=interfaces)
    for done in a2ad.over("send", "quick", "-a", shared):
        assert done.code == 0, done.err
    assert {call.request.tenant for call in server.agent.calls} == {"t-ann"}
    assert {call.rpc for call in server.agent.calls} == {"SendStreamingMessage", "GetTask"}
    server.agent.reset()
    a2ad.over("send", "quick", "-a", server.origin)
    assert {call.request.tenant for call in server.agent.calls} == {""}


@pytest.mark.req("CLI-50")
@registry("VER_001", "DEFAULT_001")
def test_every_request_names_its_version(a2ad: CommandRunner, server: ScriptedServer) -> None:
    a2ad.over("send", "quick", "-a", server.origin)
    assert {call.headers["a2a-version"] for call in server.agent.calls} == {"1.0"}
    old = [{"url": server.urls()["JSONRPC"], "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}]
    card = server.card("/old.json", supportedInterfaces=old)
    done = a2ad.run("send", "quick", "-a", card, "-o", "json")
    assert (done.code, done.error["code"], done.error["a2aCode"]) == (1, "VersionNotSupportedError", None)
    assert "--a2a-version" in done.error["hint"]
    for done in a2ad.over("send", "refuse VERSION_NOT_SUPPORTED", "-a", server.origin, "-o", "json"):
        assert (done.code, done.error["code"]) == (1, "VersionNotSupportedError"), "reported, and not worked around"


@pytest.mark.req("CLI-75")
@registry("VER_002")
def test_extensions_that_the_agent_requires_are_declared(a2ad: CommandRunner, server: ScriptedServer) -> None:
    extensions = [{"uri": "urn:must", "required": True}, {"uri": "urn:may"}]
    card = server.card("/strict.json", capabilities={"streaming": True, "extensions": extensions})
    for done in a2ad.over("send", "quick", "-a", card):
        assert done.code == 0, done.err
    assert {call.headers["a2a-extensions"] for call in server.agent.calls} == {"urn:must"}
