"""Finds and reads agent cards: by host, URL, file, and from memory while HTTP allows it (spec: CLI-15, CLI-16, OP-13).

Cards of 0.3 and 0.2 are read as cards of 1.0. A card is fetched without credentials.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import aiohttp
from yarl import URL

from a2a_proto import a2a_pb2 as pb
from a2a_server.client.binding import ClientLimits
from a2a_server.client.failures import (
    CallError,
    CardInvalidError,
    CardNotFoundError,
    UnreachableError,
    timed_out,
)
from a2a_server.client.grpc_binding import is_loopback
from a2a_server.client.network import Network
from a2a_server.client.wire import OnWire, WireLog
from a2a_server.protocol.codec import loads
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import JSON
from a2a_server.protocol.v0_3.upgraded_cards import is_old, read_card

CARD_PATH: Final = "/.well-known/agent-card.json"
OLD_CARD_PATH: Final = "/.well-known/agent.json"

_MOST_CARDS: Final = 256
_MAX_AGE: Final = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})", re.IGNORECASE)
_NOT_KEPT: Final = re.compile(r"(?:^|[\s,])no-(?:store|cache)", re.IGNORECASE)
_GONE: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE, HTTPStatus.METHOD_NOT_ALLOWED})


@dataclass(frozen=True, slots=True)
class FoundCard:
    """An agent card, and where it came from."""

    card: pb.AgentCard
    document: Mapping[str, Any]
    """The JSON as it was received."""
    url: str = ""
    """Where it was fetched in the end; empty if it was not fetched."""


@dataclass(slots=True)
class _KeptCard:
    found: FoundCard
    fresh_until: float
    etag: str


@dataclass(slots=True, eq=False)
class Discovery:
    """Reads agent cards, and remembers them by URL as long as their servers say. Close it in the end."""

    limits: ClientLimits = field(default_factory=ClientLimits)
    timeout: float = 30.0
    network: Network = field(default_factory=Network)
    on_wire: OnWire | None = None
    redirects: int = 5
    """How many redirects are followed to a card."""
    _kept: OrderedDict[str, _KeptCard] = field(default_factory=OrderedDict)
    _session: aiohttp.ClientSession | None = None

    async def find(self, reference: str) -> FoundCard:
        """Return the card of a host, an origin, the URL of a card, a `file://` URL or a path. Raises `CallError`."""
        if (path := local_path(reference)) is not None:
            return await asyncio.to_thread(self._read_file, path)
        url = card_url(reference)
        try:
            return await self._fetch(url)
        except CardNotFoundError:
            if not url.endswith(CARD_PATH):
                raise
            return await self._old(url)

    def forget(self, reference: str) -> None:
        """Fetch the card anew when it is wanted again: what it says has turned out to be wrong."""
        self._kept.pop(card_url(reference), None)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _old(self, url: str) -> FoundCard:
        """Look where cards were before 0.3; the error names the usual place."""
        try:
            return await self._fetch(url.removesuffix(CARD_PATH) + OLD_CARD_PATH)
        except CardNotFoundError:
            raise CardNotFoundError(f"There is no agent card at {url}.") from None

    def _read_file(self, path: Path) -> FoundCard:
        try:
            with path.open("rb") as file:
                text = file.read(self.limits.card_bytes + 1)
        except OSError as error:
            raise CardNotFoundError(f"The card file {path} cannot be read: {error.strerror}.") from None
        return FoundCard(*self._parsed(text, str(path)))

    async def _fetch(self, url: str) -> FoundCard:
        kept = self._kept.get(url)
        if kept is not None and time.monotonic() < kept.fresh_until:
            self._kept.move_to_end(url)
            return kept.found
        headers = {"Accept": JSON}
        if kept is not None and kept.etag:
            headers["If-None-Match"] = kept.etag
        try:
            async with asyncio.timeout(self.timeout):
                return await self._request(url, headers, kept)
        except TimeoutError:
            raise timed_out(self.timeout) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise UnreachableError(f"{url} cannot be reached: {str(error)[:300] or type(error).__name__}") from None

    async def _request(self, url: str, headers: Mapping[str, str], kept: _KeptCard | None) -> FoundCard:
        if self._session is None:
            self._session = self.network.new_session()
        wire = WireLog(self.on_wire)
        wire.sent(f"GET {url}", headers.items())
        asked = self._session.get(
            URL(url), headers=headers, allow_redirects=self.redirects > 0, max_redirects=self.redirects
        )
        async with asked as response:
            body = bytearray()
            while len(body) <= self.limits.card_bytes and (chunk := await response.content.readany()):
                body += chunk
            text = bytes(body)
            wire.received(f"{response.status}", response.headers.items(), text.decode(errors="replace"))
            if response.status == HTTPStatus.NOT_MODIFIED and kept is not None:
                return self._keep(url, kept.found, response)
            self._check(url, response.status)
            found = FoundCard(*self._parsed(text, url), str(response.url))
            return self._keep(url, found, response)

    @staticmethod
    def _check(url: str, status: int) -> None:
        if status == HTTPStatus.OK:
            return
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise UnreachableError(f"{url} has answered with the HTTP status {status}.", code=status)
        text = "There is no agent card" if status in _GONE else f"The HTTP status is {status}, and no agent card is"
        raise CardNotFoundError(f"{text} at {url}.", code=status)

    def _keep(self, url: str, found: FoundCard, response: aiohttp.ClientResponse) -> FoundCard:
        control, etag = response.headers.get("Cache-Control", ""), response.headers.get("ETag", "")
        self._kept.pop(url, None)
        if "no-store" in control.lower():
            return found
        age = None if _NOT_KEPT.search(control) else _MAX_AGE.search(control)
        if age or etag:
            until = time.monotonic() + (int(age[1]) if age else 0)
            self._kept[url] = _KeptCard(found, until, etag)
            if len(self._kept) > _MOST_CARDS:
                self._kept.popitem(last=False)
        return found

    def _parsed(self, text: bytes, place: str) -> tuple[pb.AgentCard, Mapping[str, Any]]:
        if len(text) > self.limits.card_bytes:
            raise CardInvalidError(f"The agent card at {place} is larger than {self.limits.card_bytes} bytes.")
        try:
            document = loads(text)
            if not isinstance(document, dict):
                raise CardInvalidError(f"The agent card at {place} is not a JSON object.")
            return read_document(document), document
        except A2AError as error:
            raise CardInvalidError(f"The agent card at {place} is not well-formed. {error.message}") from None


def read_document(document: dict[str, Any]) -> pb.AgentCard:
    """Read the JSON of a card in the form of 1.0, 0.3 or 0.2. Raises `A2AError` with what is wrong."""
    return read_card(document) if is_old(document) else V1.decode(_with_plain_schemes(document), pb.AgentCard)


def _with_plain_schemes(document: dict[str, Any]) -> dict[str, Any]:
    """Read security schemes also as servers of the JavaScript SDK write them, up to 1.3.0 at least."""
    schemes = document.get("securitySchemes")
    if not isinstance(schemes, dict):
        return document
    plain = {name: _plain(scheme, "scheme") for name, scheme in schemes.items()}
    for scheme in plain.values():
        if isinstance(scheme, dict) and isinstance(oauth := scheme.get("oauth2SecurityScheme"), dict):
            scheme["oauth2SecurityScheme"] = {**oauth, "flows": _plain(oauth.get("flows"), "flow")}
    return {**document, "securitySchemes": plain}


def _plain(value: Any, member: str) -> Any:  # noqa: ANN401 - JSON
    """Return `{NAME: …}` for `{member: {"$case": NAME, "value": …}}`, and a copy of anything else."""
    if not isinstance(value, dict):
        return value
    held = value.get(member)
    if isinstance(held, dict) and isinstance(name := held.get("$case"), str):
        return {name: held.get("value")}
    return dict(value)


def local_path(reference: str) -> Path | None:
    """Return the path of a card file; an existing file comes before a host of the same name."""
    if reference.startswith("file:"):
        return Path(unquote(urlsplit(reference).path))
    path = Path(reference)
    is_path = "://" not in reference and (reference.startswith((".", "/", "~")) or _is_file(path))
    return path.expanduser() if is_path else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def card_url(reference: str) -> str:
    """Return the URL of a card. A host or an origin gets the usual path; any other path is the card's own."""
    text = reference.strip()
    if "://" not in text:
        host = urlsplit(f"//{text}").hostname or ""
        text = f"{'http' if is_loopback(host) else 'https'}://{text}"
    try:
        url = URL(text)
    except ValueError:
        raise CallError(f"{reference[:200]} is neither a host, nor a URL, nor a file.") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise CardNotFoundError(f"{reference[:200]} is neither a host, nor a URL of http or https, nor a file.")
    return str(url) if url.path not in {"", "/"} or url.query_string else str(url.origin()) + CARD_PATH
