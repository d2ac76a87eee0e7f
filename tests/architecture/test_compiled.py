"""The modules that are compiled: all of them exist, and where one is compiled, all are."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.support.compiled import COMPILED, origin

ROOT = Path(__file__).parents[2]
PATHS: list[str] = runpy.run_path(str(ROOT / "deploy" / "compile.py"))["paths"]()


@pytest.mark.parametrize("path", PATHS)
def test_what_is_to_be_compiled_is_there_and_is_compiled_or_not_like_all(path: str) -> None:
    assert (ROOT / path).is_file()
    assert Path(origin(path.removesuffix(".py").replace("/", "."))).suffix == (".so" if COMPILED else ".py")
