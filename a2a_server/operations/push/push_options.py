"""What operators choose about webhooks, and the form of webhooks per protocol version (spec: PAID-03, CONF-36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.message import Message

from a2a_server.ports.push import PushSender, Sealer


class WebhookForm(NamedTuple):
    """How webhooks look to the clients of one version."""

    content_type: str
    encode: Callable[[Message], bytes]
    last: Callable[[Message], bytes] | None = None
    """Encodes the event that closes a stream, if the version marks it as the last."""
    whole: bool = False
    """Whether the body is the task after the event, instead of the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How attempts are spaced and bounded. Times are in seconds."""

    timeout: float = 15.0
    """The limit of one attempt."""
    retry_first: float = 1.0
    """The longest wait before the second attempt. It doubles with each further attempt."""
    retry_most: float = 3600.0
    """The longest wait of all, also when a receiver asks for more."""
    give_up_after: int = 20
    """Failed attempts at one delivery after which its config is parked."""
    give_up_age: float = 86_400.0
    """How long attempts may fail before the config is parked."""
    concurrency: int = 64
    """Attempts running at once."""
    per_host: int = 8
    """Attempts running at once for one host."""
    configs_per_host: int = 10_000
    """Configs of one owner for one host that have something to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    """Everything the server needs to deliver webhooks. Without it there are no push notifications."""

    sender: PushSender
    sealer: Sealer = field(repr=False)
    forms: Mapping[str, WebhookForm]
    """By version. A version that is missing here gets the form of 1.0."""
    patience: Patience = Patience()
    challenge: bool = False
    """Whether a receiver must confirm that it wants webhooks before its config is stored (SSRF-05)."""
