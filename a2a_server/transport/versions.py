"""Which protocol version a call speaks (spec: VERS-01 to VERS-05, VERS-08, VERS-09, CONF-16, CONF-17)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Final

from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import CURRENT, DRAFT, LEGACY

_WHERE: Final = {
    CURRENT: "A2A 1.0 is spoken by paths without /v1, by methods such as SendMessage, and by the package lf.a2a.v1.",
    LEGACY: "A2A 0.3 is spoken under /v1, by methods such as message/send, and by the package a2a.v1.",
}
"""That a version is served says nothing to a client that has it right and its path, method or package wrong."""

Negotiate = Callable[[tuple[str, ...]], str]
"""From the values in the metadata to the version of the call."""


def negotiators(*, strict: bool, legacy: bool) -> Mapping[str, Negotiate]:
    """One for each way of speaking.

    Who speaks 1.0 unmistakably need not name it, because people use grpcurl; `strict` turns that off. Who speaks
    0.3 never needs to: its clients know nothing of versions in metadata.
    """
    absent = {CURRENT: LEGACY if strict else CURRENT, LEGACY: LEGACY, DRAFT: LEGACY}
    if not legacy:
        del absent[LEGACY]
    served = _served(absent)
    # Errors are not kept, so that only good spellings take room.
    return {spoken: lru_cache(maxsize=64)(partial(_negotiate, spoken, absent[spoken], served)) for spoken in absent}


def _negotiate(spoken: str, absent: str, served: str, values: tuple[str, ...]) -> str:
    own = LEGACY if spoken == DRAFT else spoken
    asked = {_major_minor(value.strip()) or absent for value in values or (absent,)}
    if asked == {own}:
        return spoken
    requested = ",".join(dict.fromkeys(values))[:100]
    says = f'asks for "{requested}"' if requested else f"names no version, which counts as {absent}"
    where = "".join(f" {_WHERE[version]}" for version in served.split(",") if asked == {version})
    text = f"This interface speaks A2A {own}; the request {says}.{where}"
    raise _not_supported(text, requested or absent, served)


def told(known: Mapping[str, Negotiate], values: tuple[str, ...]) -> str:
    """What a gateway says that its client spoke."""
    if len(values) == 1 and values[0] in known:
        return values[0]
    requested, served = ",".join(values)[:100], _served(known)
    text = f'This server speaks A2A {served.replace(",", ", ")}; a gateway says that its client speaks "{requested}".'
    raise _not_supported(text, requested, served)


def _served(spoken: Mapping[str, object]) -> str:
    return ",".join(version for version in spoken if version != DRAFT)


def _not_supported(text: str, requested: str, served: str) -> A2AError:
    metadata = {"requestedVersion": requested, "supportedVersions": served}
    return A2AError(Reason.VERSION_NOT_SUPPORTED, text, metadata=metadata)


def _major_minor(value: str) -> str:
    """Drop the patch of `Major "." Minor [ "." Patch ]`; anything else stays as it is and is supported by nobody."""
    parts = value.split(".")
    well_formed = 2 <= len(parts) <= 3 and all(part.isascii() and part.isdigit() for part in parts)  # noqa: PLR2004
    return ".".join(parts[:2]) if well_formed else value
