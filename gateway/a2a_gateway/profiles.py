"""Ways of speaking: how one version spells messages, errors and headers, a record each (CONF-01 to -05, -16, -19)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from a2a_gateway.errors import Failure, explain
from a2a_gateway.requests import headers
from a2a_gateway.requests.headers import answer_type, error_type
from a2a_server.protocol.codec import Codec
from a2a_server.protocol.errors import A2AError, ErrorCodes, StatusError, major_minor, version_not_supported
from a2a_server.protocol.json_v1 import V1 as V1_JSON
from a2a_server.protocol.names import CHALLENGE, CURRENT, EXTENSIONS_HEADER
from a2a_server.protocol.v0_3.words import Words, retold


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """One way of speaking. A version has several when its JSON has several spellings."""

    spoken: str
    """The version, in the word for it that upstreams are told."""
    codec: Codec
    """Reads requests, writes answers and the items of streams."""
    last: Codec
    """Writes the item that ends a stream."""
    codes: ErrorCodes = "1.0.1"
    """Which column of the catalogue errors take their numbers from."""
    failure: type[Failure] = Failure
    """The shapes of errors."""
    unary: Callable[[str | None], str] = answer_type
    """The media type of an answer, by what the client accepts."""
    refusal: Callable[[str | None], str] = error_type
    """The media type of an error over REST; there always is one."""
    extensions: Sequence[str] = (EXTENSIONS_HEADER,)
    """The headers by which extensions are asked for, and told to be active; the first one where none is asked for."""
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What upstreams are told beside every request."""
    accepts: str = ""
    """The one version that `A2A-Version` may name; empty where upstreams judge it."""
    signs: str = ""
    """By what a request is known to be of this version."""

    words: Words | None = None
    """Tells what upstreams say, in the words of 1.0, in those of this version."""

    def retell(self, error: Exception) -> Exception:
        """An upstream's error in the words of this version; what is found here is told in them anyway."""
        if self.words is None or not isinstance(error, A2AError | StatusError):
            return error
        return retold(error, self.words)

    def explain(self, error: Exception) -> Failure:
        failure = explain(error, self.codes, self.failure)
        if not (isinstance(error, StatusError) and (error.metadata or error.trailers)):
            return failure
        trailers = [pair for pair in error.trailers if pair[0] != CHALLENGE]  # told under its own name
        told = headers.outgoing(error.metadata, trailers, echo=())
        return replace(failure, headers=[*failure.headers, *told])

    def check(self, asked: Sequence[str]) -> None:
        """Refuse a request that says to be of another version than it looks (CONF-16, CONF-17)."""
        if asked and any(major_minor(value.strip()) not in {"", self.accepts} for value in asked):
            advice = f"leave it out, or say {self.accepts}."
            text = f'{self.signs} is A2A {self.accepts}, but A2A-Version says "{{requested}}"; {advice}'
            raise version_not_supported(text, asked, self.accepts)

    def echo(self, asked: Mapping[str, str]) -> Sequence[str]:
        """The headers that tell active extensions, for a request with these headers: as it has spelled them."""
        if len(self.extensions) == 1:
            return self.extensions
        return [name for name in self.extensions if name in asked] or self.extensions[:1]


V1: Final = Profile(spoken=CURRENT, codec=V1_JSON, last=V1_JSON)
