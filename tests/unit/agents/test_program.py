"""Programs as agents: what they read, what becomes of their lines, and how they end (spec: AGNT-08)."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import InvalidAgentResponse, data_part, process
from a2a_server.agents.program import ProgramAgent, ProgramFailed
from a2a_server.agents.testing import Record, run_turn


def python(*lines: str) -> ProgramAgent:
    return ProgramAgent(shlex.join([sys.executable, "-c", "\n".join(lines)]))


def saying(*lines: object) -> ProgramAgent:
    """Writes these lines: texts as they are, all else as JSON."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return python(*(f"print({text!r})" for text in texts))


def words(record: Record) -> list[str]:
    """The texts of all statuses."""
    statuses = [event.status_update.status for event in record.events if event.HasField("status_update")]
    return [part.text for status in statuses for part in status.message.parts]


# -- what it reads


@pytest.mark.req("AGNT-08")
async def test_it_reads_the_request_and_in_later_turns_the_task() -> None:
    agent = python(
        "import json, sys",
        "request = json.load(sys.stdin)",
        "print(json.dumps({'data': request}))",
        "if 'task' not in request: print(json.dumps({'ask': 'And?'}))",
    )
    first = await run_turn(agent, ["hi", data_part({"a": 1})], metadata={"k": "v"})
    (request,) = first.data
    assert request["metadata"] == {"k": "v"}
    assert request["message"] == {
        "messageId": "",
        "contextId": first.request.context_id,
        "taskId": first.task.id,
        "role": "ROLE_USER",
        "parts": [{"text": "hi"}, {"data": {"a": 1}}],
    }
    assert (first.state, first.says) == ("INPUT_REQUIRED", "And?")
    second = await run_turn(agent, "more", after=first)
    said = [message["parts"][0].get("text") for message in second.data[-1]["task"]["history"]]
    assert (second.state, said) == ("COMPLETED", ["hi", "And?", "more"])


@pytest.mark.req("AGNT-08")
async def test_a_program_that_reads_nothing_hangs_nobody() -> None:
    record = await run_turn(saying("done"), "x" * 2_000_000)
    assert (record.state, record.text) == ("COMPLETED", "done\n")


async def test_it_has_the_environment_without_the_secrets_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("A2A_AUTH__TOKENS", "PGPASSWORD", "ITS_OWN"):
        monkeypatch.setenv(name, "secret")
    record = await run_turn(python("import json, os", "print(json.dumps({'data': dict(os.environ)}))"))
    (seen,) = record.data
    assert seen["PATH"] == os.environ["PATH"]
    assert [name for name, value in seen.items() if value == "secret"] == ["ITS_OWN"]


# -- what it writes


@pytest.mark.req("AGNT-08")
async def test_lines_are_text_and_json_objects_with_one_known_key_are_events() -> None:
    record = await run_turn(
        saying("one", {"text": "two"}, {"status": "busy"}, {"data": [1]}, {"other": 1}, {"text": "a", "b": 1}, "{", [1])
    )
    assert record.state == "COMPLETED"
    assert record.artifacts[0].parts[0].text == "one\n"
    assert record.text == 'one\ntwo{"other": 1}\n{"text": "a", "b": 1}\n{\n[1]\n'
    assert (words(record), record.data) == (["busy"], [[1]])


@pytest.mark.req("AGNT-08")
async def test_events_of_the_protocol_are_passed_on() -> None:
    artifact = {"artifactId": "mine", "name": "n", "parts": [{"raw": "eA==", "mediaType": "image/x"}]}
    message = {"role": "ROLE_AGENT", "parts": [{"text": "Which?"}]}
    asked = await run_turn(
        saying(
            {"artifactUpdate": {"artifact": artifact, "lastChunk": True}},
            {"statusUpdate": {"status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": message}}},
        )
    )
    assert [json_format.MessageToDict(each) for each in asked.artifacts] == [artifact]
    assert (asked.state, asked.says) == ("INPUT_REQUIRED", "Which?")
    said = await run_turn(saying({"message": {"parts": [{"text": "Goodbye."}]}}))
    assert (said.state, said.says) == ("COMPLETED", "Goodbye.")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ({"ask": 5}, "line 1 of the program: ask must be a text"),
        ({"statusUpdate": {"status": {"state": "NONE"}}}, "line 1 of the program: "),
        ({"artifactUpdate": 5}, "line 1 of the program: "),
    ],
)
async def test_a_line_that_is_wrong_fails_the_turn(line: object, fault: str) -> None:
    with pytest.raises(InvalidAgentResponse, match=fault):
        await run_turn(saying(line))


