"""a2ad as its users start it."""

import hashlib
import json
import shlex
import signal
import socket
import sqlite3
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from urllib.request import Request, urlopen

import grpc
import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_pb2_grpc
from tests.e2e.processes import command, serving

ECHO = """
from a2a_server.agents import Agent, Turn

agent = Agent(name="Echo", description="Says it again.", version="1.2.3")

@agent.skill(id="echo", tags=["text"])
async def echo(turn: Turn) -> str:
    "Say it again."
    return turn.text
"""

SLOW = """
import asyncio
from a2a_server.agents import Agent, Turn

agent = Agent(name="Slow", description="Takes its time.", version="1")

@agent.skill(id="slow", tags=["text"])
async def slow(turn: Turn) -> str:
    "Wait for as many seconds as the text says."
    await asyncio.sleep(float(turn.text))
    return "done"
"""


def stub_of(channel: grpc.Channel) -> Any:
    return cast("Any", a2a_pb2_grpc.A2AServiceStub)(channel)


def send(text: str) -> pb.SendMessageRequest:
    return pb.SendMessageRequest(message=pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text=text)]))


def until_refused(stub: Any) -> None:
    """A signal takes a moment; until then an unknown task is just that."""
    code = grpc.StatusCode.NOT_FOUND
    while code == grpc.StatusCode.NOT_FOUND:
        with pytest.raises(grpc.RpcError) as caught:
            stub.GetTask(pb.GetTaskRequest(id="t"))
        code = caught.value.code()
    assert code == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["config", "--help"], ["token", "--help"]])
def test_help_helps(tmp_path: Path, arguments: list[str]) -> None:
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 0
    assert "Usage:" in done.stdout


def test_the_version_is_said(tmp_path: Path) -> None:
    assert command("--version", cwd=tmp_path).stdout.startswith("a2ad, version ")


def test_a_token_fits_into_the_settings(tmp_path: Path) -> None:
    lines = command("token", "--owner", 'ann "the one"', cwd=tmp_path).stdout.splitlines()
    settings = tomllib.loads("\n".join(lines[3:]))
    (entry,) = settings["auth"]["tokens"]
    assert entry["owner"] == 'ann "the one"'
    assert entry["hash"] == "sha256:" + hashlib.sha256(lines[1].encode()).hexdigest()


