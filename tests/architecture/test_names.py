"""Names on the wire stand in one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from a2a_server.protocol import names

ROOT = Path(__file__).parents[2]
HOME = Path(names.__file__)
SOURCES = sorted(
    path
    for package in ("a2a_server", "gateway/a2a_gateway")
    for path in (ROOT / package).rglob("*.py")
    if path != HOME and path.name != "demo.py"  # which is an agent, written as users write theirs
)
VERSIONS = {names.CURRENT, names.LEGACY, names.DRAFT}
"""Too short to tell from other numbers and words."""
TEXTS = {value.lower() for name, value in vars(names).items() if name.isupper()} - VERSIONS


def test_there_are_names_and_no_two_for_the_same() -> None:
    values = [value for name, value in vars(names).items() if name.isupper()]
    assert len(values) > 30
    assert len(values) == len(set(values))


def test_a_name_is_written_in_one_file() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for path in SOURCES
        for line, text in _texts(ast.parse(path.read_text()))
        if text.lower() in TEXTS
    ]
    assert not found, f"take these from {HOME.relative_to(ROOT)}"


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(text, str):
                yield node.lineno, text
