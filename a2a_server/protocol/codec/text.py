"""JSON text → value, strictly (spec: JSON-12, DOOR-04)."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from a2a_server.protocol.errors import A2AError, Reason

DEEPEST: Final = 64

_STRUCTURE: Final = b'"[{'
_REST: Final = bytes(set(range(256)) - set(_STRUCTURE))


class NotJson(A2AError):  # noqa: N818 - says what the text is
    """The text is not JSON as far as anybody could agree on its meaning: -32700 on JSON-RPC, 400 elsewhere."""

    def __init__(self, what: str) -> None:
        super().__init__(Reason.INVALID_PARAMS, f"This is not valid JSON: {what}.")
        self.what = what


def loads(raw: bytes, *, max_depth: int = DEEPEST) -> object:
    """Read a JSON text; whatever parsers could understand differently is refused."""
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise NotJson(f"{error.msg} (line {error.lineno}, column {error.colno})") from None
    structure = raw.translate(None, _REST)
    if len(structure) > max_depth and _brackets(structure) > max_depth and _is_deeper(value, max_depth):
        raise NotJson(f"it nests deeper than {max_depth} objects and lists")
    again = orjson.dumps(value)
    if again != raw and (again.translate(None, _REST) != structure or (b"\\" in raw and b"\\u0022" in raw)):
        _refuse_repetition(raw)
    return value


def _brackets(structure: bytes) -> int:
    """As many at least as levels; most texts have so few that nobody need walk through them."""
    return structure.count(b"{") + structure.count(b"[")


def _is_deeper(value: object, allowed: int) -> bool:
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(allowed):
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, dict | list)
        ]
    return bool(level)


def _refuse_repetition(raw: bytes) -> None:
    r"""Refuse a member that an object holds twice.

    orjson keeps the last one silently. What it has dropped is noticed by the quotes: the value written again has at
    least two fewer, those of the repeated name. Only `\u0022` could make up for them, because it is written as `\"`.
    That test takes half a microsecond where Python's parser, which sees every member and is asked here, takes ten.
    """
    json.loads(raw, object_pairs_hook=_distinct, parse_int=str, parse_float=str)


def _distinct(members: list[tuple[str, object]]) -> None:
    names: set[str] = set()
    for name, _ in members:
        if name in names:
            clipped = json.dumps(name[:40])
            raise NotJson(f"an object holds the member {clipped} more than once")
        names.add(name)
