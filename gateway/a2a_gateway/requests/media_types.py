"""The media types of requests and answers: `Content-Type` and `Accept` (spec: MEDI, DOOR-11, CONF-03, CONF-04)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from aiohttp import hdrs
from multidict import MultiMapping

from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import A2A_JSON, JSON, JSONL, NDJSON, SSE

LINE_TYPES = (NDJSON, JSONL)
"""The types of a body of JSON lines, in which each line is a message (DOOR-14)."""
_LONGEST_ACCEPT = 1024
_WEIGHT = re.compile(r"[01]?(\.[0-9]{0,3})?")


def accepted_types(headers: MultiMapping[str]) -> str | None:
    """Return the value of Accept. Several lines are joined to one list."""
    lines = headers.getall(hdrs.ACCEPT, None)
    return None if lines is None else ", ".join(lines)


def answer_type(accept: str | None) -> str:
    return A2A_JSON if accept is None or accept == "*/*" else _best(accept, (A2A_JSON, JSON))


def plain_answer_type(accept: str | None) -> str:
    """Return the type of plain JSON. Clients that accept only A2A's type get it too (CONF-04)."""
    if accept is not None and accept != "*/*":
        _best(accept, (JSON, A2A_JSON))
    return JSON


def stream_type(accept: str | None) -> str:
    """Return the type of a stream. Clients that ask for plain JSON get SSE, the only format in the protocol."""
    if accept is None or accept == SSE:
        return SSE
    best = _best(accept, (SSE, NDJSON, A2A_JSON, JSON), told=2)
    return best if best == NDJSON else SSE


def error_type(accept: str | None) -> str:
    """Return the type of an error: the type of a success, or A2A's type if the client accepts neither."""
    try:
        return answer_type(accept)
    except A2AError:
        return A2A_JSON


def must_be_json(content_type: str | None, types: Sequence[str] = (A2A_JSON, JSON)) -> None:
    """Refuse a body of another type (MEDI-05). A body without Content-Type counts as JSON."""
    if content_type is None or content_type in types or _bare(content_type) in types:
        return
    raise A2AError(
        Reason.CONTENT_TYPE_NOT_SUPPORTED,
        f'The body must be {" or ".join(types)} in UTF-8; Content-Type is "{content_type[:100]}".',
        metadata={"contentType": content_type},
    )


def is_lines(headers: Mapping[str, str]) -> bool:
    """Whether Content-Type says JSON lines."""
    return _bare(headers.get(hdrs.CONTENT_TYPE, "")) in LINE_TYPES


def _bare(content_type: str) -> str:
    kind, *parameters = content_type.lower().split(";")
    named = [(name.strip(), value.strip(' "')) for name, _, value in (item.partition("=") for item in parameters)]
    return kind.strip() if all(value in {"utf-8", "utf8"} for name, value in named if name == "charset") else ""


@lru_cache(maxsize=256)
def _best(accept: str, offers: Sequence[str], told: int | None = None) -> str:
    """Return the offer that Accept prefers (RFC 9110), the first among equals. An error lists the first `told` ones."""
    ranges = list(_ranges(accept[:_LONGEST_ACCEPT]))
    quality = {offer: _quality(offer, ranges) for offer in offers}
    best = max(offers, key=lambda offer: quality[offer])
    if ranges and not quality[best]:
        raise A2AError(Reason.NOT_ACCEPTABLE, f'There is {", ".join(offers[:told])}; Accept asks for "{accept[:100]}".')
    return best


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
    for item in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        if kind:
            weights = [text[2:] for text in parameters if text.startswith("q=")]
            yield "*/*" if kind == "*" else kind, _weight(weights[0]) if weights else 1.0  # Java's clients send `*`


def _weight(text: str) -> float:
    """Read a weight; ignore a malformed one."""
    return min(float(text), 1.0) if _WEIGHT.fullmatch(text) and text not in {"", "."} else 1.0


def _quality(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    family = offer.partition("/")[0] + "/*"
    for wanted in (offer, family, "*/*"):
        if found := [weight for kind, weight in ranges if kind == wanted]:
            return max(found)
    return 0.0
