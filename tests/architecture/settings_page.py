"""docs/settings.md, written from what `a2ad config --example` is made of; `RENEWAL` writes it anew."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from a2a_server.cli.configuration import SettingEntry, credential, groups, sources

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
RENEWAL = ".venv/bin/python -m tests.architecture.settings_page"

HEAD = f"""\
# Settings

<!-- Made by `{RENEWAL}`. -->

Every setting with its default and its meaning, as `a2ad config --example` prints them.
[operating.md](operating.md#settings) says where the server takes their values from. In the environment,
`limits.running_turns` is `A2A_LIMITS__RUNNING_TURNS`, and lists are separated by commas or written as JSON arrays.

The server refuses to start with an invalid setting and prints one line for each fault. The exit status is 2 if the
command line, a setting or the agent is wrong. It is 1 if something else is in the way: a port that is taken, a store
that cannot be opened, or a file of `tls`, `upstream` or `gateway.card` that cannot be used.
"""

CREDENTIALS = """\
## `[[auth.tokens]]` and `[[auth.api_keys]]`

One table for each credential. `a2ad token new` makes one.
"""


def unexplained() -> list[str]:
    """The settings that have no meaning to print."""
    return [entry.name for group in groups() for entry in group.entries if not entry.meaning]


def page() -> str:
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for section, about, entries in groups():
        prefix = f"{section}." if section else ""
        if section:
            yield f"## `[{section}]`\n\n{_escaped(' '.join(about.split()))}\n"
        yield _table("default", (entry._replace(name=prefix + entry.name) for entry in entries))
        if section == "auth":
            yield CREDENTIALS
            yield _table("such as", credential())
        for table in sources():
            if table.section.rpartition(".")[0] == section:
                yield f"## `[[{table.section}]]`\n\n{_escaped(table.about)}\n"
                yield _table("default", table.entries)


def _table(value: str, entries: Iterable[SettingEntry]) -> str:
    rows = [f"| | {value} | |", "|---|---|---|"]
    rows += [f"| `{entry.name}` | `{entry.value}` | {_escaped(entry.meaning)} |" for entry in entries]
    return "\n".join(rows) + "\n"


def _escaped(text: str) -> str:
    """Keep Markdown from reading characters of its own in prose; what is in backticks is safe, but for the bar."""
    pieces = re.split(r"(`[^`]*`)", text.replace("|", "\\|"))
    return "".join(piece if piece.startswith("`") else re.sub(r"([*<\[])", r"\\\1", piece) for piece in pieces)


if __name__ == "__main__":
    sys.exit(not PAGE.write_text(page(), "utf-8"))
