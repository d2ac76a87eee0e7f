"""What the draft calls the members of 1.0 about which an upstream may complain (spec: ERRS-05, DRFT-02)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from a2a_gateway.older.v0_3.respelling import Rule, Rules, config

_PART: Final = r"message\.parts\[\d+\]"
_PUSH: Final = r"configuration\.taskPushNotificationConfig"
_FILE: Final = {"raw": "fileWithBytes", "url": "fileWithUri", "mediaType": "mediaType", "filename": "name"}

_SEND: Final[Rules] = (
    *(Rule(re.compile(rf"({_PART})\.{old}\b"), rf"\1.file.{new}") for old, new in _FILE.items()),
    Rule(re.compile(rf"({_PART})\.data\b"), r"\1.data.data"),
    Rule(re.compile(r"configuration\.returnImmediately\b"), "configuration.blocking"),
    Rule(
        re.compile(rf"{_PUSH}\.authentication\.scheme\b"), "configuration.pushNotificationConfig.authentication.schemes"
    ),
    Rule(re.compile(rf"{_PUSH}\b"), "configuration.pushNotificationConfig"),
)
CONFIG: Final = config("", taskId="name")
INNER_CONFIG: Final = config("config.", taskId="parent")
"""Where a config stands in a member of the request."""

RULES: Final[Mapping[str, Rules]] = MappingProxyType(
    {
        "SendMessage": _SEND,
        "SendStreamingMessage": _SEND,
        "ListTasks": (Rule(re.compile(r"statusTimestampAfter\b"), "lastUpdatedAfter"),),
        "CreateTaskPushNotificationConfig": CONFIG,
    }
)
"""By the RPC of 1.0; what is not here is called the same."""
