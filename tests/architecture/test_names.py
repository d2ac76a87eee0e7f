"""Names on the wire stand in one file, and private names of grpc are used in one other."""

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


def test_private_names_of_grpc_are_used_in_one_file() -> None:
    using = {str(path.relative_to(ROOT)) for path in SOURCES if any(_private(ast.parse(path.read_text())))}
    assert using == {"a2a_server/transport/grpc/accepting.py"}


def _private(tree: ast.Module) -> Iterator[str]:
    """Private names of others, in a module that imports grpc; those of `self` are the module's own."""
    nodes = list(ast.walk(tree))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    if not any(module.partition(".")[0].startswith("grpc") for module in modules):
        return
    yield from (module for module in modules if module.startswith("grpc") and "._" in module)
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) | ast.Constant(value=str(name)) if _is_private(name):
                yield name


def _is_private(text: str) -> bool:
    return (text.startswith("grpc.") and "._" in text) or (text.startswith("_") and text[1:2].isalpha())
