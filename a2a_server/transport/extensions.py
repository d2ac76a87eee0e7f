"""Which extensions are active in a call (spec: EXTN-02 to EXTN-05, SPAR-03, CONF-20)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse
from a2a_server.protocol.names import EXTENSIONS

LONGEST = 8 * 1024


@dataclass(frozen=True, slots=True)
class Extensions:
    """What the agent's card declares."""

    declared: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()

    @classmethod
    def of(cls, extensions: Iterable[pb.AgentExtension]) -> Extensions:
        listed = list(extensions)
        required = tuple(extension.uri for extension in listed if extension.required)
        return cls(frozenset(extension.uri for extension in listed), required)

    def activated(self, values: tuple[str, ...], *, enforce: bool) -> tuple[str, ...]:
        """Return what is both asked for and declared, as asked; a URI matches exactly or not at all (EXTN-05)."""
        asked = requested(values) if values else ()
        if enforce and (missing := [uri for uri in self.required if uri not in asked]):
            raise A2AError(
                Reason.EXTENSION_SUPPORT_REQUIRED,
                f"The agent requires extensions that the request does not list: {', '.join(missing)}.",
                metadata={"extension": ",".join(missing)},
            )
        return tuple(uri for uri in asked if uri in self.declared)


@lru_cache(maxsize=64)
def requested(values: tuple[str, ...]) -> tuple[str, ...]:
    """Split `uri *( "," uri )`, repeated lines joined, spaces trimmed, repetitions dropped."""
    if sum(map(len, values)) > LONGEST:
        refuse([Violation(EXTENSIONS, f"must have at most {LONGEST} characters in all")])
    uris = (uri.strip() for value in values for uri in value.split(","))
    return tuple(dict.fromkeys(uri for uri in uris if uri))
