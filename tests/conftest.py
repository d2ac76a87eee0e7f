"""What of the tests' configuration pyproject.toml cannot hold (tests/README.md explains it)."""

import os

import pytest
from hypothesis import settings

from tests.support.compiled import COMPILED
from tests.support.effort import SWITCH, all_of_it, effort


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="the whole matrix and long faults, as `make test-all` runs them"
    )


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
