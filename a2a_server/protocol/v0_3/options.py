"""What operators may choose about how 0.3 is spoken (spec: CONF-08, CONF-34, CONF-66, CONF-69)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    raw_files: bool = False
    """Write the bytes of files as they are, for JavaScript's clients; the others expect base64 text (CONF-66)."""
    wait_unasked: bool = False
    """Whether a send without any configuration waits; to the letter it does not: protobuf's default is false."""
    webhook_schemes: frozenset[str] | None = None
    """Authorization schemes that can be served at webhooks, in lower case; None: all (CONF-34)."""
    grpc_tls: bool = True
    """What to put in front of a bare `host:port`: 0.3 writes gRPC's address as a URL (CONF-69)."""
    grpc_urls: bool = True
    """Whether to put anything there at all: the SDKs' clients hand the address to gRPC as it is, which takes no URL."""


DEFAULT = Options()
