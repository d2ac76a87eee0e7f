"""Write the packages that the image is made of, with the hashes of their files: python lock.py, in the project's .venv.

Versions are those of constraints.txt. What is needed is read from installed packages; hashes are what pip is told about
every wheel of a version, whatever platform it is for.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).parents[1]
PINS = ROOT / "constraints.txt"
LOCKS = {"requirements.txt": "run", "requirements-build.txt": "build"}
"""The files, and what they are for. What builds may need what runs as well, and leaves it out."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_BUILDERS = ("mypy", "setuptools", "types-protobuf")
"""What compiles modules, beside what builds the wheel."""
_LINK = re.compile(r"/([^/\s#]+\.whl)#sha256=([0-9a-f]{64})")


def roots(purpose: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    built: list[str] = project["build-system"]["requires"]
    running: list[str] = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["postgres"]
    return running if purpose == "run" else [*built, *_BUILDERS]


def closure(names: Iterable[str]) -> set[NormalizedName]:
    """Return packages and all that they need, on Linux, on any of these Pythons."""
    found: set[NormalizedName] = set()
    waiting = list(names)
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if name in found or not _applies(requirement):
            continue
        found.add(name)
        try:
            waiting += requires(name) or ()
        except ModuleNotFoundError:  # another Python needs it
            found.discard(name)
    return found


def _applies(requirement: Requirement) -> bool:
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**linux, "python_version": version}) for version in PYTHONS)


def pins() -> Mapping[NormalizedName, str]:
    lines = (line for line in PINS.read_text("utf-8").splitlines() if line and not line.startswith("#"))
    return {canonicalize_name(line.partition("==")[0]): line for line in lines}


def hashes(lines: Iterable[str]) -> Mapping[NormalizedName, set[str]]:
    """Ask pip, which says what it knows about every file."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.txt"
        wanted.write_text("\n".join(lines), "utf-8")
        command = [sys.executable, "-m", "pip", "-vvv", "install", "--dry-run", "--ignore-installed", "--no-deps"]
        asked = subprocess.run(
            [*command, "--only-binary=:all:", "--target", folder, "--requirement", str(wanted)],
            check=True,
            capture_output=True,
            text=True,
        )
        versions = {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in wanted.open()}
    found: dict[NormalizedName, set[str]] = {}
    for file, digest in _LINK.findall(asked.stdout):
        shown, version, *_ = file.split("-")
        name = canonicalize_name(shown)
        if version == versions.get(name, "").strip():
            found.setdefault(name, set()).add(digest)
    return found


def names(purpose: str) -> list[NormalizedName]:
    """What a file lists."""
    running = closure(roots("run"))
    return sorted(running if purpose == "run" else closure(roots(purpose)) - running)


def _written(purpose: str) -> Iterator[str]:
    known = pins()
    wanted = {name: known[name] for name in names(purpose)}
    digests = hashes(wanted.values())
    yield f"# What the image needs to {purpose}, with the hashes of all wheels; by `make locks`, of constraints.txt."
    for name, pin in wanted.items():
        yield " \\\n".join([pin, *(f"    --hash=sha256:{digest}" for digest in sorted(digests[name]))])


if __name__ == "__main__":
    for path, purpose in LOCKS.items():
        (ROOT / path).write_text("\n".join(_written(purpose)) + "\n", "utf-8")
