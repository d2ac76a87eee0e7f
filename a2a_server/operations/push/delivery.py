"""What delivering webhooks takes: a sender, a sealer, forms for each version, patience (spec: PAID-03, CONF-36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.message import Message

from a2a_server.ports.push import PushSender, Sealer
from a2a_server.protocol.names import CURRENT


class Form(NamedTuple):
    """How webhooks look to the clients of one version."""

    content_type: str
    encode: Callable[[Message], bytes]
    last: Callable[[Message], bytes] | None = None
    """Writes the event with which streams close, where a version says that it is the last."""
    whole: bool = False
    """Whether the body is the task as the event left it, and not the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How attempts are spaced and bounded. Times are seconds."""

    timeout: float = 15.0
    """What one attempt may take."""
    retry_first: float = 1.0
    """The longest wait before the second attempt; it doubles with each that follows."""
    retry_most: float = 3600.0
    """The longest wait of all, and the longest that a receiver may ask for."""
    give_up_after: int = 20
    """Attempts at one webhook, after which its config is parked."""
    give_up_age: float = 86_400.0
    """For how long attempts may fail before the config is parked."""
    concurrency: int = 64
    """Attempts under way at once."""
    per_host: int = 8
    """Of these at one host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    """Made by whoever puts the server together; without one nothing is owed to anybody."""

    sender: PushSender
    sealer: Sealer = field(repr=False)
    forms: Mapping[str, Form]
    """By version; of those that are missing here, that of 1.0."""
    patience: Patience = Patience()
    challenge: bool = False
    """Whether receivers must show that they want webhooks before a config is kept (SSRF-05)."""

    def form_of(self, version: str) -> Form:
        return self.forms.get(version) or self.forms[CURRENT]
