"""docker-compose.yml and the Dockerfile as an engine reads them, without an engine."""

import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
OVERRIDES = sorted((ROOT / "deploy").glob("*.yml"))
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def defaults() -> dict[str, str]:
    """The variables that are filled in, and what with when they are not set."""
    found: dict[str, str] = {}
    for name, value in _VARIABLE.findall("".join(path.read_text("utf-8") for path in (FILE, *OVERRIDES))):
        assert found.setdefault(name, value) == value, f"{name} has two defaults"
    return found


def passed_on() -> set[str]:
    """The variables that reach a container if they are set."""
    told = [service["environment"] for service in read()["services"].values()]
    return {name for environment in told for name, value in environment.items() if value is None}


def read(path: Path = FILE, **variables: str) -> dict[str, Any]:
    """The file with its variables filled in; as engines do, after it was parsed."""
    loaded: dict[str, Any] = _filled(YAML(typ="safe").load(path.read_text("utf-8")), variables)
    return loaded


def environment(service: dict[str, Any], **variables: str) -> dict[str, str]:
    """What a service's process is told: by the image, by the file, and by variables that are passed on."""
    given = {name: variables.get(name) if value is None else value for name, value in service["environment"].items()}
    return image_environment() | {name: value for name, value in given.items() if value is not None}


def image_environment() -> dict[str, str]:
    """The settings that the image makes."""
    return dict(re.findall(r"^\s*(?:ENV )?(A2A_\w+)=(\S+)", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE))


def _filled(value: Any, variables: dict[str, str]) -> Any:
    match value:
        case dict():
            return {name: _filled(item, variables) for name, item in value.items()}
        case list():
            return [_filled(item, variables) for item in value]
        case str():
            text = _VARIABLE.sub(lambda match: variables.get(match[1]) or match[2], value)
            assert "$" not in text, f"{value}: only ${{NAME:-default}} is understood here"
            return text
    return value
