"""Other people's programs: what each one asks for. `make kits` gives each an environment of its own in build/kits.

What is installed is pinned by NAME.txt, or for JavaScript by NAME/package.json. Where an install is not possible, its
reason is kept, and the tests with that program are skipped with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

PROJECT = Path(__file__).parents[3] / "pyproject.toml"
OURS: list[str] = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["dependencies"]
"""What the server needs where it runs beside what it serves."""
PYTHON: Mapping[str, Sequence[str]] = {
    "adk": ["google-adk[a2a]", *OURS],
    "beeai": ["beeai-framework[a2a]"],
    "fasta2a": ["fasta2a", "httpx"],
    "fasta2a-0.6": ["fasta2a<1", "httpx"],
    "litellm": ["litellm", "a2a-sdk"],
    "sdk-1.0.0": ["a2a-sdk[grpc]==1.0.0"],
    "strands": ["strands-agents[a2a]"],
}
JAVASCRIPT = ["ag-ui", "sdk-js-1.3"]

HERE = Path(__file__).parent
HOME = Path(__file__).parents[3] / "build" / "kits"
PATIENCE = 900.0
"""How many seconds one install may take."""

Command = Sequence[str | Path]


def pins(name: str) -> Path:
    return HERE / name / "package.json" if name in JAVASCRIPT else HERE / f"{name}.txt"


def why_not(name: str) -> str | None:
    """Why a program could not be installed; empty if it is there, None if nobody has tried."""
    try:
        return (HOME / name / "why-not").read_text()
    except FileNotFoundError:
        return "" if _fresh(name) else None


def _fresh(name: str) -> bool:
    mark = HOME / name / "installed-from"
    return mark.exists() and mark.read_text() == pins(name).read_text()


def install(name: str) -> str:
    """Install what is not there yet, or is pinned otherwise by now."""
    if _fresh(name):
        return ""
    shutil.rmtree(HOME / name, ignore_errors=True)
    reason = _reason(_npm(name) if name in JAVASCRIPT else _pip(name, "--constraint", pins(name)))
    return _noted(name, reason)


def _noted(name: str, reason: str) -> str:
    HOME.joinpath(name).mkdir(parents=True, exist_ok=True)
    file, text = ("why-not", reason) if reason else ("installed-from", pins(name).read_text())
    HOME.joinpath(name, file).write_text(text)
    return reason


def _npm(name: str) -> Sequence[Command]:
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
    return [["npm", "install", "--prefix", HERE / name, *options]]


def _pip(name: str, *options: str | Path) -> Sequence[Command]:
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "--python",
        HOME / name,
    ]
    return [
        [sys.executable, "-m", "venv", "--without-pip", HOME / name],
        [*pip, "install", *options, *PYTHON[name]],
    ]


def _reason(commands: Sequence[Command]) -> str:
    """Run commands; return the last words of one that fails."""
    try:
        for command in commands:
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    except FileNotFoundError as error:
        return f"{error.filename} is not there"
    except subprocess.TimeoutExpired:
        return f"it took more than {PATIENCE:.0f} seconds"
    except subprocess.CalledProcessError as error:
        return (error.stderr or error.stdout).strip().rpartition("\n")[2] or f"exit status {error.returncode}"
    return ""


def pin(name: str) -> str:
    """Install what is newest, and write down what that is."""
    shutil.rmtree(HOME / name, ignore_errors=True)
    if reason := _reason(_pip(name)):
        return _noted(name, reason)
    freeze: list[str | Path] = [sys.executable, "-m", "pip", "--python", HOME / name, "freeze", "--all"]
    found = subprocess.run(freeze, capture_output=True, text=True, check=True).stdout
    about = [line for line in pins(name).read_text().splitlines() if line.startswith("#")]
    pins(name).write_text("\n".join([*about, found]))
    return _noted(name, "")


def main(arguments: Sequence[str]) -> None:
    """Install all programs, or those that are named; with `--pin` in the newest versions."""
    pinning = "--pin" in arguments
    every = [*PYTHON] if pinning else [*PYTHON, *(JAVASCRIPT if os.environ.get("JS") != "0" else ())]
    names = [name for name in arguments if name != "--pin"] or every
    with ThreadPoolExecutor(2) as pool:
        for name, reason in zip(names, pool.map(partial(pin if pinning else install), names), strict=True):
            if reason:
                sys.stderr.write(f"{name} cannot be installed, and tests with it are skipped: {reason}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
