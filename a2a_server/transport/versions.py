"""Which protocol version a call speaks (spec: VERS-01 to VERS-05, VERS-08, VERS-09, CONF-16, CONF-17)."""

from __future__ import annotations

from functools import lru_cache

from a2a_server.errors import A2AError, Reason

NAME = "a2a-version"
SUPPORTED = ("1.0",)
LEGACY = "0.3"
"""What an absent version means to the letter of the specification."""


@lru_cache(maxsize=64)  # errors are not kept, so only good spellings take room
def negotiate(values: tuple[str, ...], strict: bool) -> str:  # noqa: FBT001 - by keyword the cache is twice as slow
    """Return the Major.Minor that the metadata asks for.

    Without one an unmistakable 1.0 request counts as 1.0, because people use grpcurl; `strict` turns that off.
    """
    absent = LEGACY if strict else SUPPORTED[0]
    asked = {_major_minor(value.strip()) or absent for value in values} or {absent}
    if len(asked) == 1 and not asked.isdisjoint(SUPPORTED):
        return asked.pop()
    requested = ",".join(dict.fromkeys(values))[:100] or absent
    raise A2AError(
        Reason.VERSION_NOT_SUPPORTED,
        f'This interface speaks A2A {", ".join(SUPPORTED)}; the request asks for "{requested}".',
        metadata={"requestedVersion": requested, "supportedVersions": ",".join(SUPPORTED)},
    )


def _major_minor(value: str) -> str:
    """Drop the patch of `Major "." Minor [ "." Patch ]`; anything else stays as it is and is supported by nobody."""
    parts = value.split(".")
    well_formed = 2 <= len(parts) <= 3 and all(part.isascii() and part.isdigit() for part in parts)  # noqa: PLR2004
    return ".".join(parts[:2]) if well_formed else value
