"""Parses the path templates of google.api.http, and decodes paths (spec: REST-01, REST-02, REST-07)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import NamedTuple, NoReturn
from urllib.parse import unquote_to_bytes


class TemplateError(ValueError):
    """A path template that does not follow the grammar."""


class Wildcard(Enum):
    ONE = "*"
    """Exactly one segment, which is not empty."""
    REST = "**"
    """All remaining segments, possibly none."""


Segment = str | Wildcard
"""A decoded literal, or a wildcard."""


class Variable(NamedTuple):
    """A captured field. Its value is the text of the segments from `start` to `stop`."""

    path: str
    """The field, named as in the proto: `name`, `shelf.name`."""
    start: int
    stop: int | None
    """None = to the end of the path."""
    single: bool
    """Whether it is one segment, which is decoded fully. In several, an encoded slash stays encoded, to differ
    from the slashes between them."""


@dataclass(frozen=True, slots=True)
class Template:
    text: str
    segments: tuple[Segment, ...]
    variables: tuple[Variable, ...] = ()
    suffix: str = ""
    """The custom verb, without its colon: `cancel`."""


def starts_with(template: Template, root: tuple[Segment, ...]) -> bool:
    """Whether a template begins with these segments; `*` in them matches any segment."""
    return all(wanted in {mine, Wildcard.ONE} for mine, wanted in zip_longest(template.segments[: len(root)], root))


def overlap(one: Template, other: Template) -> bool:
    """Whether some path could match both, apart from a suffix that only one of them has."""
    for mine, theirs in zip_longest(_segments_with_suffix(one), _segments_with_suffix(other)):
        if Wildcard.REST in {mine, theirs}:
            return True
        if None in {mine, theirs} or (mine != theirs and Wildcard.ONE not in {mine, theirs}):
            return False
    return True


def _segments_with_suffix(template: Template) -> Iterator[Segment]:
    """Yield the segments. If the last one is a literal, it includes the suffix."""
    yield from template.segments[:-1]
    for last in template.segments[-1:]:
        yield f"{last}:{template.suffix}" if template.suffix and isinstance(last, str) else last


# The grammar, from google/api/http.proto (there a suffix is called Verb):
#
#     Template  = "/" [ Segments [ Suffix ] ] ;      "/" alone is grpc-gateway's addition
#     Segments  = Segment { "/" Segment } ;
#     Segment   = "*" | "**" | LITERAL | Variable ;  "**" may only be the last one
#     Variable  = "{" FieldPath [ "=" Segments ] "}" ;  holds no other variable; "{x}" is short for "{x=*}"
#     FieldPath = IDENT { "." IDENT } ;
#     Suffix    = ":" LITERAL ;
#
# LITERAL is a segment of RFC 3986. The colon that starts a suffix is the last one of the last segment;
# colons elsewhere belong to literals (`/a:b/c`).
_SUFFIX = re.compile(r":([^:/{}]*)$")
_PIECE = re.compile(r"/(\{[^{}]*\}|[^/{}]*)")
_FIELD_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_LITERAL = re.compile(r"([A-Za-z0-9\-._~!$&'()+,;=:@]|%[0-9A-Fa-f]{2})+")


def parse(text: str) -> Template:
    """Read a template, or raise `TemplateError`."""
    if text == "/":
        return Template(text, ())
    body, suffix = _suffix(text)
    segments: list[Segment] = []
    variables: list[Variable] = []
    for piece in _pieces(text, body):
        if piece.startswith("{"):
            variables.append(_variable(text, piece, segments))
        else:
            segments.append(_segment(text, piece))
    if Wildcard.REST in segments[:-1]:
        _refuse(text, '"**" must be the last segment')
    if len({variable.path for variable in variables}) < len(variables):
        _refuse(text, "a field is captured twice")
    return Template(text, tuple(segments), tuple(variables), suffix)


def _suffix(text: str) -> tuple[str, str]:
    found = _SUFFIX.search(text)
    if found is None:
        return text, ""
    suffix = _segment(text, found[1])
    if isinstance(suffix, Wildcard):
        _refuse(text, "the part after the colon must be a word")
    return text[: found.start()], suffix


def _pieces(text: str, body: str) -> Iterator[str]:
    if not body.startswith("/"):
        _refuse(text, 'it must start with "/"')
    pieces = _PIECE.findall(body)
    if "".join(f"/{piece}" for piece in pieces) != body:
        _refuse(text, "a variable must be a whole segment, with no other variable inside, as in {name=shelves/*}")
    yield from pieces


def _variable(text: str, piece: str, segments: list[Segment]) -> Variable:
    path, equals, inner = piece[1:-1].partition("=")
    if not _FIELD_PATH.fullmatch(path):
        _refuse(text, f'"{path}" is not the name of a field')
    start = len(segments)
    segments.extend(_segment(text, part) for part in (inner if equals else "*").split("/"))
    stop = None if segments[-1] is Wildcard.REST else len(segments)
    return Variable(path, start, stop, single=stop == start + 1)


def _segment(text: str, part: str) -> Segment:
    if part in {"*", "**"}:
        return Wildcard(part)
    if not _LITERAL.fullmatch(part):
        _refuse(text, f'"{part}" is neither a wildcard nor a literal' if part else "a segment is empty")
    try:
        return decode(part)
    except ValueError as error:
        raise TemplateError(f'path template "{text}": "{part}" {error}') from error


def _refuse(text: str, reason: str) -> NoReturn:
    raise TemplateError(f'path template "{text}": {reason}')


_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SLASH = re.compile(r"(%2[Ff])")


def decode(text: str) -> str:
    """Undo percent-encoding once; raise `ValueError` if the encoding is broken or the result is not UTF-8."""
    if _BROKEN.search(text):
        raise ValueError('has a "%" without two hexadecimal digits after it; the character itself is written %25')
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        raise ValueError("is not UTF-8 once its percent-encoding is undone") from None


def decode_between_slashes(text: str) -> str:
    """Decode all but encoded slashes, as http.proto demands for captures of several segments."""
    decode(text)  # checks the whole: a broken escape could look correct between slashes
    return "".join(part if _SLASH.fullmatch(part) else decode(part) for part in _SLASH.split(text))
