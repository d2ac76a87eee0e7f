"""Text from others, made safe for a terminal (spec: CLI-32; OP-02)."""

from __future__ import annotations

import unicodedata
from typing import Final

_MOVERS: Final = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Letters that reorder a line, or end it."""


def one_line(text: str) -> str:
    """Escape control characters and line breaks."""
    return "".join(_escaped(letter) for letter in text)


def lines_of(text: str) -> list[str]:
    """Split into lines, and escape the other control characters. Tabs stay."""
    found = text.replace("\r\n", "\n").split("\n")
    return ["".join(letter if letter == "\t" else _escaped(letter) for letter in line) for line in found]


def _escaped(letter: str) -> str:
    if unicodedata.category(letter) in {"Cc", "Cs"} or letter in _MOVERS:
        return letter.encode("unicode_escape").decode("ascii")
    return letter
