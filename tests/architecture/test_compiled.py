"""The modules that are compiled: all of them exist, and where one is compiled, all are."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

from tests.support.compiled import COMPILED, origin

ROOT = Path(__file__).parents[2]
PATHS: list[str] = runpy.run_path(str(ROOT / "deploy" / "compile.py"))["paths"]()


def source(path: str) -> Path:
    """In a checkout the gateway has a folder of its own."""
    return ROOT / "gateway" / path if path.startswith("a2a_gateway/") else ROOT / path


@pytest.mark.parametrize("path", PATHS)
def test_what_is_to_be_compiled_is_there_and_is_compiled_or_not_like_all(path: str) -> None:
    assert source(path).is_file()
    assert Path(origin(path.removesuffix(".py").replace("/", "."))).suffix == (".so" if COMPILED else ".py")


@pytest.mark.parametrize("path", PATHS)
def test_nothing_waits_while_it_handles_an_exception(path: str) -> None:
    """Compiled, it would be everybody's meanwhile, and a `finally` that has waited raises whichever it finds."""
    tries = [node for node in ast.walk(ast.parse(source(path).read_text())) if isinstance(node, ast.Try)]
    handling = [line for node in tries for line in (*node.handlers, *node.finalbody)]
    waits = [node.lineno for line in handling for node in ast.walk(line) if isinstance(node, ast.Await | ast.Yield)]
    assert waits == []
