"""One core serves all versions: operations hand on which one was spoken, and never ask (design 8; spec: LMAP-01)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

OPERATIONS = Path(__file__).parents[2] / "a2a_server" / "operations"
HOLDERS = {"call", "hook"}
"""What knows the version of its client, by the names that operations have for it."""
HANDS_ON = (ast.Call, ast.keyword, ast.List, ast.Tuple)


def looks(source: str) -> Iterator[str]:
    """Yield every place where a version is looked at, and not handed on as it is."""
    tree = ast.parse(source)
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and node.attr == "version"):
            continue
        parent = parents[node]
        # To call something of a version is to look at it, and so is to look anything up by one.
        hands_on = isinstance(parent, HANDS_ON) and not isinstance(parents.get(parent), ast.Subscript | ast.Compare)
        if _holder(node.value) in HOLDERS and not hands_on:
            yield f"line {node.lineno}: {ast.unparse(parent)}"


def _holder(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@pytest.mark.req("LMAP-01", "DRFT-07")
@pytest.mark.parametrize("path", sorted(OPERATIONS.rglob("*.py")), ids=lambda path: str(path.relative_to(OPERATIONS)))
def test_no_operation_depends_on_the_version_that_was_spoken(path: Path) -> None:
    assert not [*looks(path.read_text("utf-8"))]


@pytest.mark.parametrize(
    "source",
    [
        "if call.version == '0.3': pass",
        "x = 1 if self.call.version else 2",
        "version = call.version",
        "match hook.version:\n  case '0.3': pass",
        "FORMS[call.version]",
        "FORMS[call.version, 1]",
        "call.version in {'0.3'}",
        "(call.version, 1) == ('0.3', 1)",
        "call.version.startswith('0')",
        "f'{call.version}'",
        "[1 for _ in x if call.version]",
    ],
)
def test_looking_is_noticed(source: str) -> None:
    assert [*looks(source)]


def test_handing_on_is_not() -> None:
    source = (
        "Hook(config, call.version, schemes)\nf(version=call.version)\n[1, self.call.version]\nx = card.version == 1"
    )
    assert not [*looks(source)]
