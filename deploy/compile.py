"""Compile what every call runs through: python compile.py FOLDER, which holds the packages a2a_server and a2a_gateway.

mypyc makes C of annotated Python, and a C compiler makes a module of that, which Python finds before the source beside
it. Nothing else changes, and what is not compiled works as before. It needs mypy, setuptools and a C compiler.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from mypyc.build import mypycify
from setuptools import Distribution
from setuptools.command.build_ext import build_ext

MODULES = {
    "a2a_gateway": "calls dispatcher jsonrpc profiles rest",
    "a2a_gateway/http": "body_writer replies",
    "a2a_gateway/older/v0_3": "answers jsonrpc requests",
    "a2a_gateway/requests": "binding headers media_types proxies",
    "a2a_gateway/routing": "table",
    "a2a_server/adapters": "buckets defaults",
    "a2a_server/adapters/auth": "guess_limit issuer schemes secrets",
    "a2a_server/adapters/memory": "tasks",
    "a2a_server/agents": "output",
    "a2a_server/domain": "checkers events free_form lifecycle media_types reducer trace validation",
    "a2a_server/operations": "services",
    "a2a_server/operations/log": "readers snapshot writer",
    "a2a_server/operations/rpc": "send",
    "a2a_server/operations/turns": "exchange idempotency live_task registry sending turn_events",
    "a2a_server/ports": "records",
    "a2a_server/protocol/codec": "codec sizes times",
    "a2a_server/protocol/v0_3": "extras json kind messages parts",
    "a2a_server/transport": "local permissions pipeline rates steps",
}
"""What a call spends its time in.

Nothing that users subclass; nothing that takes values as they come, because compiled code insists on its annotations;
and nothing that mypyc does not know: asynchronous generators, subclasses of what is written in C, waiting in `except`
and `finally`.
"""

FLAGS = "--config-file=", "--ignore-missing-imports", "--follow-imports=silent"
"""`make types` has judged already; here types that are not installed are just not known."""


def paths() -> list[str]:
    return [f"{package}/{name}.py" for package, names in MODULES.items() for name in names.split()]


PACKAGES = "a2a_gateway", "a2a_proto", "a2a_server"


def compile_in(folder: Path) -> None:
    """Work on a copy: in `site-packages`, mypy would take the modules of others for ours, and refuse their names."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, "packages")
        for name in PACKAGES:
            shutil.copytree(folder / name, copy / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        _compile(copy, Path(place, "made"))
        for module in copy.rglob("*.so"):
            shutil.copy(module, folder / module.relative_to(copy))


def _compile(folder: Path, made: Path) -> None:
    """Put each module beside its source."""
    made.mkdir()
    before = Path.cwd()
    os.chdir(folder)
    try:
        modules = mypycify(
            [*FLAGS, "--cache-dir", str(made), *paths()],
            target_dir=str(made),
            opt_level="3",
            debug_level="0",
            multi_file=True,  # many files of C instead of one that is very large
        )
        command = build_ext(Distribution({"name": "a2ad", "ext_modules": modules}))
        command.inplace, command.build_temp, command.build_lib = True, str(made), str(made)  # only modules stay here
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compile the modules that every call runs through, where they are.")
    parser.add_argument("folder", type=Path, help="what holds the packages a2a_server and a2a_gateway")
    folder: Path = parser.parse_args().folder
    compile_in(folder)
    print(f"Compiled {len(paths())} modules in {folder}.")


if __name__ == "__main__":
    main()
