"""What names, URLs and media types may look like (spec: CTX-04, SEND-04, PUSH-04).

A check answers with its complaint, "" = fine. Text is refused only for what would harm whoever stores or forwards it;
every other Unicode is a client's own business.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

MAX_ID: Final = 256
"""Characters of an id. Ids are keys of indexes, and four bytes each must fit into a page of any engine."""
MAX_TENANT: Final = 256
MAX_URL: Final = 2_048
MAX_SECRET: Final = 4_096
"""Characters of what a webhook is sent in one header."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]").search
_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_MEDIA_TYPE: Final = re.compile(rf"{_WORD}/{_WORD}\s*(;.*)?").fullmatch


def is_name(value: str) -> bool:
    """Whether an id is there and beyond doubt; `text` finds out about the others."""
    return 0 < len(value) <= MAX_ID and value.isprintable()


def text(value: str, limit: int) -> str:
    if len(value) > limit:
        return f"must have at most {limit} characters, got {len(value)}"
    # Nearly all names are printable, which takes less to see than a search.
    return "must not contain control characters" if not value.isprintable() and _CONTROL(value) else ""


def tenant(value: str) -> str:
    return "must not contain a slash" if "/" in value else text(value, MAX_TENANT)


def url(value: str) -> str:
    """Syntax only: whether the server may call it is decided when it does."""
    if complaint := text(value, MAX_URL):
        return complaint
    return "" if _is_web_url(value) else "must be an absolute http or https URL"


def _is_web_url(value: str) -> bool:
    if " " in value:
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets or a port that make no sense
        return False


def media_range(value: str) -> str:
    return "" if _MEDIA_TYPE(value) else f"must look like text/plain, image/* or */*, got {value[:80]!r}"


def matches(media_type: str, mode: str) -> bool:
    """Whether a mode such as `text/*` covers a media type; parameters and case say nothing."""
    wanted, given = _essence(mode), _essence(media_type)
    if wanted in {given, "*/*", "*"}:
        return True
    return wanted.endswith("/*") and given.startswith(wanted[:-1])


def _essence(value: str) -> str:
    return value.partition(";")[0].strip().lower()
