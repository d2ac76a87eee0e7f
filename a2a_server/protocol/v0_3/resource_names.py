"""Resource names, which the 0.3 proto and the draft have in place of ids (spec: LGRP-02, LRES-06, DRFT-06).

task    = "tasks/" segment
parent  = task [ "/pushNotificationConfigs" ]      ; as the proto's own path template captures it
config  = task "/pushNotificationConfigs/" segment
segment = one or more characters but "/"           ; an id, whose own slashes stand there as %2F

Ids with a slash are made by other versions only, to whom ids are no parts of names. An id's own `%2F` and `%25` have
`%25` in place of their `%`, to be told from these; nothing else is encoded.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TASK: Final = re.compile(r"tasks/([^/]+)", re.DOTALL).fullmatch
# Released 0.3.0 misspells the path of creation, and with it what is captured from there (LRES-07).
_PARENT: Final = re.compile(r"(?:tasks/([^/]+)|tasks?/([^/]+)/pushNotificationConfigs)", re.DOTALL).fullmatch
_CONFIG: Final = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/([^/]+)", re.DOTALL).fullmatch
# Who names a config that has no id yet writes none, and the official Python client writes Python's None.
_NEW_CONFIG: Final = re.compile(r"tasks/([^/]+)/pushNotificationConfigs/(?:None)?", re.DOTALL).fullmatch

_TO_ENCODE: Final = re.compile(r"/|%(?=2[Ff]|25)").sub
_ENCODED: Final = re.compile(r"%2[Ff]|%25").sub

A_TASK: Final = 'a name such as "tasks/{id}"'
A_CONFIG: Final = 'a name such as "tasks/{id}/pushNotificationConfigs/{config id}"'
A_SEGMENT: Final = 'an id without "/", since a name is made of it'


class ConfigName(NamedTuple):
    task_id: str = ""
    config_id: str = ""


def task_name(task_id: str) -> str:
    return f"tasks/{_segment(task_id)}"


def collection_name(task_id: str) -> str:
    """Return the name of all push configs of a task, for which 0.3's path of creation has a place."""
    return f"{task_name(task_id)}/pushNotificationConfigs"


def config_name(task_id: str, config_id: str) -> str:
    return f"{collection_name(task_id)}/{_segment(config_id)}"


# What takes names apart raises ValueError at those that are none.


def task_of(name: str) -> str:
    return _only(_TASK(name))


def parent_of(name: str) -> str:
    return _only(_PARENT(name))


def config_of(name: str) -> ConfigName:
    if match := _CONFIG(name):
        return ConfigName(_id(match[1]), _id(match[2]))
    raise ValueError


def new_config_of(name: str) -> ConfigName:
    """The same of a config that may have yet to be given an id: then it is empty."""
    if match := _NEW_CONFIG(name):
        return ConfigName(_id(match[1]))
    return config_of(name)


def _only(match: re.Match[str] | None) -> str:
    if match is None:
        raise ValueError
    return _id(next(filter(None, match.groups())))


def _segment(identifier: str) -> str:
    if "/" not in identifier and "%" not in identifier:
        return identifier
    return _TO_ENCODE(lambda found: "%2F" if found[0] == "/" else "%25", identifier)


def _id(segment: str) -> str:
    return _ENCODED(lambda found: "%" if found[0] == "%25" else "/", segment) if "%" in segment else segment


def segment(value: object) -> str:
    """Read an id of which a name is to be made."""
    text = text_of(value)
    if "/" in text:
        raise ValueError
    return text


def text_of(value: object) -> str:
    if type(value) is not str:
        raise TypeError
    value.encode()  # protobuf takes no lone surrogates
    return value
