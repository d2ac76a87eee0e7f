"""Which media type a client gets: what it accepts, of what there is (spec: MEDI, CONF-03, CONF-04, DOOR-11)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from aiohttp import hdrs
from multidict import MultiMapping

from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import A2A_JSON, JSON, NDJSON, SSE

_LONGEST = 1024
_WEIGHT = re.compile(r"[01]?(\.[0-9]{0,3})?")


def asked(headers: MultiMapping[str]) -> str | None:
    """What the header Accept says; several lines of it are one list."""
    lines = headers.getall(hdrs.ACCEPT, None)
    return None if lines is None else ", ".join(lines)


def unary(accept: str | None) -> str:
    """The type of an answer."""
    return A2A_JSON if accept is None or accept == "*/*" else _best(accept, (A2A_JSON, JSON))


def plain(accept: str | None) -> str:
    """The type of an answer where there is only plain JSON; whoever takes A2A's takes that (CONF-04)."""
    if accept is not None and accept != "*/*":
        _best(accept, (JSON, A2A_JSON))
    return JSON


def plain_of_error(accept: str | None) -> str:
    """As `of_error`, where there is only plain JSON."""
    del accept
    return JSON


def stream(accept: str | None) -> str:
    """The type of a stream. A client that asks for plain JSON everywhere still gets the only form that A2A has."""
    if accept is None or accept == SSE:
        return SSE
    best = _best(accept, (SSE, NDJSON, A2A_JSON, JSON), told=2)
    return best if best == NDJSON else SSE


def of_error(accept: str | None) -> str:
    """The type that a success would have; a client that accepts neither gets an explanation all the same."""
    try:
        return unary(accept)
    except A2AError:
        return A2A_JSON


def must_be_json(content_type: str | None, types: Sequence[str] = (A2A_JSON, JSON)) -> None:
    """Refuse a body of another type before it is parsed (MEDI-05); none at all counts as JSON."""
    if content_type is None or content_type in types or _bare(content_type) in types:
        return
    raise A2AError(
        Reason.CONTENT_TYPE_NOT_SUPPORTED,
        f'The body must be {" or ".join(types)} in UTF-8; Content-Type is "{content_type[:100]}".',
        metadata={"contentType": content_type},
    )


def _bare(content_type: str) -> str:
    kind, *parameters = content_type.lower().split(";")
    charsets = {
        value.strip(' "') for name, _, value in (item.partition("=") for item in parameters) if _is_charset(name)
    }
    return kind.strip() if charsets <= {"utf-8", "utf8"} else ""


def _is_charset(name: str) -> bool:
    return name.strip() == "charset"


@lru_cache(maxsize=256)
def _best(accept: str, offers: Sequence[str], told: int | None = None) -> str:
    """Return the offer that RFC 9110's Accept likes best; among equals the first. A refusal tells the first ones."""
    ranges = list(_ranges(accept[:_LONGEST]))
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
            yield "*/*" if kind == "*" else kind, _weight(weights[0]) if weights else 1.0  # Java's clients say `*`


def _weight(text: str) -> float:
    """Read a weight; one that is none does not count."""
    return min(float(text), 1.0) if _WEIGHT.fullmatch(text) and text not in {"", "."} else 1.0


def _quality(offer: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The most specific range decides."""
    family = offer.partition("/")[0] + "/*"
    for wanted in (offer, family, "*/*"):
        if found := [weight for kind, weight in ranges if kind == wanted]:
            return max(found)
    return 0.0