def test_a_token_is_appended_to_a_file_that_stays_what_it_was(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    first = command("token", "new", "--owner", "ann", "--append", "tokens.toml", cwd=tmp_path)
    assert (first.returncode, file.stat().st_mode & 0o777) == (0, 0o600)
    assert first.stderr == "Added to tokens.toml, which now has 1 of ann. A running server reads it within a second.\n"
    by_hand = f'# Bob\'s\n[[tokens]]\nowner = "bob"\nhash = "sha256:{"0" * 64}"  # and no newline'
    file.write_text(f"{file.read_text()}\n{by_hand}")
    file.chmod(0o644)
    (tmp_path / "link.toml").symlink_to("tokens.toml")
    second = command("token", "new", "--owner", "ann", "--append", "link.toml", cwd=tmp_path)
    third = command("token", "--api-key", "--owner", 'Zoë "9"', "--append", "tokens.toml", cwd=tmp_path)
    assert second.stderr.startswith("Added to link.toml, which now has 2 of ann.")
    assert (tmp_path / "link.toml").is_symlink()
    assert (by_hand in file.read_text(), file.stat().st_mode & 0o777) == (True, 0o644)
    found = tomllib.loads(file.read_text())
    made = [(entry["owner"], entry["hash"]) for entry in (*found["tokens"], *found["api_keys"])]
    secrets = [done.stdout.removesuffix("\n") for done in (first, second, third)]
    one, two, key = ("sha256:" + hashlib.sha256(secret.encode()).hexdigest() for secret in secrets)
    assert made == [("ann", one), ("bob", "sha256:" + "0" * 64), ("ann", two), ('Zoë "9"', key)]
    assert not any(secret in file.read_text() for secret in secrets)
    assert {path.name for path in tmp_path.iterdir()} == {"tokens.toml", "link.toml"}
    shown = command("config", cwd=tmp_path, A2A_AUTH__TOKENS_FILE="tokens.toml")
    assert shown.stdout.count("{ owner = ") == 4


def test_tokens_that_are_appended_at_the_same_time_are_all_there(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(
            pool.map(
                lambda n: command("token", "new", "--owner", f"o{n}", "--append", "t.toml", cwd=tmp_path), range(4)
            )
        )
    assert [each.returncode for each in done] == [0] * 4
    assert {entry["owner"] for entry in tomllib.loads((tmp_path / "t.toml").read_text())["tokens"]} == {
        "o0",
        "o1",
        "o2",
        "o3",
    }


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        (
            "grpc = 'x'\n",
            (),
            "must be a TOML file of [[tokens]] and [[api_keys]] with owner and hash; see grpc; nothing",
        ),
        ("[[tokens]]\nowner = ''\n", (), "see tokens.0.owner, tokens.0.hash; nothing was added"),
        ("[[tokens]\n", (), "see line 1, column 9; nothing was added"),
        ("tokens = []\n", (), "see line 3, column 9; nothing was added"),
        ("", ("--owner", ""), "must be a name without control characters"),
        ("", ("--owner", "a\nb"), "must be a name without control characters"),
        ("", ("--append", "none/tokens.toml"), "'none/tokens.toml' cannot be written: No such file or directory"),
        ("", ("--append", "."), "is a directory"),
    ],
)
def test_a_token_that_cannot_be_appended_is_not_made(
    tmp_path: Path, content: str, arguments: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(content)
    done = command("token", "new", "--append", "tokens.toml", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert (file.read_text(), [path.name for path in tmp_path.iterdir()]) == (content, ["tokens.toml"])


def test_the_last_line_of_the_welcome_can_be_pasted(tmp_path: Path) -> None:
    with serving(cwd=tmp_path) as server:
        program, url, *rest = shlex.split(server.welcome.splitlines()[-1])
        assert program == "curl"
        asked = dict(zip(rest[::2], rest[1::2], strict=True))
        name, _, value = asked["-H"].partition(": ")
        with urlopen(Request(url, asked["-d"].encode(), {name: value}), timeout=20) as answer:  # noqa: S310 - ours
            assert json.load(answer)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_the_example_names_every_setting_and_changes_none(tmp_path: Path) -> None:
    example = command("config", "--example", cwd=tmp_path).stdout
    (tmp_path / "a2ad.toml").write_text(example)
    plain = command("config", cwd=tmp_path)
    assert plain.returncode == 0, plain.stderr
    names = {line.split(" = ")[0] for line in plain.stdout.splitlines() if " = " in line}
    assert all(f"{name} = " in example or f".{name}]]" in example for name in names - {"api_keys"})


def test_the_settings_in_effect_are_shown_with_their_sources_and_without_secrets(tmp_path: Path) -> None:
    hashed = "sha256:" + "a" * 64
    (tmp_path / "a2ad.toml").write_text(
        f'store = "memory:"\n[[auth.tokens]]\nowner = "ann"\nhash = "{hashed}"\n[limits]\nrunning_turns = 7\n'
    )
    shown = command("config", cwd=tmp_path, A2A_LIMITS__RUNNING_TURNS="8").stdout
    assert 'store = "memory:"  # file a2ad.toml' in shown
    assert "running_turns = 8  # environment" in shown
    assert '{ owner = "ann"' in shown
    assert "a" * 64 not in shown
    tomllib.loads(shown)


def test_an_agent_is_served_and_stops_when_told(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    with serving("echo.py", cwd=tmp_path) as server, grpc.insecure_channel(server.address) as channel:
        assert "Echo 1.2.3 (echo.py)" in server.welcome
        assert f"Try:\ncurl {server.http}/message:send -H 'content-type: application/json' -d '" in server.welcome
        answer = stub_of(channel).SendMessage(send("hello"))
        assert answer.task.artifacts[0].parts[0].text == "hello"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
    with closing(sqlite3.connect(tmp_path / "a2a.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def bearer_of(secret: str) -> str:
    return json.dumps([{"owner": "ann", "hash": "sha256:" + hashlib.sha256(secret.encode()).hexdigest()}])


@pytest.mark.parametrize(
    ("variables", "header"),
    [
        ({"A2A_AUTH__API_KEYS": bearer_of("key"), "A2A_AUTH__API_KEY_HEADER": "x-team-key"}, "x-team-key: …"),
        ({"A2A_AUTH__API_KEYS": bearer_of("key"), "A2A_AUTH__TOKENS": bearer_of("bearer")}, "authorization: Bearer …"),
    ],
)
def test_what_to_try_has_the_header_that_is_asked_for(tmp_path: Path, variables: dict[str, str], header: str) -> None:
    with serving("--store", "memory:", cwd=tmp_path, **variables) as server:
        assert f"/message:send -H '{header}' -H 'content-type: application/json' -d '" in server.welcome
        name, _, secret = header.replace("…", "key" if "key" in header else "bearer").partition(": ")
        body = b'{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}'
        told = {"content-type": "application/json", name: secret}
        with urlopen(Request(f"{server.http}/message:send", body, told), timeout=20) as answer:  # noqa: S310 - ours
            assert answer.status == 200
    with serving("--store", "memory:", "--http", "none", cwd=tmp_path, **variables) as server:
        assert f"Try:\ngrpcurl -plaintext -H '{header}' -d" in server.welcome


@pytest.mark.req("DURA-08")
def test_a_drain_lets_work_end_and_takes_no_more(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with serving("slow:agent", cwd=tmp_path) as server, grpc.insecure_channel(server.address) as channel:
        stub = stub_of(channel)
        running = stub.SendMessage.future(send("1"))
        stream = stub.SendStreamingMessage(send("1"))
        assert next(stream).HasField("task")
        server.process.send_signal(signal.SIGTERM)
        until_refused(stub)
        assert running.result(10).task.status.state == pb.TASK_STATE_COMPLETED
        assert list(stream)[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
        assert server.process.wait(10) == 0


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with serving("slow", cwd=tmp_path) as server, grpc.insecure_channel(server.address) as channel:
        stub = stub_of(channel)
        stream = stub.SendStreamingMessage(send("60"))
        assert next(stream).HasField("task")
        server.process.send_signal(signal.SIGTERM)
        until_refused(stub)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(8) == 128 + signal.SIGINT  # a drain would wait for ten seconds
        with pytest.raises(grpc.RpcError):
            list(stream)


@pytest.mark.req("DOOR-09")
def test_a_taken_port_stops_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = command("serve", "--grpc", address, cwd=tmp_path)
    assert done.returncode == 1
    assert f"grpc: {address} is already in use by another process" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "a2a.db").exists()


def test_a_store_in_use_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    with serving("echo", cwd=tmp_path):
        done = command("serve", "echo", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", cwd=tmp_path)
    assert done.returncode == 1
    assert "a2a.db" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--http", "0.0.0.0:8080"], "http = '0.0.0.0:8080' (flag): without authentication"),
        (["--store", "mysql://ann:s3cret@db/a2a"], "store = 'mysql://…@db/a2a' (flag): must be memory:"),
        (["--grpc", "0.0.0.0:50051"], "grpc = '0.0.0.0:50051' (flag): without authentication"),
        (["--config", "none.toml"], "--config = 'none.toml': cannot be read"),
        (["nothing_here"], "no module named 'nothing_here'"),
        (["nothing.py"], "no file"),
        (["echo:missing"], "has no 'missing'"),
        (["echo:Turn"], "is a type, not an agent"),
        (["broken"], 'raise RuntimeError("my own fault")'),
        ([":agent"], "must be MODULE:AGENT"),
    ],
)
def test_what_cannot_be_served_is_said_and_nothing_else(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    (tmp_path / "broken.py").write_text('raise RuntimeError("my own fault")\n')
    done = command("serve", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "s3cret" not in done.stderr
    assert not (tmp_path / "a2a.db").exists()
