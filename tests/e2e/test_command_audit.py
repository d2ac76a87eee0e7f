"""Commands that change something are in the audit, beside a server that writes the same file (spec: GATE-04)."""

from __future__ import annotations

import json
import os
import pwd
import stat
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.e2e.processes import command, serving

PATIENCE = 20.0
LOG = "file:audit.log"
ACTOR = pwd.getpwuid(os.getuid()).pw_name
COMMANDS = [
    ("keys", "create", "--owner", "ann", "--tenant", "north"),
    ("keys", "revoke", "a2a"),
    ("token", "new", "--owner", "ben", "--append", "tokens.toml"),
    ("push", "retry", "--all"),
    ("push", "drop", "--all"),
    ("db", "prune", "--older-than", "0s"),
    ("db", "delete", "--owner", "ann"),
]
"""Every command that changes anything that a server uses."""


def run(folder: Path, *arguments: str, to: str = LOG) -> tuple[str, str]:
    done = command(*arguments, cwd=folder, A2A_AUDIT__TO=to)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def events(folder: Path) -> list[dict[str, Any]]:
    """Without their times and levels."""
    lines = [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in {"timestamp", "level"}} for line in lines]


def send(base: str, text: str) -> str:
    body = {"message": {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}}
    head = {"Content-Type": "application/json", "A2A-Version": "1.0"}
    request = Request(f"{base}/message:send", data=json.dumps(body).encode(), headers=head)  # noqa: S310
    with urlopen(request, timeout=20) as answer:  # noqa: S310
        return str(json.loads(answer.read())["task"]["id"])


@pytest.mark.req("SECR-01", "GATE-04")
def test_each_command_tells_who_did_what_while_the_server_runs(tmp_path: Path) -> None:
    with serving(cwd=tmp_path, A2A_AUDIT__TO=LOG) as server:
        first, second = (send(server.http, text) for text in ("cinnamon", "nutmeg"))
        key, _ = run(tmp_path, "keys", "create", "--owner", "ann", "--tenant", "north")
        key_id = key.split("_")[1]
        other, _ = run(tmp_path, "keys", "create", "--owner", "ann")
        run(tmp_path, "keys", "revoke", key_id)
        token, _ = run(tmp_path, "token", "new", "--owner", "ben", "--append", "tokens.toml")
        run(tmp_path, "push", "retry", "--all")
        run(tmp_path, "push", "drop", "--all")
        run(tmp_path, "db", "delete", "--task", first, "--dry-run")
        for choice in (("--task", first), ("--owner", "ann"), ("--owner", "nobody")):
            run(tmp_path, "db", "delete", *choice, "--yes")
        run(tmp_path, "db", "prune", "--older-than", "0s", "--yes")
        third = send(server.http, "pepper")
        until = time.monotonic() + PATIENCE
        while third not in (tmp_path / "audit.log").read_text():  # a server writes five times a second
            assert time.monotonic() < until
            time.sleep(0.05)
    told = events(tmp_path)
    assert {event["task_id"] for event in told if event["event"] == "task.created"} == {first, second, third}
    created, revoked = "a2ad keys create", "a2ad keys revoke"
    expected: list[dict[str, Any]] = [
        {"event": "key.created", "owner": "ann", "tenant": "north", "rpc": created, "key_id": key_id},
        {"event": "key.created", "owner": "ann", "rpc": created, "key_id": other.split("_")[1]},
        {"event": "key.revoked", "owner": "ann", "tenant": "north", "rpc": revoked, "key_id": key_id},
        {"event": "key.created", "owner": "ben", "rpc": "a2ad token new"},
        {"event": "command.run", "rpc": "a2ad push retry", "times": 0},
        {"event": "command.run", "rpc": "a2ad push drop", "times": 0},
        {"event": "data.deleted", "task_id": first, "rpc": "a2ad db delete"},
        {"event": "data.deleted", "owner": "ann", "rpc": "a2ad db delete", "times": 0},
        {"event": "key.revoked", "owner": "ann", "rpc": "a2ad db delete", "times": 2},
        {"event": "data.deleted", "rpc": "a2ad db prune"},
    ]
    assert [event for event in told if event["event"] != "task.created"] == [{**e, "actor": ACTOR} for e in expected]
    text = (tmp_path / "audit.log").read_text()
    assert not any(secret in text for secret in (key.strip(), key.strip().split("_")[2], token.strip(), "cinnamon"))
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


@pytest.mark.req("SECR-01", "GATE-04")
@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: " ".join(arguments[:2]))
def test_a_command_whose_audit_cannot_be_written_changes_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with serving(cwd=tmp_path) as server:
        send(server.http, "cinnamon")
    done = command("keys", "create", "--owner", "ann", cwd=tmp_path)
    key_id = done.stdout.split("_")[1]
    before = contents(tmp_path)
    told = [key_id if each == "a2a" else each for each in arguments]
    refused = command(*told, cwd=tmp_path, A2A_AUDIT__TO="file:nowhere/audit.log")
    assert refused.returncode == 1
    assert refused.stderr == (
        "Error: audit.to: the file 'nowhere/audit.log' cannot be opened: No such file or directory\n"
    )
    assert not refused.stdout
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in {".db", ".toml"}}


@pytest.mark.req("SECR-01")
def test_in_the_log_it_is_a_line_of_the_command(tmp_path: Path) -> None:
    with serving(cwd=tmp_path):
        pass
    key, told = run(tmp_path, "keys", "create", "--owner", "ann", to="log")
    (line,) = (json.loads(line) for line in told.splitlines() if line.startswith("{"))
    assert (line["event"], line["owner"], line["actor"]) == ("key.created", "ann", ACTOR)
    assert key.strip() not in told
    _, told = run(tmp_path, "keys", "create", "--owner", "ann", to="none")
    assert "key.created" not in told
