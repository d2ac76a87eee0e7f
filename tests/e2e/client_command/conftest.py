"""One scripted agent for each file, and a fresh home for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.client_command.command_line import CommandRunner
from tests.e2e.client_command.scripted_doors import ScriptedServer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell whoever reports which entries of the registry a test measures, also from another process."""
    for item in items:
        for mark in item.iter_markers("registry"):
            item.user_properties.append(("registry", " ".join(mark.args)))


@pytest.fixture(scope="module")
def running() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def server(running: ScriptedServer) -> ScriptedServer:
    running.agent.reset()
    running.http.asked.clear()
    return running


@pytest.fixture
def a2ad(tmp_path: Path) -> CommandRunner:
    return CommandRunner(tmp_path)
