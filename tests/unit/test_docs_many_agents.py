"""The guide "Many agents" says what is true: its files, commands and settings are run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.e2e.processes import command, serving
from tests.support.curl import ROOT, Curl, commands
from tests.unit.test_docs_python import names_of

PAGE = "docs/many-agents.md"
TEXT = (ROOT / PAGE).read_text("utf-8")
SEND = (
    "curl http://127.0.0.1:8080{}/message:send -H 'content-type: application/json' "
    """-d '{{"message":{{"messageId":"1","role":"ROLE_USER","parts":[{{"text":"Rome"}}]}}}}'"""
)
PATIENT = {"A2A_STORE": "memory:"}


def blocks(kind: str) -> Sequence[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The two files of the guide, below the names in their first lines."""
    for block in blocks("python"):
        if name := re.match(r"# (\w+\.py)\n", block):
            (tmp_path / name[1]).write_text(block, "utf-8")
    return tmp_path


@pytest.mark.req("DOOR-06")
async def test_its_first_commands_work(folder: Path) -> None:
    started = next(block for block in blocks("sh") if block.startswith("a2ad serve"))
    assert started == "a2ad serve weather.py travel.py\n"
    send, card = commands(PAGE)
    with serving(*started.split()[2:], cwd=folder, **PATIENT) as server:
        curl = Curl(server.http)
        status, _, answer = await curl(send)
        assert (status, "Take the train to Rome." in answer) == (200, True)
        status, _, answer = await curl(card)
        assert (status, orjson.loads(answer)["name"]) == (200, "Travel")
        status, _, answer = await curl(SEND.format(""))
        assert (status, "Sunny in Rome." in answer) == (200, True)


@pytest.mark.req("DOOR-06")
async def test_its_settings_do_what_it_says(folder: Path) -> None:
    tables, directory = blocks("toml")
    (folder / "a2ad.toml").write_text(tables, "utf-8")
    with serving(cwd=folder, **PATIENT) as server:
        curl = Curl(server.http)
        _, _, answer = await curl("curl http://127.0.0.1:8080/travel/.well-known/agent-card.json")
        assert orjson.loads(answer)["capabilities"]["pushNotifications"] is False
    (folder / "a2ad.toml").write_text(directory, "utf-8")
    with serving(cwd=folder, **PATIENT) as server:
        curl = Curl(server.http)
        _, _, answer = await curl("curl http://127.0.0.1:8080/.well-known/agent-card.json")
        card = orjson.loads(answer)
        assert (card["name"], [skill["id"] for skill in card["skills"]]) == ("Agents of Example", ["weather", "travel"])
        status, _, answer = await curl(SEND.format(""))
        assert (status, "must name an agent: travel, weather" in answer) == (400, True)
        assert f"{server.http}/weather/message:send" in server.welcome
        status, _, _ = await curl(SEND.format("/weather"))
        assert status == 200


def test_names_of_tenants_are_as_it_says(folder: Path) -> None:
    ended = command("serve", "weather.py", "travel.py:agent", "weather.py:agent", cwd=folder)
    assert (ended.returncode, "would both be the tenant 'weather'" in ended.stderr) == (2, True)


async def test_its_program_serves_both() -> None:
    names: dict[str, Any] = names_of(ROOT / PAGE)
    weather = names["agent"]
    async with names["both"](weather, names["agent"]) as server:
        curl = Curl(f"http://{server.http}")
        for path in ("", "/weather", "/travel"):
            status, _, _ = await curl(SEND.format(path))
            assert status == 200
