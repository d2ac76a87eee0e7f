"""What commands print, as text and as JSON (spec: CLI-14, CLI-25, CLI-31 to CLI-37)."""

from __future__ import annotations

import json

import pytest
from google.protobuf.json_format import ParseDict

from a2a_proto import a2a_pb2 as pb
from tests.e2e.client_command.command_line import CommandRunner
from tests.e2e.client_command.scripted_doors import ScriptedServer

registry = pytest.mark.registry

LABELS = {"Task", "Context", "State", "Message", "Artifact", "Artifact name", "Data", "File", "Resume"}


@pytest.mark.req("CLI-25", "CLI-31", "CLI-32")
@registry("SEND_004", "TASK_GET_001", "OUT_001", "OUT_005", "DEFAULT_001")
def test_text_has_labels_and_blocks_and_drops_nothing(a2ad: CommandRunner, server: ScriptedServer) -> None:
    for done in a2ad.over("send", "parts", "-a", server.origin):
        assert done.code == 0
        task, context = next(line[6:] for line in done.out.splitlines() if line.startswith("Task: ")), "context-"
        lines = done.out.splitlines()
        assert lines[1].startswith(f"Context: {context}")
        assert lines[2:-1] == [
            "State: TASK_STATE_COMPLETED",
            "Message: done",
            "Artifact name: plan",
            "Artifact:",
            "  first line",
            "  ",
            "  State: not a field\\x1b[31m",
            "  ",
            "",
            "Data:",
            "  {",
            '    "seats": 2',
            "  }",
            "",
            "File: ../plan.pdf, application/pdf, 4 bytes",
            "File: big.bin, application/octet-stream, https://files.invalid/big.bin",
        ]
        assert set(done.labels()) <= LABELS
        assert f"Task: {task}" in done.err, "the id is said as soon as it is known"
    assert list(a2ad.home.iterdir()) == [], "no file is written unasked"


@pytest.mark.req("CLI-31", "CLI-33", "CLI-32")
@registry("OUT_001", "OUT_005")
def test_text_with_stream_prints_events_and_ends_with_the_ids(a2ad: CommandRunner, server: ScriptedServer) -> None:
    for done in a2ad.over("send", "slow", "-a", server.origin, "--stream"):
        labels = done.labels()
        assert labels.count("State") == 3
        assert labels[-5:] == ["Task", "Context", "State", "Message", "Resume"]
        assert "State: TASK_STATE_COMPLETED" in done.out
        assert "Artifact:\n  one\n  \n\nArtifact: two\n" in done.out
        assert "\x1b" not in done.out


@pytest.mark.req("CLI-35", "CLI-36")
@registry("OUT_003", "OUT_002")
def test_json_lines_are_stream_responses(a2ad: CommandRunner, server: ScriptedServer) -> None:
    for done in a2ad.over("send", "slow", "-a", server.origin, "--stream", "-o", "json"):
        kinds = [next(iter(line)) for line in done.lines]
        assert kinds == ["task", "statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]
        assert done.lines[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        for line in done.lines:
            ParseDict(line, pb.StreamResponse())  # knows every member


@pytest.mark.req("CLI-35")
@registry("OUT_003")
def test_each_line_is_flushed_when_it_comes(a2ad: CommandRunner, server: ScriptedServer) -> None:
    process = a2ad.start("send", "endless", "-a", server.origin, "--stream", "-o", "json")
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["task"]["id"]
        assert process.poll() is None, "the stream goes on"
    finally:
        process.kill()
        process.communicate(timeout=60)


@pytest.mark.req("CLI-37", "CLI-35")
@registry("OUT_003", "OUT_004")
def test_an_error_is_the_last_line(a2ad: CommandRunner, server: ScriptedServer) -> None:
    line = ["send", "endless", "-a", server.origin, "--stream", "-o", "json", "--timeout", "6s"]
    for done in a2ad.over(*line):
        assert [next(iter(each)) for each in done.lines] == ["task", "error"]
        assert set(done.error) == {"code", "message", "hint", "a2aCode"}


@pytest.mark.req("CLI-14", "CLI-36")
@registry("OUT_002", "INTERACT_004")
def test_json_results_are_the_protocols_own_types(a2ad: CommandRunner, server: ScriptedServer) -> None:
    sent = a2ad.run("send", "parts", "-a", server.origin, "-o", "json").json
    answer = ParseDict(sent, pb.SendMessageResponse())
    task = answer.task
    assert (task.status.state, task.artifacts[0].parts[2].raw) == (pb.TASK_STATE_COMPLETED, b"%PDF")
    read = a2ad.run("task", "get", task.id, "-a", server.origin, "-o", "json").json
    assert ParseDict(read, pb.Task()) == task
    assert ParseDict(a2ad.run("task", "list", "-a", server.origin, "-o", "json").json, pb.ListTasksResponse()).tasks
    card = a2ad.run("card", "get", server.origin, "-o", "json").json
    assert card == json.loads(server.cards["/.well-known/agent-card.json"])


@pytest.mark.req("CLI-02", "CLI-08", "CLI-32")
@registry("OUT_005", "OUT_002")
def test_a_terminal_changes_nothing(a2ad: CommandRunner, server: ScriptedServer) -> None:
    server.agent.tasks.clear()
    task = a2ad.run("send", "parts", "-a", server.origin, "-o", "json").json["task"]["id"]
    piped = a2ad.run("task", "get", task, "-a", server.origin).out
    with a2ad.on_terminal("task", "get", task, "-a", server.origin) as terminal:
        assert terminal.end() == 0
        assert terminal.seen == piped
    done = a2ad.run("task", "get", task, "-a", server.origin, "-o", "json", A2ACLI_STREAM="true", A2ACLI_HELP="true")
    assert (done.code, done.json["id"]) == (0, task)


@pytest.mark.req("CLI-01")
@registry("DEFAULT_001")
def test_verbose_shows_everything_and_concise_is_the_default(a2ad: CommandRunner, server: ScriptedServer) -> None:
    concise = a2ad.run("send", "parts", "-a", server.origin).out
    verbose = a2ad.run("send", "parts", "-a", server.origin, "--verbose").out
    for label in ("Artifact ID: a-1", "Media type: application/pdf", "History: ROLE_USER", "Metadata:"):
        assert label in verbose
        assert label not in concise
