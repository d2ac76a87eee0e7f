"""Every example and the demo agent, started and called as their README says."""

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast
from urllib.request import Request, urlopen

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto.a2a_pb2_grpc import A2AServiceStub
from tests.e2e.processes import ROOT, Running, environment, serving

EXAMPLES = ROOT / "examples"


def stub_of(channel: grpc.Channel) -> Any:
    """The generated stubs are typed for grpc.aio."""
    return cast("Any", A2AServiceStub)(channel)


def call(server: Running, *arguments: str) -> str:
    """Run the example client to its end."""
    line = [sys.executable, str(EXAMPLES / "call.py"), "--server", server.address, *arguments]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def task_id(answer: str) -> str:
    found = re.search(r'^task \{\n  id: "([^"]+)"', answer, re.MULTILINE)
    assert found is not None, answer
    return found[1]


def test_echo(tmp_path: Path) -> None:
    with serving(str(EXAMPLES / "echo.py"), cwd=tmp_path) as server:
        answer = call(server, "Hello!")
        assert "TASK_STATE_COMPLETED" in answer
        assert 'text: "Hello!"' in answer


def test_streaming(tmp_path: Path) -> None:
    with serving(str(EXAMPLES / "streaming.py"), cwd=tmp_path) as server:
        events = call(server, "rain", "--stream")
        assert events.startswith("task {")
        assert events.count("artifact_update {") > 5
        assert events.rstrip().endswith("}")
        assert "TASK_STATE_COMPLETED" in events


def test_booking_over_a_restart(tmp_path: Path) -> None:
    with serving(str(EXAMPLES / "booking.py"), cwd=tmp_path) as server:
        first = call(server, "A table, please.")
        task = task_id(first)
        assert "TASK_STATE_INPUT_REQUIRED" in first
        assert "TASK_STATE_INPUT_REQUIRED" in call(server, "4", "--task", task)
        server.process.send_signal(signal.SIGKILL)
    with serving(str(EXAMPLES / "booking.py"), cwd=tmp_path) as server:
        assert "TASK_STATE_INPUT_REQUIRED" in call(server, "Friday", "--task", task)
        booked = call(server, "Ann", "--task", task)
        assert "TASK_STATE_COMPLETED" in booked
        context = booked.split('context_id: "')[1].split('"')[0]
        task = task_id(call(server, "Another table, please.", "--context", context))
        call(server, "2", "--task", task)
        assert "TASK_STATE_COMPLETED" in call(server, "Sunday", "--task", task)


def test_files(tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("name,age\nAnn,41\nBob,7\n")
    with serving(str(EXAMPLES / "files.py"), cwd=tmp_path) as server:
        answer = call(server, "--file", str(people))
        assert "TASK_STATE_COMPLETED" in answer
        assert "artifacts {" in answer
        people = tmp_path / "people.md"
        people.write_text("| name | age |\n|---|---|\n| Ann | 41 |\n")
        answer = call(server, "--file", str(people))
        assert "TASK_STATE_COMPLETED" in answer
        assert 'string_value: "41"' in answer


@pytest.mark.req("DURA-02", "DURA-06")
def test_a_long_job_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    agent = str(EXAMPLES / "long_job.py")
    with serving(agent, cwd=tmp_path) as server, grpc.insecure_channel(server.address) as channel:
        message = pb.Message(message_id="1", role=pb.ROLE_USER, parts=[pb.Part(text="4")])
        stream = stub_of(channel).SendStreamingMessage(pb.SendMessageRequest(message=message))
        task = next(stream).task.id
        said = (event.status_update.status.message.parts for event in stream)
        assert any(parts and parts[0].text == "Metre 2 of 4." for parts in said)
        server.process.send_signal(signal.SIGKILL)
    with serving(agent, cwd=tmp_path) as server, grpc.insecure_channel(server.address) as channel:
        stub = stub_of(channel)
        progress = [item.status_update.status for item in stub.SubscribeToTask(pb.SubscribeToTaskRequest(id=task))]
        assert progress[-1].state == pb.TASK_STATE_COMPLETED
        assert not any(status.message.parts and "Metre 1 " in status.message.parts[0].text for status in progress)
        done = stub.GetTask(pb.GetTaskRequest(id=task))
    assert done.artifacts[0].parts[0].text == "The field is 4 metres long."


def test_the_demo_shows_every_ability(tmp_path: Path) -> None:
    with serving("--store", "memory:", cwd=tmp_path) as server:
        assert 'text: "Hello!"' in call(server, "Hello!")
        assert call(server, "hi", "--skill", "chat").startswith("message {")
        assert call(server, "a lighthouse", "--skill", "story", "--stream").count("artifact_update {") > 10
        asked = call(server, "to Lisbon", "--skill", "booking")
        task = task_id(asked)
        assert "TASK_STATE_INPUT_REQUIRED" in asked
        call(server, "2", "--task", task)
        assert "TASK_STATE_COMPLETED" in call(server, "yes", "--task", task)
        task = task_id(call(server, "open", "--skill", "vault"))
        opened = call(server, "let-me-in", "--task", task)
        assert "The vault holds a paper clip." in opened
        assert "[redacted]" in opened
        assert "let-me-in" not in opened
        crashed = call(server, "crash", "--skill", "mishap")
        assert "TASK_STATE_FAILED" in crashed
        assert "Traceback" not in crashed


README = (EXAMPLES / "README.md").read_text("utf-8")


def section(heading: str) -> str:
    """What the README says below a heading."""
    return README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_receiver_prints_a_webhook_once_its_readers_have_typed_all_that_the_readme_says(tmp_path: Path) -> None:
    start, serve, call_it = re.findall(
        r"^```sh\n(.*?)^```$", section("A receiver of webhooks"), re.DOTALL | re.MULTILINE
    )
    setting, _, line = serve.partition(" ")
    (agent,) = re.findall(r"examples/\S+", line)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    words = [sys.executable, *shlex.split(start)[1:], "--port", port]
    with (
        subprocess.Popen(
            words, cwd=ROOT, env=environment(PYTHONUNBUFFERED="1"), stdout=subprocess.PIPE, text=True
        ) as hook,
        serving(str(ROOT / agent), cwd=tmp_path, **dict([setting.split("=")])) as server,
    ):
        try:
            assert hook.stdout is not None
            while "Running" not in hook.stdout.readline():
                pass
            command = shlex.split(call_it.replace("\\\n", " ").replace(":9000", f":{port}"))
            url, json_told, body = "http://127.0.0.1:8080/message:send", "content-type: application/json", command[-1]
            assert command == ["curl", url, "-H", json_told, "-d", body]
            told = {"Content-Type": "application/json"}
            with urlopen(Request(f"{server.http}/message:send", body.encode(), told)) as answer:  # noqa: S310 - ours
                task = json.loads(answer.read())["task"]["id"]
            while not (said := hook.stdout.readline()).startswith(task):
                assert hook.poll() is None
            assert json.loads(said.partition(" ")[2])["task"]["id"] == task
        finally:
            hook.kill()


def test_the_official_client_gets_the_same_answer(tmp_path: Path) -> None:
    (source,) = re.findall(
        r"^```python\n(.*?)^```$", section("With the official SDK's client"), re.DOTALL | re.MULTILINE
    )
    with serving(str(EXAMPLES / "echo.py"), cwd=tmp_path) as server:
        line = [sys.executable, "-c", source.replace("127.0.0.1:50051", server.address)]
        done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert 'text: "Hello!"' in done.stdout
    assert version("a2a-sdk") in section("With the official SDK's client")
