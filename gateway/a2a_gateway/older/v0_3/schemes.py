"""All schemes that a push config offers; the request of 1.0 has room for one (spec: LPSH-02, CONF-34)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from a2a_gateway.calls import NOTHING, Beside
from a2a_server.protocol.errors import Violation, refuse
from a2a_server.protocol.names import SCHEMES

_SPELLINGS: Final = "pushNotificationConfig", "push_notification_config", "pushNotification", "push_notification"
_CONFIG: Final = frozenset(_SPELLINGS)
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]*").fullmatch


def of_send(value: Any) -> Beside:  # noqa: ANN401 - JSON
    """What the config inside of a send offers; whether the JSON is sound has been looked at."""
    configuration = value.get("configuration")
    return _of(configuration, "configuration.") if configuration else NOTHING


def of_config(value: Any) -> Beside:  # noqa: ANN401 - JSON
    """What a config by itself offers."""
    return _of(value, "")


def _of(holder: Mapping[str, Any], prefix: str) -> Beside:
    if _CONFIG.isdisjoint(holder):
        return NOTHING
    name = next((name for name in _SPELLINGS if holder.get(name)), "")
    listed: Sequence[str] = ((holder.get(name) or {}).get("authentication") or {}).get("schemes") or ()
    if len(listed) < 2:  # noqa: PLR2004 - one is in the request
        return NOTHING
    for index, scheme in enumerate(listed):
        if not _TOKEN(scheme):  # a comma would make two of one
            field = f"{prefix}{name}.authentication.schemes[{index}]"
            refuse([Violation(field, "must be the name of an HTTP authentication scheme, such as Bearer")])
    return {SCHEMES: (",".join(listed),)}
