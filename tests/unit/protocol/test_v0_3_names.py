"""Resource names, sound and malformed."""

from collections.abc import Callable
from typing import Any

import pytest

from a2a_server.protocol.v0_3 import resource_names as names

TASK, CONFIG = names.task_of, names.config_of
PARENT, UNBORN = names.parent_of, names.unborn_config_of


@pytest.mark.parametrize(
    ("read", "name", "found"),
    [
        (TASK, "tasks/t", "t"),
        (TASK, "tasks/tasks", "tasks"),
        (TASK, "tasks/a:b c%\n", "a:b c%\n"),
        (TASK, "tasks/a%2Fb", "a/b"),
        (TASK, "tasks/a%2fb%252F", "a/b%2F"),
        (PARENT, "tasks/a%2Fb/pushNotificationConfigs", "a/b"),
        (CONFIG, "tasks/t/pushNotificationConfigs/c", ("t", "c")),
        (CONFIG, "tasks/t/pushNotificationConfigs/None", ("t", "None")),
        (CONFIG, "tasks/a%2Fb/pushNotificationConfigs/100%2525", ("a/b", "100%25")),
        (UNBORN, "tasks/a%2Fb/pushNotificationConfigs/", ("a/b", "")),
        (PARENT, "tasks/t", "t"),
        (PARENT, "tasks/t/pushNotificationConfigs", "t"),
        pytest.param(PARENT, "task/t/pushNotificationConfigs", "t", id="as-0.3.0-misspells-the-path"),
        (UNBORN, "tasks/t/pushNotificationConfigs/c", ("t", "c")),
        pytest.param(UNBORN, "tasks/t/pushNotificationConfigs/", ("t", ""), id="no-id-yet"),
        pytest.param(UNBORN, "tasks/t/pushNotificationConfigs/None", ("t", ""), id="no-id-yet-in-python"),
    ],
)
@pytest.mark.req("LGRP-02")
def test_sound(read: Callable[..., Any], name: str, found: object) -> None:
    assert read(name) == found


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (TASK, ""),
        (TASK, "t"),
        (TASK, "tasks/"),
        (TASK, "/tasks/t"),
        (TASK, "Tasks/t"),
        (TASK, "task/t"),
        (TASK, "tasks/t/"),
        (TASK, "tasks/t/u"),
        (TASK, "tasks/t/pushNotificationConfigs/c"),
        (CONFIG, "tasks/t"),
        (CONFIG, "tasks/t/pushNotificationConfigs"),
        (CONFIG, "tasks/t/pushNotificationConfigs/"),
        (CONFIG, "tasks/t/pushNotificationConfigs/c/d"),
        (CONFIG, "tasks//pushNotificationConfigs/c"),
        (CONFIG, "tasks/t/pushnotificationconfigs/c"),
        (PARENT, "task/t"),
        (PARENT, "tasks/t/pushNotificationConfigs/"),
        (PARENT, "tasks//pushNotificationConfigs"),
        (UNBORN, "tasks/t"),
        (UNBORN, "tasks//pushNotificationConfigs/"),
    ],
)
@pytest.mark.req("LGRP-02")
def test_malformed(read: Callable[..., Any], name: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        read(name)


@pytest.mark.req("LGRP-02")
def test_written() -> None:
    assert names.config_name("t", "c") == "tasks/t/pushNotificationConfigs/c"
    assert names.config_name("a/b", "100%25%") == "tasks/a%2Fb/pushNotificationConfigs/100%2525%"
