"""Tests name the requirements they prove in a form that tools can count, and run wherever they are installed."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
IDENTIFIER = re.compile(r"[A-Z]{2,5}-\d{2,3}")


def claims(source: str) -> Iterator[ast.expr]:
    """Yield the arguments of every `pytest.mark.req(...)`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.req":
            assert node.args, f"line {node.lineno}: pytest.mark.req names no requirement"
            assert not node.keywords, f"line {node.lineno}: pytest.mark.req takes ids only"
            yield from node.args


@pytest.mark.parametrize("path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_every_claim_is_a_literal_id(path: Path) -> None:
    wrong = [
        f"line {claim.lineno}: {ast.unparse(claim)}"
        for claim in claims(path.read_text("utf-8"))
        if not (isinstance(claim, ast.Constant) and IDENTIFIER.fullmatch(str(claim.value)))
    ]
    assert not wrong


@pytest.mark.parametrize("path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_test_is_skipped_for_a_missing_library(path: Path) -> None:
    """A library that a test needs is in the extra `test`, or the test proves nothing on most machines."""
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    assert not [node.lineno for node in calls if ast.unparse(node.func).endswith("importorskip")]
