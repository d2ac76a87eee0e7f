"""Names of push configs, where the 0.3 proto has them in place of ids (spec: LGRP-02, LRES-06)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# Who names a config that has no id yet writes none, and the official Python client writes Python's None.
_UNBORN: Final = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/(?:None)?", re.DOTALL).fullmatch
_CONFIG: Final = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/([^/]+)", re.DOTALL).fullmatch

EXPECTED: Final = 'a name such as "tasks/{id}/pushNotificationConfigs/{config id}"'


class ConfigName(NamedTuple):
    task_id: str = ""
    config_id: str = ""


def config_name(task_id: str, config_id: str) -> str:
    return f"tasks/{task_id}/pushNotificationConfigs/{config_id}"


def config_of(name: str) -> ConfigName:
    """Take a name apart; the id is empty if it has yet to be given."""
    if match := _UNBORN(name):
        return ConfigName(match[1])
    if match := _CONFIG(name):
        return ConfigName(match[1], match[2])
    raise ValueError
