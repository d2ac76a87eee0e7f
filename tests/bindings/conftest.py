"""What all tests through the doors share: every scenario goes through each door, over the default store.

With `--all` a test that names `store` goes through each door over each store. What only one door can show says so with
`only_through` or `not_through`, and why; files that do without `serving` open their own doors, being about one door's
own ways.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
import structlog

from a2a_server.ports.store import Store
from tests.support import world
from tests.support.doors import DOORS, Door
from tests.support.effort import all_of_it
from tests.support.house import MemoryStore, PostgresOptions, PostgresStore, SqliteStore

STORES = ("sqlite", "memory", "postgres")
"""The first is what a server uses that was told nothing."""


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in (("only_through", "others"), ("not_through", "these")):
        config.addinivalue_line("markers", f"{name}(door, ..., why): {meaning} cannot show what the test is about")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    stores = (STORES if all_of_it() else STORES[:1]) if "store" in metafunc.fixturenames else ()
    if getattr(metafunc.module, "serving", None) is not world.serving:
        if stores:
            metafunc.parametrize("store", stores, indirect=True)
        return
    doors = list(doors_of(metafunc.definition))
    if not stores:
        metafunc.parametrize("door", doors, indirect=True)
        return
    pairs = [(door, store) for door in doors for store in stores]
    metafunc.parametrize(("door", "store"), pairs, indirect=True)


def doors_of(test: pytest.Item) -> Iterable[Door]:
    """The doors that a test goes through; in marks `rest` stands for the near one and the far one.

    Of the far doors each test takes one, by its name, unless everything is wanted: they differ in what was compared
    through the near ones already.
    """
    only, never = (
        {door for mark in test.iter_markers(name) for door in mark.args if mark.kwargs["why"]}
        for name in ("only_through", "not_through")
    )
    far = DOORS[3:] if all_of_it() else (DOORS[3 + zlib.crc32(test.name.encode()) % 2],)
    for door in (*DOORS[:3], *far):
        names = {door, door.partition("-")[0]}
        if (not only or names & only) and not names & never:
            yield door


@pytest.fixture(autouse=True)
def door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Door:
    """The door through which `serving` lets its client go."""
    chosen: Door = getattr(request, "param", "grpc")
    monkeypatch.setattr(world, "DOOR", chosen)
    return chosen


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store that `serving` opens and closes."""
    if request.param == "postgres":
        return PostgresStore(PostgresOptions(dsn=request.getfixturevalue("postgres")))
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a2a.db")


@pytest.fixture(scope="session", autouse=True)
def plain_log() -> None:
    """Tracebacks in colour and with all variables take long enough to upset what the tests time."""
    structlog.configure(processors=[structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)])
