"""Tests import public packages, so that the code behind them can move (tests/README.md)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

PUBLIC = (
    "a2a_server.agents",
    "a2a_server.client",
    "a2a_server.ports",
    "a2a_server.settings",
    "a2a_server.serve",
    "a2a_gateway.upstream",
)
"""With all that is inside them; of `a2a_server` and `a2a_gateway` themselves, what stands in their `__init__.py`."""

MOST = 100
ADVICE = f"""
{{count}} test files import internal modules; there must be fewer than {MOST}. Import from the public packages instead:
{", ".join(PUBLIC)}, a2a_gateway, a2a_proto.
What a scenario configures or looks at comes from tests/support/house.py.
Tests of one module's insides belong to tests/unit, into the file that tests this module already.

{{files}}
"""


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def is_internal(name: str) -> bool:
    """Whether a name stands in a module of its own that is not public."""
    package, _, rest = name.partition(".")
    if package not in {"a2a_server", "a2a_gateway"} or not rest:
        return False
    if any(name == public or name.startswith(f"{public}.") for public in PUBLIC):
        return False
    return "." in rest or is_module(package, rest)


def is_module(package: str, name: str) -> bool:
    home = TESTS.parent / ("gateway" if package == "a2a_gateway" else "") / package
    return (home / name).is_dir() or (home / f"{name}.py").is_file()


def test_few_tests_know_the_insides() -> None:
    files = [path for path in sorted(TESTS.rglob("*.py")) if any(map(is_internal, imported(path)))]
    names = "\n".join(str(path.relative_to(TESTS)) for path in files)
    assert len(files) < MOST, ADVICE.format(count=len(files), files=names)
