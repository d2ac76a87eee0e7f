"""How long commands wait, and for what (spec: CLI-24, CLI-26 to CLI-30, CLI-54, CLI-55)."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.client_command.command_line import BINDINGS, CommandRunner
from tests.e2e.client_command.scripted_doors import ScriptedServer

registry = pytest.mark.registry
QUICKLY = ("--poll-interval", "10ms")


@pytest.mark.req("CLI-24", "CLI-14", "CLI-41", "CLI-43")
@registry("TASK_POLL_003", "INTERACT_004", "EXIT_002", "SEND_001")
@pytest.mark.parametrize("state", ["INPUT_REQUIRED", "AUTH_REQUIRED", "FAILED", "CANCELED", "REJECTED"])
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "polls"])
def test_every_wait_ends_in_such_a_state(
    a2ad: CommandRunner, server: ScriptedServer, state: str, *, streaming: bool
) -> None:
    card = server.card(f"/{streaming}.json", "JSONRPC", capabilities={"streaming": streaming})
    done = a2ad.run("send", f"state {state}", "-a", card, *QUICKLY)
    fields = dict(line.split(": ", 1) for line in done.out.splitlines())
    task = fields["Task"]
    assert (done.code, fields["State"], fields["Context"][:8]) == (0, f"TASK_STATE_{state}", "context-")
    resume = {
        "INPUT_REQUIRED": f'a2ad send --agent-card {card} --task-id {task} "<reply>"',
        "AUTH_REQUIRED": f"a2ad task subscribe {task} --agent-card {card}",
    }
    again = f'a2ad send --agent-card {card} --context-id {fields["Context"]} "<text>"'
    assert fields["Resume"] == resume.get(state, again)
    assert list(fields)[-1] == "Resume"
    assert "Warning: " in done.err
    assert f"(TASK_STATE_{state})" in done.err


@pytest.mark.req("CLI-29")
@registry("TASK_POLL_003")
def test_an_unspecified_state_is_no_end(a2ad: CommandRunner, server: ScriptedServer) -> None:
    plain = server.card("/plain.json", capabilities={})
    for done in a2ad.over("send", "state UNSPECIFIED", "-a", plain, "-o", "json", "--stream", *QUICKLY):
        states = [line["task"]["status"]["state"] for line in done.lines]
        assert (states[1], states[-1]) == ("TASK_STATE_UNSPECIFIED", "TASK_STATE_COMPLETED")
    done = a2ad.run("send", "state UNSPECIFIED", "-a", server.origin, "--stream")
    assert "State: TASK_STATE_UNSPECIFIED" in done.out
    assert done.out.rindex("TASK_STATE_COMPLETED") > done.out.rindex("TASK_STATE_UNSPECIFIED")


@pytest.mark.req("CLI-30", "CLI-55")
@registry("TASK_POLL_004", "TASK_SUBSCRIBE_002")
@pytest.mark.parametrize("cuts", [1, 99], ids=["once", "always"])
def test_a_broken_stream_does_not_end_the_wait(a2ad: CommandRunner, server: ScriptedServer, cuts: int) -> None:
    for binding in BINDINGS:
        server.agent.reset()
        server.agent.cuts = cuts
        done = a2ad.run("send", "slow", "-a", server.origin, "-o", "json", "--transport", binding, *QUICKLY)
        assert (done.code, done.json["task"]["status"]["state"]) == (0, "TASK_STATE_COMPLETED"), done.err
        rpcs = server.agent.rpcs()
        assert rpcs[:2] == ["SendStreamingMessage", "SubscribeToTask"]
        assert rpcs.count("SendStreamingMessage") == 1, "the message is not sent again"
        assert rpcs[-1] == "GetTask"


@pytest.mark.req("CLI-28", "CLI-42", "CLI-37")
@registry("TASK_POLL_002", "EXIT_001")
def test_a_timeout_has_an_exit_code_of_its_own(a2ad: CommandRunner, server: ScriptedServer) -> None:
    for done in a2ad.over("send", "endless", "-a", server.origin, "-o", "json", "--timeout", "6s"):
        assert (done.code, done.error["code"]) == (5, "A2ACLI_ERR_TIMEOUT"), done.err
        task = done.err.partition("Task: ")[2].split()[0]
        assert done.error["hint"] == f"a2ad task get --wait --agent-card {server.origin} {task}"
    done = a2ad.run("send", "silent", "-a", server.origin, "-o", "json", "--timeout", "1")
    assert (done.code, done.error["code"]) == (5, "A2ACLI_ERR_TIMEOUT")


@pytest.mark.req("CLI-28")
@registry("TASK_POLL_002")
def test_an_interrupt_loses_no_task_id(a2ad: CommandRunner, server: ScriptedServer) -> None:
    process = a2ad.start("send", "endless", "-a", server.origin, "-o", "json")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Task: task-")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


@pytest.mark.req("CLI-26", "CLI-28")
@registry("TASK_GET_001", "TASK_POLL_001")
def test_task_get_reads_once_or_waits(a2ad: CommandRunner, server: ScriptedServer) -> None:
    for binding in BINDINGS:
        line = ["-a", server.origin, "-o", "json", "--transport", binding]
        task = a2ad.run("send", "slow", "--async", *line).json["task"]["id"]
        server.agent.calls.clear()
        once = a2ad.run("task", "get", task, "--history", "1", *line).json
        assert (once["status"]["state"], len(once["history"])) == ("TASK_STATE_WORKING", 1)
        assert server.agent.rpcs() == ["GetTask"]
        assert server.agent.calls[0].request.history_length == 1
        done = a2ad.run("task", "get", "--wait", task, "--history", "0", *line, *QUICKLY)
        assert (done.json["status"]["state"], done.json.get("history")) == ("TASK_STATE_COMPLETED", None)
        assert done.json["artifacts"]


@pytest.mark.req("CLI-27", "CLI-38")
@registry("TASK_CANCEL_001")
def test_task_cancel_reports_the_state_and_may_be_repeated(a2ad: CommandRunner, server: ScriptedServer) -> None:
    task = a2ad.run("send", "endless", "--async", "-a", server.origin, "-o", "json").json["task"]["id"]
    for done in a2ad.over("task", "cancel", task, "-a", server.origin, "-o", "json"):
        assert (done.code, done.json["id"], done.json["status"]["state"]) == (0, task, "TASK_STATE_CANCELED")
    finished = a2ad.run("send", "quick", "-a", server.origin, "-o", "json").json["task"]["id"]
    for done in a2ad.over("task", "cancel", finished, "-a", server.origin, "-o", "json"):
        assert (done.code, done.error["code"]) == (1, "TaskNotCancelableError")


@pytest.mark.req("CLI-54")
@registry("TASK_SUBSCRIBE_001")
def test_task_subscribe_joins_the_stream(a2ad: CommandRunner, server: ScriptedServer) -> None:
    for binding in BINDINGS:
        line = ["-a", server.origin, "-o", "json", "--transport", binding]
        task = a2ad.run("send", "slow", "--async", *line).json["task"]["id"]
        done = a2ad.run("task", "subscribe", task, "--stream", *line)
        assert done.code == 0, done.err
        assert set(done.lines[0]) == {"task"}
        assert done.lines[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        task = a2ad.run("send", "slow", "--async", *line).json["task"]["id"]
        done = a2ad.run("task", "subscribe", task, *line)
        assert (done.json["id"], done.json["status"]["state"]) == (task, "TASK_STATE_COMPLETED")
    done = a2ad.run("task", "subscribe", "nobody", *line)
    assert (done.code, done.error["code"]) == (1, "TaskNotFoundError")


@pytest.mark.req("CLI-53")
@registry("TASK_LIST_001")
def test_task_list_pages_and_filters(a2ad: CommandRunner, server: ScriptedServer) -> None:
    server.agent.tasks.clear()
    for words in ("quick", "quick", "state FAILED"):
        assert a2ad.run("send", words, "--context-id", "here", "-a", server.origin).code == 0
    assert a2ad.run("send", "quick", "-a", server.origin).code == 0
    for binding in BINDINGS:
        line = ["task", "list", "-a", server.origin, "-o", "json", "--transport", binding]
        page = a2ad.run(*line, "--page-size", "2").json
        assert (len(page["tasks"]), page["totalSize"]) == (2, 4)
        rest = a2ad.run(*line, "--page-size", "2", "--page-token", page["nextPageToken"]).json
        assert len({task["id"] for task in page["tasks"] + rest["tasks"]}) == 4
        failed = a2ad.run(*line, "--context-id", "here", "--status", "failed").json
        assert [task["status"]["state"] for task in failed["tasks"]] == ["TASK_STATE_FAILED"]
        assert len(a2ad.run(*line, "--stream", "--page-size", "1").lines) == 4
    done = a2ad.run(*line, "--status", "asleep")
    assert (done.code, done.error["code"]) == (2, "A2ACLI_ERR_USAGE")
