"""Resource names, which 0.3 has where 1.0 has ids (spec: LGRP-02).

task   = "tasks/" segment
config = task "/pushNotificationConfigs/" segment
parent = task [ "/pushNotificationConfigs" ]      ; as REST's path captures it
segment = one or more characters but "/"          ; an id, whose own slashes stand there as %2F

Ids with a slash are made by other versions only, to whom ids are no parts of names. An id's own `%2F` and `%25` have
`%25` in place of their `%`, to be told from these; nothing else is encoded.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from a2a_server.protocol.errors import Violation
from a2a_server.protocol.v0_3.faults import Faults

_TASK: Final = re.compile(r"tasks/([^/]+)", re.DOTALL).fullmatch
_CONFIG: Final = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/([^/]+)", re.DOTALL).fullmatch
# Released 0.3.0 misspells the path of creation, and with it what is captured from there (LRES-07).
_PARENT: Final = re.compile(r"(?:tasks/([^/]+)|tasks?/([^/]+)/pushNotificationConfigs)", re.DOTALL).fullmatch
# Who names a config that has no id yet writes none, and the official Python client writes Python's None.
_UNBORN: Final = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/(?:None)?", re.DOTALL).fullmatch

_TO_ENCODE: Final = re.compile(r"/|%(?=2[Ff]|25)").sub
_ENCODED: Final = re.compile(r"%2[Ff]|%25").sub


class ConfigName(NamedTuple):
    task_id: str
    config_id: str


def task_name(task_id: str) -> str:
    return f"tasks/{_segment(task_id)}"


def config_name(task_id: str, config_id: str) -> str:
    return f"tasks/{_segment(task_id)}/pushNotificationConfigs/{_segment(config_id)}"


def task_of(name: str, field: str, faults: Faults) -> str:
    if (match := _TASK(name)) is None:
        _malformed(name, field, "tasks/{id}", faults)
        return ""
    return _id(match[1])


def parent_of(name: str, field: str, faults: Faults) -> str:
    if (match := _PARENT(name)) is None:
        _malformed(name, field, "tasks/{id}", faults)
        return ""
    return _id(match[1] or match[2])


def config_of(name: str, field: str, faults: Faults) -> ConfigName:
    if (match := _CONFIG(name)) is None:
        _malformed(name, field, "tasks/{id}/pushNotificationConfigs/{config id}", faults)
        return ConfigName("", "")
    return ConfigName(_id(match[1]), _id(match[2]))


def unborn_config_of(name: str, field: str, faults: Faults) -> ConfigName:
    """Read the name of a config whose id may yet have to be given: then it is ""."""
    if match := _UNBORN(name):
        return ConfigName(_id(match[1]), "")
    return config_of(name, field, faults)


def check_new_id(config_id: str, field: str, faults: Faults) -> None:
    """Complain of an id of which no name can be made."""
    if "/" in config_id:
        faults.append(Violation(field, f"must not hold a slash, since a name is made of it, got {config_id[:80]!r}"))


def _segment(identifier: str) -> str:
    if "/" not in identifier and "%" not in identifier:
        return identifier
    return _TO_ENCODE(lambda found: "%2F" if found[0] == "/" else "%25", identifier)


def _id(segment: str) -> str:
    return _ENCODED(lambda found: "%" if found[0] == "%25" else "/", segment) if "%" in segment else segment


def _malformed(name: str, field: str, form: str, faults: Faults) -> None:
    faults.append(Violation(field, f"must look like {form}, got {name[:80]!r}"))
