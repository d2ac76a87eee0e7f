"""The headers of a webhook (spec: HOOK-03, HOOK-04, HOOK-05, LPSH-01, CONF-35, TRAC-01).

Every value has been checked when it comes here, or is encoded: nothing can end a line early.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from a2a_server.ports.push import Notice
from a2a_server.protocol.names import (
    AUTHORIZATION_HEADER,
    DELIVERY_ID_HEADER,
    EVENT_NUMBER_HEADER,
    SIGNATURE_HEADER,
    TASK_ID_HEADER,
    TOKEN_HEADER,
    VERSION_HEADER,
)

Sign = Callable[[Notice], str]

_VISIBLE = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")
_BEARER = "bearer"


def headers_of(notice: Notice, user_agent: str, sign: Sign | None) -> dict[str, str]:
    """What a receiver needs to know who sends, what to, and whether it has seen this before."""
    headers = {
        "Content-Type": notice.content_type,
        "User-Agent": user_agent,
        "Accept-Encoding": "identity",
        VERSION_HEADER: "1.0" if notice.hook.version == "1.0" else "0.3",  # which the draft calls itself, too
        TASK_ID_HEADER: _visible(notice.task_id),
        EVENT_NUMBER_HEADER: str(notice.number),
        DELIVERY_ID_HEADER: _visible(notice.delivery_id),
    }
    if token := notice.hook.config.token:
        headers[TOKEN_HEADER] = token
    if notice.trace is not None:
        headers |= notice.trace.headers()
    headers |= _authorization(notice, sign(notice) if sign else "")
    return headers


def _authorization(notice: Notice, signature: str) -> dict[str, str]:
    """A signature is the sender's own credential, and stands beside any that the client has given it."""
    authentication = notice.hook.config.authentication
    scheme, credentials = authentication.scheme, authentication.credentials
    if signature and not credentials and scheme.lower() in {"", _BEARER}:
        return {AUTHORIZATION_HEADER: f"Bearer {signature}"}
    headers = {SIGNATURE_HEADER: signature} if signature else {}
    if scheme:
        headers[AUTHORIZATION_HEADER] = f"{scheme} {credentials}".rstrip()
    return headers


def _visible(text: str) -> str:
    """Percent-encode what headers do not carry; ids are of any alphabet."""
    return quote(text, safe=_VISIBLE)
