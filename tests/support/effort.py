"""How much the tests try: `make test` everything once, `make test-all` (`pytest --all`) everything there is."""

from __future__ import annotations

import os
from typing import TypeVar

N = TypeVar("N", int, float)

SWITCH = "TEST_ALL"
"""Set by `--all` before any test module is imported; an environment variable, so that xdist's workers see it, too."""


def all_of_it() -> bool:
    return os.environ.get(SWITCH) == "1"


def effort(once: N, everything: N) -> N:
    """A number of rounds, tasks or examples: small in `make test`, large in `make test-all`."""
    return everything if all_of_it() else once
