"""The real command in a real process."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(**variables: str) -> dict[str, str]:
    """This environment without its A2A_ and A2ACLI_ variables, and with the code importable."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("A2A_", "A2ACLI_"))}
    return {**inherited, "PYTHONPATH": str(ROOT), **variables}


def command(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a2ad to its end."""
    line = [sys.executable, "-m", "a2a_server", *arguments]
    return subprocess.run(
        line, cwd=cwd, env=environment(**variables), capture_output=True, text=True, timeout=60, check=False
    )


@dataclass(frozen=True, slots=True)
class Running:
    """A server that has said it is open."""

    process: subprocess.Popen[str]
    address: str
    """Of the gRPC door."""
    http: str
    """URL of the HTTP door."""
    welcome: str


@contextmanager
def serving(*arguments: str, cwd: Path, **variables: str) -> Iterator[Running]:
    """Start a2ad and wait for its welcome; whatever is left of it in the end is killed."""
    with started([sys.executable, "-m", "a2a_server"], *arguments, cwd=cwd, env=environment(**variables)) as server:
        yield server


@contextmanager
def started(program: Sequence[str], *arguments: str, cwd: Path, env: Mapping[str, str]) -> Iterator[Running]:
    """As `serving`, whatever program and environment it is."""
    line = [*program, "serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Running(process, *_opened(process))
        finally:
            process.kill()


def _opened(process: subprocess.Popen[str]) -> tuple[str, str, str]:
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if lines[-2:-1] == ["Try:\n"]:
            doors = [
                next(text.split()[1] for text in lines if text.startswith(f"  {door}")) for door in ("grpc", "http")
            ]
            return doors[0], doors[1], "".join(lines)
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())
