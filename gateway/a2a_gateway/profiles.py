"""Profiles: how a version writes messages, errors and headers (spec: CONF-01 to -05, -16, -19)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from a2a_gateway.errors import Failure, explain
from a2a_gateway.requests import headers
from a2a_gateway.requests.media_types import answer_type, error_type
from a2a_server.protocol.codec import Codec
from a2a_server.protocol.errors import A2AError, ErrorCodes, StatusError, major_minor, version_not_supported
from a2a_server.protocol.json_v1 import V1 as V1_JSON
from a2a_server.protocol.names import CHALLENGE, CURRENT, EXTENSIONS_HEADER
from a2a_server.protocol.v0_3.error_words import Words, translate_error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """How a version writes messages, errors and headers. A version with several spellings has several profiles."""

    spoken: str
    """The version, as the upstream gets it."""
    codec: Codec
    """Reads requests, writes answers and the items of streams."""
    last: Codec
    """Writes the item that ends a stream."""
    codes: ErrorCodes = "1.0.1"
    """Which column of the error catalogue has the codes of this version."""
    failure: type[Failure] = Failure
    """Writes errors."""
    unary: Callable[[str | None], str] = answer_type
    """Returns the media type of an answer, by the value of Accept."""
    refusal: Callable[[str | None], str] = error_type
    """Returns the media type of an error over REST, by the value of Accept. It never fails."""
    extensions: Sequence[str] = (EXTENSIONS_HEADER,)
    """The headers for extensions, in requests and answers. An answer uses the first one if the request uses none."""
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Metadata that is added to every call."""
    accepts: str = ""
    """The only version that `A2A-Version` may have; empty if the upstream checks it."""
    recognised_by: str = ""
    """The part of a request that shows its version, for error messages."""

    error_words: Words | None = None
    """Translates the words of an upstream's error messages to this version."""

    def translate_error(self, error: Exception) -> Exception:
        """Translate an upstream's error to the words of this version."""
        if self.error_words is None or not isinstance(error, A2AError | StatusError):
            return error
        return translate_error(error, self.error_words)

    def explain(self, error: Exception) -> Failure:
        failure = explain(error, self.codes, self.failure)
        if isinstance(error, A2AError) and error.told:
            return replace(failure, headers=[*failure.headers, *error.told])
        if not (isinstance(error, StatusError) and (error.metadata or error.trailers)):
            return failure
        trailers = [pair for pair in error.trailers if pair[0] != CHALLENGE]  # `failure_of` has read it
        told = headers.outgoing(error.metadata, trailers, echo=())
        return replace(failure, headers=[*failure.headers, *told])

    def check(self, asked: Sequence[str]) -> None:
        """Refuse a request whose `A2A-Version` is not the version that its path or method shows (CONF-16, CONF-17)."""
        if asked and any(major_minor(value.strip()) not in {"", self.accepts} for value in asked):
            advice = f"leave it out, or send {self.accepts}."
            text = f'{self.recognised_by} is A2A {self.accepts}, but A2A-Version says "{{requested}}"; {advice}'
            raise version_not_supported(text, asked, self.accepts)

    def echo(self, asked: Mapping[str, str]) -> Sequence[str]:
        """Return the headers that list active extensions in the answer: the ones that the request uses."""
        if len(self.extensions) == 1:
            return self.extensions
        return [name for name in self.extensions if name in asked] or self.extensions[:1]


V1: Final = Profile(spoken=CURRENT, codec=V1_JSON, last=V1_JSON)
