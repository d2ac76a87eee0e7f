"""`a2ad keys` and `a2ad token password`, beside a running server (spec: GATE-08, GATE-01)."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.e2e.processes import Running, command, environment, serving
from tests.support.house import schema

ON = {"A2A_AUTH__STORED_KEYS": "true"}
KEY = re.compile(r"a2a_([0-9a-z]{12})_[0-9A-Za-z]{43}")
PATIENCE = 20.0


def keys(*arguments: str, cwd: Path) -> Any:
    done = command("keys", *arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def made(*arguments: str, cwd: Path) -> tuple[str, str]:
    """A key and its id."""
    done = command("keys", "create", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    (text,) = done.stdout.splitlines()
    found = KEY.fullmatch(text)
    assert found
    assert f"Made {found[1]}: " in done.stderr
    assert text not in done.stderr
    return text, found[1]


def status(server: Running, key: str) -> int:
    try:
        with urlopen(Request(f"{server.http}/tasks", headers={"X-API-Key": key}), timeout=20) as answer:  # noqa: S310
            return int(answer.status)
    except HTTPError as error:
        return error.code


def within_a_second(server: Running, key: str, wanted: int) -> None:
    """A command's process has ended, so the second has begun before this; patience is for machines under load."""
    until = time.monotonic() + PATIENCE
    while status(server, key) != wanted:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.req("GATE-08")
def test_keys_are_made_listed_and_revoked_while_a_server_runs(tmp_path: Path) -> None:
    with serving(cwd=tmp_path, **ON) as server:
        assert "API keys in the store" in server.welcome
        assert status(server, "") == status(server, "a2a_000000000000_" + "x" * 43) == 401
        key, key_id = made(
            *("--owner", "ann", "--scope", "a2a:read", "--scope", "a2a:*", "--expires", "90d", "--name", "CI 1"),
            cwd=tmp_path,
        )
        other, other_id = made("--owner", "bob", "--tenant", "north", "--extended-card", cwd=tmp_path)
        within_a_second(server, key, 200)
        within_a_second(server, other, 200)
        assert status(server, key[:-1] + ("x" if key[-1] != "x" else "y")) == 401
        listed = keys("list", cwd=tmp_path)["keys"]
        assert [(each["id"], each["owner"], each["tenant"]) for each in listed] == [
            (other_id, "bob", "north"),
            (key_id, "ann", ""),
        ]
        assert (listed[0]["scopes"], listed[0]["extendedCard"], listed[0]["expires"]) == (None, True, None)
        assert (listed[1]["scopes"], listed[1]["name"]) == (["a2a:*", "a2a:read"], "CI 1")
        assert listed[1]["expires"] > listed[1]["created"]
        assert keys("revoke", key_id, cwd=tmp_path)["revoked"]
        within_a_second(server, key, 401)
        assert status(server, other) == 200
        assert keys("list", "--owner", "ann", cwd=tmp_path)["keys"][0]["revoked"]
        shown = command("keys", "list", cwd=tmp_path).stdout
        assert f"{key_id}: ann, made 20" in shown
        assert ", scopes a2a:* a2a:read, name CI 1, expires 20" in shown
        server.process.terminate()  # writes the last uses
        server.process.communicate(timeout=30)
    assert keys("list", "--owner", "bob", cwd=tmp_path)["keys"][0]["lastUsed"]
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert key.encode() not in everything
    assert key.rpartition("_")[2].encode() not in everything
    with serving(cwd=tmp_path, **ON) as server:
        assert (status(server, other), status(server, key)) == (200, 401)


@pytest.mark.req("GATE-08")
def test_a_key_ends(tmp_path: Path) -> None:
    with serving(cwd=tmp_path, **ON) as server:
        short, _ = made("--owner", "ann", "--expires", "1s", cwd=tmp_path)
        long, _ = made("--owner", "ann", "--expires", "1h", cwd=tmp_path)
        within_a_second(server, long, 200)
        within_a_second(server, short, 401)
        assert {row["revoked"] for row in keys("list", cwd=tmp_path)["keys"]} == {None}


@pytest.mark.req("GATE-08")
def test_last_use_is_written_while_the_server_runs(tmp_path: Path) -> None:
    with serving(cwd=tmp_path, **ON) as server:
        key, _ = made("--owner", "ann", cwd=tmp_path)
        within_a_second(server, key, 200)
        until = time.monotonic() + 60
        while not keys("list", cwd=tmp_path)["keys"][0]["lastUsed"]:
            assert time.monotonic() < until
            time.sleep(0.5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create",), "Missing option '--owner'"),
        (("create", "--owner", "a\nb"), "must be a name without control characters"),
        (("create", "--owner", "ann", "--expires", "soon"), "must be a span such as 90d"),
        (("create", "--owner", "ann", "--expires", "2020-01-01T00:00:00Z"), "is in the past"),
        (("create", "--owner", "ann", "--expires", "2999-01-01"), "must be a span such as 90d"),
        (("create", "--owner", "ann", "--store", "memory:"), "only the server's own process can read it"),
        (("list",), "there is no store a2a.db"),
        (("revoke", "x"), "there is no store a2a.db"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = command("keys", *arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert said in done.stderr
    assert not any(tmp_path.iterdir())


def test_a_key_that_is_not_there_cannot_be_revoked(tmp_path: Path) -> None:
    with serving(cwd=tmp_path):
        done = command("keys", "revoke", "nobody", cwd=tmp_path)
        assert (done.returncode, "there is no key 'nobody'" in done.stderr) == (1, True)


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    with serving(cwd=tmp_path) as server:
        server.process.terminate()
        server.process.communicate(timeout=30)
    with closing(sqlite3.connect(tmp_path / "a2a.db")) as connection:
        connection.execute(f"PRAGMA user_version = {max(schema.migrations()) + 1}")
    done = command("keys", "create", "--owner", "ann", cwd=tmp_path)
    assert (done.returncode, "has schema version" in done.stderr) == (1, True)


@pytest.mark.req("GATE-01")
def test_a_password_is_hashed_for_the_settings(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "a2a_server", "token", "password", "--owner", "Zoë", "--user", "zoe"]
    done = subprocess.run(
        line,
        cwd=tmp_path,
        env=environment(),
        input="pä:ss wörd\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "wörd" not in done.stdout + done.stderr
    (tmp_path / "tokens.toml").write_text(done.stdout)
    with serving(cwd=tmp_path, A2A_AUTH__TOKENS_FILE="tokens.toml") as server:
        for password, wanted in (("pä:ss wörd", 200), ("pä:ss", 401)):
            value = base64.b64encode(f"zoe:{password}".encode()).decode()
            request = Request(f"{server.http}/tasks", headers={"Authorization": f"Basic {value}"})  # noqa: S310 - ours
            try:
                with urlopen(request, timeout=20) as answer:  # noqa: S310 - ours
                    assert answer.status == wanted
            except HTTPError as error:
                assert error.code == wanted  # noqa: PT017 - one of two
