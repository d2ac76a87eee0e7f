"""The named queries beside the modules that run them; SQL reviewers read SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def queries(file: str) -> Mapping[str, str]:
    """The sections of a `.sql` file by their names."""
    _, *sections = _NAME.split(files(__package__).joinpath(file).read_text("utf-8"))
    return dict(zip(sections[::2], map(str.strip, sections[1::2]), strict=True))
