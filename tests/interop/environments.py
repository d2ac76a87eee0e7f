"""Where the programs of other versions run, and what to do when that is nowhere."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT
from tests.interop.kits import install

PYTHON_0_3 = ROOT / ".venv-sdk-0.3" / "bin" / "python"
JAVASCRIPT = Path(__file__).parent / "clients" / "js"


def python(module: str) -> Sequence[str]:
    """A module in the environment of the tests themselves."""
    return [sys.executable, "-m", module]


def python_0_3(module: str, *arguments: str) -> Sequence[str]:
    """A module in the environment of a2a-sdk 0.3, which can't live beside the SDK of 1.0."""
    if not PYTHON_0_3.exists():
        pytest.fail(
            f"{PYTHON_0_3} is missing: a2a-sdk 0.3 has an environment of its own, which `make clients` makes.",
            pytrace=False,
        )
    return [str(PYTHON_0_3), "-m", module, *arguments]


def javascript(script: str, *arguments: str) -> Sequence[str]:
    """A script with the packages of `js/package.json` beside it; left out by `JS=0`, and where there is no Node."""
    node = shutil.which("node")
    if os.environ.get("JS") == "0" or node is None:
        pytest.skip("JS=0 leaves the JavaScript SDK out" if node else "the JavaScript SDK needs Node")
    wanted = json.loads((JAVASCRIPT / "package.json").read_bytes())["dependencies"]
    if missing := [name for name in wanted if not (JAVASCRIPT / "node_modules" / name).exists()]:
        told = f"{', '.join(missing)} of JavaScript is missing: `make clients` installs it, JS=0 leaves it out."
        pytest.fail(told, pytrace=False)
    return [node, str(JAVASCRIPT / script), *arguments]


def installed(name: str, script: str) -> Sequence[str]:
    """A program of somebody else, in the environment made for it; left out where it can't be installed."""
    node = shutil.which("node")
    reason = (
        "JS=0 leaves it out" if name in install.JAVASCRIPT and os.environ.get("JS") == "0" else install.why_not(name)
    )
    if reason is None:
        pytest.fail(f"{name} is missing: `make kits` installs it.", pytrace=False)
    if reason:
        pytest.skip(f"{name} is not installed: {reason}")
    if name in install.JAVASCRIPT:
        assert node is not None, "npm is there, but not node"
        return [node, str(install.HERE / name / script)]
    return [str(install.HOME / name / "bin" / "python"), "-m", f"tests.interop.{script}"]
