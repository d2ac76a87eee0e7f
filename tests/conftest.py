"""What of the tests' configuration pyproject.toml cannot hold (tests/README.md explains it)."""

import asyncio
import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.compiled import COMPILED
from tests.support.effort import SWITCH, all_of_it, effort
from tests.support.postgres import Cluster, make_tables, quick_cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="the whole matrix and long faults, as `make test-all` runs them"
    )
    parser.addoption("--seed", type=int, help="repeat the fault run that this seed began with")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--all"):
        os.environ[SWITCH] = "1"
    # The tests share the machine with each other; how long one example takes says nothing.
    settings.register_profile("here", deadline=None, max_examples=effort(25, everything=100))
    settings.load_profile("here")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long, unless everything is wanted, and what compiled modules do not allow."""
    if not all_of_it():
        config.hook.pytest_deselected(items=[item for item in items if is_long(item)])
        items[:] = [item for item in items if not is_long(item)]
    for item in items:
        if COMPILED and item.get_closest_marker("source") is not None:
            item.add_marker(pytest.mark.skip(reason="replaces parts of compiled modules"))


def is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("long") is not None


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What the dice of a fault run begin with: a new one each time, or `--seed`."""
    given = request.config.getoption("--seed")
    chosen = random.randrange(1 << 32) if given is None else int(given)
    print(f"--seed {chosen}")  # noqa: T201 - pytest shows it when the test fails
    return chosen


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    """PostgreSQL for all tests of this process, with tables that each test's database begins as a copy of."""
    with quick_cluster() as cluster:
        cluster.execute("CREATE DATABASE tables")
        asyncio.run(make_tables(cluster.dsn("tables")))
        cluster.empty("tables")
        yield cluster


@pytest.fixture
def postgres(postgres_cluster: Cluster) -> Iterator[str]:
    """The URL of a database with empty tables, which the tests of a process use one after another."""
    yield postgres_cluster.dsn("tables")
    postgres_cluster.empty("tables")


@pytest.fixture(scope="session")
def _other_tables(postgres_cluster: Cluster) -> str:
    postgres_cluster.execute("CREATE DATABASE other_tables")
    asyncio.run(make_tables(postgres_cluster.dsn("other_tables")))
    return "other_tables"


@pytest.fixture
def other_postgres(postgres_cluster: Cluster, _other_tables: str) -> Iterator[str]:
    """The URL of a second one, beside `postgres`."""
    yield postgres_cluster.dsn(_other_tables)
    postgres_cluster.empty(_other_tables)


@pytest.fixture
def own_postgres(postgres_cluster: Cluster) -> Iterator[str]:
    """The URL of a database without tables that the test may break."""
    dsn = postgres_cluster.fresh()
    yield dsn
    postgres_cluster.drop(dsn)
