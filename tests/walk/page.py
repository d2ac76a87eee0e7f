"""The walks of docs/architecture.md; `RENEWAL` writes their lists anew and keeps what is said about each file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from tests.walk.record import ROOT
from tests.walk.stage import KINDS, record

PAGE = ROOT / "docs" / "architecture.md"
RENEWAL = ".venv/bin/python -m tests.walk.page"

_LIST = re.compile(r"(<!-- walk: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_SERVES = re.compile(r"\s*\((?:design|spec|docs|[A-Z]{4}-\d\d)\b.*?\)")
_STEP = re.compile(r"^\d+\. `(\S+)`: (.*)$", re.MULTILINE)


def lists(text: str) -> dict[str, dict[str, str]]:
    """The files of each walk on the page, and what it says about them."""
    return {kind: dict(_STEP.findall(steps)) for _, kind, steps, _ in _LIST.findall(text)}


def renewed(text: str, walks: dict[str, Sequence[str]]) -> str:
    """The page with these walks. A file that is new to a walk gets a sentence from elsewhere."""
    said = lists(text)
    others = {path: sentence for steps in said.values() for path, sentence in steps.items()}

    def steps(kind: str) -> Iterator[str]:
        for number, path in enumerate(walks[kind], 1):
            yield f"{number}. `{path}`: {said[kind].get(path) or others.get(path) or purpose(path)}\n"

    return _LIST.sub(lambda found: f"{found[1]}{''.join(steps(found[2]))}{found[4]}", text)


def purpose(path: str) -> str:
    """The first sentence of a module's docstring, without the requirements that it serves."""
    about = ast.get_docstring(ast.parse((ROOT / path).read_text("utf-8"))) or ""
    first = _SERVES.sub("", about.split("\n\n")[0])
    return " ".join(first.split()).rstrip(".") + "."


def main() -> None:
    text = PAGE.read_text("utf-8")
    PAGE.write_text(renewed(text, {kind: [*record(kind).files] for kind in KINDS}), "utf-8")


if __name__ == "__main__":
    main()
