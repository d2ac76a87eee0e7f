"""The settings of webhooks, and their form for each protocol version (spec: PAID-03, CONF-36)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from annotated_types import Ge, Le
from google.protobuf.message import Message

from a2a_server.ports.push import PushSender, Sealer
from a2a_server.protocol.options import Count, Seconds


class WebhookForm(NamedTuple):
    """The form of webhooks for clients of one version."""

    content_type: str
    encode: Callable[[Message], bytes]
    last: Callable[[Message], bytes] | None = None
    """Encodes the event that closes a stream, if the version marks it as the last."""
    whole: bool = False
    """Whether the body is the task after the event, instead of the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How attempts are spaced and bounded. Times are seconds."""

    timeout: Annotated[float, Ge(1), Le(300)] = 15.0
    """How long one attempt may take."""
    retry_first: Seconds = 1.0
    """The longest wait before the second attempt. It doubles with each attempt, and the actual wait is random."""
    retry_most: Seconds = 3600.0
    """The longest wait between attempts, also when a receiver asks for more with Retry-After."""
    give_up_after: Count = 20
    """After how many failed attempts at one webhook its config is parked; see `a2ad push list --parked`."""
    give_up_age: Seconds = 86_400.0
    """For how long attempts may fail before the config is parked."""
    concurrency: Count = 64
    """How many attempts may run at once. Owners share them."""
    per_host: Count = 8
    """How many attempts may run at once at one host. Owners share them."""
    configs_per_host: Count = 10_000
    """How many push configs of one owner may lead to one host. Parked ones do not count, nor do those of finished tasks
    whose webhooks have been delivered."""
    configs_per_owner: Count = 20_000
    """How many push configs of one owner may lead anywhere, counted in the same way."""
    hosts_per_owner: Count = 1_000
    """To how many hosts they may lead."""


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
