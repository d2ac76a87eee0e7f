"""Resource names, which 0.3 has where 1.0 has ids (spec: LGRP-02).

task   = "tasks/" segment
config = task "/pushNotificationConfigs/" segment
parent = task [ "/pushNotificationConfigs" ]      ; as REST's path captures it
segment = one or more characters but "/"          ; as they are, nothing is percent-encoded
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from a2a_server.compat.faults import Faults
from a2a_server.errors import Violation

_TASK: Final = re.compile(r"tasks/([^/]+)", re.DOTALL).fullmatch
_CONFIG: Final = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/([^/]+)", re.DOTALL).fullmatch
# Released 0.3.0 misspells the path of creation, and with it what is captured from there (LRES-07).
_PARENT: Final = re.compile(r"(?:tasks/([^/]+)|tasks?/([^/]+)/pushNotificationConfigs)", re.DOTALL).fullmatch
# Who names a config that has no id yet writes none, and the official Python client writes Python's None.
_UNBORN: Final = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/(?:None)?", re.DOTALL).fullmatch


class ConfigName(NamedTuple):
    task_id: str
    config_id: str


def task_name(task_id: str) -> str:
    return f"tasks/{task_id}"


def config_name(task_id: str, config_id: str) -> str:
    return f"tasks/{task_id}/pushNotificationConfigs/{config_id}"


def task_of(name: str, field: str, faults: Faults) -> str:
    if (match := _TASK(name)) is None:
        _malformed(name, field, "tasks/{id}", faults)
        return ""
    return match[1]


def parent_of(name: str, field: str, faults: Faults) -> str:
    if (match := _PARENT(name)) is None:
        _malformed(name, field, "tasks/{id}", faults)
        return ""
    return match[1] or match[2]


def config_of(name: str, field: str, faults: Faults) -> ConfigName:
    if (match := _CONFIG(name)) is None:
        _malformed(name, field, "tasks/{id}/pushNotificationConfigs/{config id}", faults)
        return ConfigName("", "")
    return ConfigName(match[1], match[2])


def unborn_config_of(name: str, field: str, faults: Faults) -> ConfigName:
    """Read the name of a config whose id may yet have to be given: then it is ""."""
    if match := _UNBORN(name):
        return ConfigName(match[1], "")
    return config_of(name, field, faults)


def _malformed(name: str, field: str, form: str, faults: Faults) -> None:
    faults.append(Violation(field, f"must look like {form}, got {name[:80]!r}"))
