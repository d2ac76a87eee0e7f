"""All schemes that a push config of 0.3 offers; 1.0's request has room for one (spec: LPSH-02, CONF-34)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from a2a_server.protocol.errors import Violation, refuse

MOST = 16

_FIELDS: Final = {
    "SendMessage": "configuration.task_push_notification_config.authentication.scheme",
    "SendStreamingMessage": "configuration.task_push_notification_config.authentication.scheme",
}
_FIELD: Final = "authentication.scheme"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}").fullmatch


def offered(rpc: str, values: Sequence[str]) -> Sequence[str]:
    """Split `scheme *( "," scheme )`; what is wrong is told about the member that the list came from."""
    listed = (scheme.strip() for value in values for scheme in value.split(","))
    schemes = tuple(dict.fromkeys(scheme for scheme in listed if scheme))
    if len(schemes) > MOST or not all(map(_TOKEN, schemes)):
        text = f"must be at most {MOST} names of HTTP authentication schemes, such as Bearer, of 64 characters"
        refuse([Violation(_FIELDS.get(rpc, _FIELD), text)])
    return schemes
