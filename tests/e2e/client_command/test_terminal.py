"""Conversations on a terminal, and none without one (spec: CLI-02, CLI-72, CLI-74)."""

from __future__ import annotations

import pytest

from tests.e2e.client_command.command_line import CommandRunner
from tests.e2e.client_command.scripted_doors import ScriptedServer

registry = pytest.mark.registry


@pytest.mark.req("CLI-74", "CLI-02")
@registry("CHAT_001")
def test_chat_carries_the_context_and_an_interrupted_task(a2ad: CommandRunner, server: ScriptedServer) -> None:
    with a2ad.on_terminal("chat", "-a", server.origin) as terminal:
        terminal.until("you> ")
        terminal.type("quick\n")
        terminal.until("you> ")
        terminal.type("state INPUT_REQUIRED\n")
        assert "Which one?" in terminal.until("reply> ")
        terminal.type("slow\n")
        assert "one\ntwo" in terminal.until("you> ").replace("\x1b[2m", "")
        terminal.type("message\n")
        assert "just words" in terminal.until("you> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    sent = [call.request.message for call in server.agent.calls if "Message" in call.rpc]
    context = server.agent.tasks[sent[2].task_id].context_id
    assert [message.task_id for message in sent] == ["", "", sent[2].task_id, ""]
    assert [message.context_id for message in sent] == ["", context, context, context]
    assert len({message.message_id for message in sent}) == 4
    assert f'a2ad send --agent-card {server.origin} --context-id {context} "<text>"' in terminal.seen


@pytest.mark.req("CLI-10", "CLI-74")
@registry("CHAT_001", "INTERACT_003")
def test_a_turn_that_failed_can_be_repeated(a2ad: CommandRunner, server: ScriptedServer) -> None:
    with a2ad.on_terminal("chat", "-a", server.origin, "refuse", "INTERNAL") as terminal:
        assert "[InternalError] refuse INTERNAL" in terminal.until("you> ")
        for words in ("refuse INTERNAL", "quick"):
            terminal.type(f"{words}\n")
            terminal.until("you> ")
        terminal.type("\x04")
        assert terminal.end() == 0
    first, again, other = (call.request.message.message_id for call in server.agent.calls if "Message" in call.rpc)
    assert first == again
    assert first != other


@pytest.mark.req("CLI-02")
@registry("CHAT_001", "OUT_005")
def test_ctrl_c_offers_to_cancel(a2ad: CommandRunner, server: ScriptedServer) -> None:
    with a2ad.on_terminal("send", "-i", "endless", "-a", server.origin) as terminal:
        terminal.until("[submitted]")
        terminal.type("\x03")
        terminal.until("Cancel the task? [y/N]")
        terminal.type("y\n")
        terminal.until("[canceled]")
        assert terminal.end() == 0
    with a2ad.on_terminal("send", "-i", "endless", "-a", server.origin, NO_COLOR="1") as terminal:
        terminal.until("[submitted]")
        terminal.type("\x03")
        terminal.until("Cancel the task? [y/N]")
        terminal.type("n\n")
        assert terminal.end() == 130
        assert "The task goes on. Resume: a2ad task get --wait task-" in terminal.seen
    assert server.agent.rpcs().count("CancelTask") == 1


@pytest.mark.req("CLI-72")
@registry("AUTH_011")
def test_an_authorization_is_resolved_in_the_middle_of_a_task(a2ad: CommandRunner, server: ScriptedServer) -> None:
    with a2ad.on_terminal("send", "-i", "state AUTH_REQUIRED", "-a", server.origin) as terminal:
        terminal.until("authorized? Enter, or a reply> ")
        terminal.type("quick\n")
        terminal.until("[completed]")
        assert terminal.end() == 0
    sent = [call.request.message.task_id for call in server.agent.calls if "Message" in call.rpc]
    assert sent[1].startswith("task-")


@pytest.mark.req("CLI-02")
@registry("OUT_005")
def test_without_a_terminal_nothing_is_interactive(a2ad: CommandRunner, server: ScriptedServer) -> None:
    lines = [["send", "-i", "slow"], ["send", "--stream", "slow"], ["chat", "slow"], ["send", "slow"]]
    answers = a2ad.each([[*line, "-a", server.origin] for line in lines])
    assert [done.code for done in answers] == [0] * 4
    assert "\x1b" not in "".join(done.out + done.err for done in answers)
    assert answers[0].labels() == answers[2].labels() == answers[3].labels()
    done = a2ad.run("chat", "-a", server.origin, stdin="hello\n")
    assert (done.code, done.out) == (2, ""), "it waits for no input"
