"""What all tests through the doors share: every scenario that names `store` runs over each kind of store."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from a2a_server.adapters.memory import MemoryStore
from a2a_server.adapters.sqlite import SqliteStore
from a2a_server.ports.store import Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store that `serving` opens and closes."""
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a2a.db")


@pytest.fixture(scope="session", autouse=True)
def plain_log() -> None:
    """Tracebacks in colour and with all variables take long enough to upset what the tests time."""
    structlog.configure(processors=[structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)])
