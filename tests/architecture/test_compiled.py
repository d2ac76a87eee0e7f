"""The modules that are compiled: all of them exist, and where one is compiled, all are."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

from tests.support.compiled import COMPILED, origin

ROOT = Path(__file__).parents[2]
PATHS: list[str] = runpy.run_path(str(ROOT / "deploy" / "compile.py"))["paths"]()


WAITS = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)


def source(path: str) -> Path:
    """In a checkout the gateway has a folder of its own."""
    return ROOT / "gateway" / path if path.startswith("a2a_gateway/") else ROOT / path


@pytest.mark.parametrize("path", PATHS)
def test_what_is_to_be_compiled_is_there_and_is_compiled_or_not_like_all(path: str) -> None:
    assert source(path).is_file()
    assert Path(origin(path.removesuffix(".py").replace("/", "."))).suffix == (".so" if COMPILED else ".py")


@pytest.mark.parametrize("path", PATHS)
def test_nothing_waits_while_it_handles_an_exception(path: str) -> None:
    """Compiled, it would be everybody's meanwhile, and a `finally` that has waited raises whichever it finds.

    `async with` waits for its end while an exception goes through it: call a function of a module that is not compiled.
    """
    nodes = list(ast.walk(ast.parse(source(path).read_text())))
    tries = [node for node in nodes if isinstance(node, ast.Try | ast.TryStar)]
    handling = [inner for node in tries for line in (*node.handlers, *node.finalbody) for inner in ast.walk(line)]
    waits = [node for node in handling if isinstance(node, WAITS)]
    blocks = [node for node in nodes if isinstance(node, ast.AsyncWith)]
    assert [node.lineno for node in (*waits, *blocks)] == []
