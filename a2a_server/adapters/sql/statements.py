"""The `.sql` files of a store: named queries, and one file of migrations for each version of the schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def queries(package: str, file: str) -> Mapping[str, str]:
    """The sections of a `.sql` file by their names."""
    return sections(files(package).joinpath(file).read_text("utf-8"))


def sections(text: str) -> Mapping[str, str]:
    _, *parts = _NAME.split(text)
    return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))


def migrations(package: str) -> Mapping[int, str]:
    """The text of each version, in order."""
    found = (path for path in files(package).joinpath("migrations").iterdir() if path.name.endswith(".sql"))
    return {int(path.name[:3]): path.read_text("utf-8") for path in sorted(found, key=lambda path: path.name)}


KINDS = {
    "tasks": "tasks",
    "events": "events",
    "artifacts": "artifacts",
    "agent_states": "agentStates",
    "turns": "turns",
    "context_states": "contextValues",
    "receipts": "receipts",
    "configs": "configs",
    "debts": "webhooks",
    "api_keys": "keys",
}
"""Tables that both databases have, and what operators call their rows."""
