"""The modules that are compiled: all of them exist, and where one is compiled, all are."""

from __future__ import annotations

import ast
import hashlib
import runpy
import shutil
import subprocess
import sys
from collections import Counter
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


SMALL = """
import runpy, sys
from pathlib import Path

made = runpy.run_path(sys.argv[1])
compile_in = made["compile_in"]
compile_in.__globals__.update(MODULES={"small": "one two"}, PACKAGES=("small",))
compile_in(Path(sys.argv[2]))
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_every_module_is_there_once(tmp_path: Path) -> None:
    """Compiled in an installation, as the Dockerfile does it: what else stayed there would be in the image.

    There are modules of others, whose names mypy refuses as ours, and types of libraries are not installed.
    """
    (tmp_path / "small").mkdir()
    for name in ("one", "two"):
        text = f"from small import rest\n\ndef {name}(value: int) -> int:\n    return value + rest.number\n"
        (tmp_path / "small" / f"{name}.py").write_text(text)
    (tmp_path / "small" / "rest.py").write_text("number: int = 'of a type that mypy refuses'\n")
    (tmp_path / "small" / "__init__.py").touch()
    (tmp_path / "typing_extensions.py").touch()
    script = ROOT / "deploy" / "compile.py"
    subprocess.run([sys.executable, "-c", SMALL, script, tmp_path], check=True, capture_output=True, timeout=100)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    modules = [path for path in files if path.suffix == ".so"]
    assert len(modules) == 3  # and what they share
    assert set(Counter(hashlib.sha256(path.read_bytes()).digest() for path in modules).values()) == {1}
    left = {str(path.relative_to(tmp_path)) for path in files} - {str(path.relative_to(tmp_path)) for path in modules}
    assert left == {*(f"small/{name}.py" for name in ("__init__", "one", "rest", "two")), "typing_extensions.py"}
