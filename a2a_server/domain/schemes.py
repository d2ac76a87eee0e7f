"""Which scheme a webhook is authorized with: the first on offer that fixed credentials suffice for (spec: CONF-34).

Such a header, `Authorization: <scheme> <credentials>`, can be sent with any scheme of the receiver's own (HOOK-03).
What follows a challenge, or is computed anew for every request, cannot be served with what a config holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import Violation, refuse

NOT_SERVED: Final = frozenset(
    {
        "digest",
        "dpop",
        "gnap",
        "hoba",
        "mutual",
        "negotiate",
        "ntlm",
        "oauth",
        "scram-sha-1",
        "scram-sha-256",
        "signature",
        "vapid",
    }
)
"""In lower case: names of schemes compare without it."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
_MOST_NAMED: Final = 5


def is_served(scheme: str) -> bool:
    return bool(_TOKEN(scheme)) and scheme.lower() not in NOT_SERVED


def choose_scheme(config: pb.TaskPushNotificationConfig, offered: Sequence[str], prefix: str = "") -> None:
    """Put the chosen scheme into a checked config; `offered` is the client's list, where its version has one."""
    if not config.HasField("authentication"):
        return
    authentication = config.authentication
    chosen = next((scheme for scheme in offered or (authentication.scheme,) if is_served(scheme)), "")
    if not chosen:
        refuse([_none_served(offered, authentication.scheme, prefix)])
    authentication.scheme = chosen


def _none_served(offered: Sequence[str], scheme: str, prefix: str) -> Violation:
    needs = "webhooks are sent with fixed credentials, as Bearer or Basic take them"
    if not offered:
        return Violation(f"{prefix}authentication.scheme", f"{scheme[:80]!r} cannot be served: {needs}")
    named = ", ".join(repr(name[:80]) for name in offered[:_MOST_NAMED])
    return Violation(f"{prefix}authentication.schemes", f"none of {named} can be served: {needs}")
