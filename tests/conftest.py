"""What of the tests' configuration pyproject.toml cannot hold."""

import pytest
from hypothesis import settings

from tests.support.compiled import COMPILED

# The tests share the machine with each other; how long one example takes says nothing.
settings.register_profile("here", deadline=None)
settings.load_profile("here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if COMPILED and item.get_closest_marker("source") is not None:
            item.add_marker(pytest.mark.skip(reason="replaces parts of compiled modules"))