async def test_output_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidAgentResponse, match="a line of the program has more than 1048576 bytes"):
        await run_turn(python(f"print('x' * {process.MOST_IN_LINE + 1})"))
    monkeypatch.setattr(process, "MOST_LINES", 100)
    with pytest.raises(InvalidAgentResponse, match="may write 100 lines"):
        await run_turn(python("while True: print('y')"))
    monkeypatch.setattr(process, "MOST_IN_ALL", 1000)
    with pytest.raises(InvalidAgentResponse, match="and 1000 bytes in a turn"):
        await run_turn(python("while True: print('y' * 300)"))


async def test_a_slow_reader_gets_all_lines_of_a_program_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_IN_LINE", 100)
    monkeypatch.setattr(process, "LEFTOVER", 0.01)
    record = await run_turn(python("for number in range(500): print(f'{number:050}')"))
    assert len(record.text.splitlines()) == 500


# -- how it ends


@pytest.mark.req("AGNT-08")
async def test_another_exit_status_fails_the_turn_and_the_log_has_its_last_words() -> None:
    with pytest.raises(ProgramFailed) as failed:
        await run_turn(python("import sys", "sys.stderr.write('e' * 100_000 + 'out of paper')", "sys.exit(3)"))
    assert "ended with status 3" in str(failed.value)
    assert str(failed.value).endswith("out of paper")
    assert len(str(failed.value)) < 10_000


def alive(pid: int) -> bool:
    """Whether a process runs. One that has ended may still wait for its parent to notice."""
    try:
        return b"\nState:\tZ" not in Path(f"/proc/{pid}/status").read_bytes()
    except FileNotFoundError:
        return False


BESIDE = "beside = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'], stdin=subprocess.DEVNULL"
NUMBERS = "print(json.dumps({'data': [os.getpid(), beside.pid]}), flush=True)"


@pytest.mark.req("AGNT-08")
@pytest.mark.parametrize("before", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
async def test_a_cancel_ends_all_of_its_processes(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE", 0.2)
    agent = python("import json, os, signal, subprocess, sys, time", before, f"{BESIDE})", NUMBERS, "time.sleep(300)")
    record = await run_turn(agent, cancel_after=2)
    assert record.canceled
    await gone(record.data[0])


async def test_a_cancel_lets_it_clean_up(tmp_path: Path) -> None:
    mark = tmp_path / "cleaned"
    agent = python(
        "import signal, sys, time",
        f"def clean(*_): open({str(mark)!r}, 'w').close(); sys.exit()",
        "signal.signal(signal.SIGTERM, clean)",
        'print(\'{"status": "busy"}\', flush=True)',
        "time.sleep(300)",
    )
    assert (await run_turn(agent, cancel_after=2)).canceled
    assert mark.exists()


async def gone(pids: list[Any]) -> None:
    assert len(pids) == 2
    async with asyncio.timeout(30):
        while any(alive(int(pid)) for pid in pids):  # noqa: ASYNC110 - processes set no event
            await asyncio.sleep(0.01)


async def test_what_it_leaves_in_its_group_ends_with_it() -> None:
    record = await run_turn(python("import json, os, subprocess, sys", f"{BESIDE})", NUMBERS))
    assert record.state == "COMPLETED"
    await gone(record.data[0])


async def test_who_has_left_its_group_with_its_output_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LEFTOVER", 0.2)
    record = await run_turn(python("import json, os, subprocess, sys", f"{BESIDE}, start_new_session=True)", NUMBERS))
    assert record.state == "COMPLETED"
    _, beside = record.data[0]
    os.kill(int(beside), 9)


async def test_one_that_ends_at_once_is_no_trouble() -> None:
    for _ in range(20):
        assert (await run_turn(ProgramAgent("true"), "x" * 100_000)).state == "COMPLETED"
    assert len(asyncio.all_tasks()) == 1


# -- what is served


def test_its_card_is_made_of_its_name_or_given() -> None:
    assert (ProgramAgent("true").card.name, ProgramAgent("true").card.description) == ("true", "Runs true.")
    given = pb.AgentCard(name="Given", description="d", version="3", skills=[pb.AgentSkill(id="x", tags=["y"])])
    assert ProgramAgent("true", given).card == given


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("", "'' is no program"),
        ("nothing-there --x", "'nothing-there' is no program that can be run"),
        ("'x", "No closing quotation"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(command: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        ProgramAgent(command)
