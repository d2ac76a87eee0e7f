"""What the tests with clients of older versions share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.interop.older import Theatre


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """Servers and clients, which stay for all tests of a file."""
    with ExitStack() as stack:
        yield Theatre(stack, tmp_path_factory.mktemp("theatre"))
