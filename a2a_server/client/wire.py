"""Shows each message that goes over the wire, with secrets masked (spec: CLI-47, CLI-63)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import quote, quote_plus

import orjson
from yarl import URL

from a2a_server.protocol.names import AUTHORIZATION

MASK: Final = "***"
_SECRET_MEMBERS: Final = re.compile(r'("(?:token|credentials)"\s*:\s*)"(?:[^"\\]|\\.)+"')
"""Members of push notification configs."""
_SECRET_WORDS: Final = (AUTHORIZATION, "cookie", "token", "secret", "key", "password", "credential")
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class WireMessage:
    """One message of the protocol, as it was sent or received."""

    direction: Literal["sent", "received"]
    what: str
    """A request's verb and URL, an answer's status, or `event`."""
    headers: Mapping[str, str]
    body: str
    """JSON; for gRPC, the message as ProtoJSON."""


OnWire = Callable[[WireMessage], None]


class WireLog:
    """Passes messages to whoever wants to see them. Without a listener nothing is made."""

    def __init__(self, listener: OnWire | None, secrets: Iterable[str] = ()) -> None:
        self._listener = listener
        self._secrets = _forms(secrets)

    @property
    def listens(self) -> bool:
        return self._listener is not None

    def sent(self, what: str, headers: Iterable[tuple[str, str]] = (), body: str = "") -> None:
        self._tell("sent", what, headers, body)

    def received(self, what: str, headers: Iterable[tuple[str, str]] = (), body: str = "") -> None:
        self._tell("received", what, headers, body)

    def _tell(
        self, direction: Literal["sent", "received"], what: str, headers: Iterable[tuple[str, str]], body: str
    ) -> None:
        if self._listener is None:
            return
        shown = {name: MASK if _is_secret(name) else self._masked(value) for name, value in headers}
        message = WireMessage(direction, self._masked(what), shown or _NO_HEADERS, self._masked(body))
        self._listener(message)

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return _SECRET_MEMBERS.sub(rf'\1"{MASK}"', text)


def _forms(secrets: Iterable[str]) -> Sequence[str]:
    """Return each secret as it is, and as URLs and JSON write it; the longest first, since one may hold another."""
    forms = {form for secret in secrets if secret for form in _spellings(secret)}
    return sorted(forms, key=len, reverse=True)


def _spellings(secret: str) -> Iterator[str]:
    yield from (secret, quote(secret, safe=""), quote_plus(secret))
    yield URL.build(query={"k": secret}).raw_query_string.removeprefix("k=")  # which leaves more as it is
    yield orjson.dumps(secret).decode()[1:-1]


def _is_secret(header: str) -> bool:
    name = header.lower()
    return any(word in name for word in _SECRET_WORDS)
