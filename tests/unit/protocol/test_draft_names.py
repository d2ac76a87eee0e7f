"""Names, ids and places of the draft's tasks and push configs: all that is said must be the same (DRFT-04, DRFT-06)."""

from typing import Any

import pytest

from a2a_proto import a2a_pb2 as pb
from tests.unit.protocol.spelling import DRAFT, faults, read, written

HOOK = {"id": "w", "url": "https://h.example", "token": "k", "authentication": {"schemes": ["Bearer"]}}
NAMED = {"name": "tasks/t/pushNotificationConfigs/w", "pushNotificationConfig": HOOK}
CONFIG = pb.TaskPushNotificationConfig(
    task_id="t", id="w", url="https://h.example", token="k", authentication={"scheme": "Bearer"}
)


@pytest.mark.req("DRFT-02", "DRFT-04")
def test_push_configs() -> None:
    assert written(DRAFT, CONFIG) == NAMED
    assert list(written(DRAFT, CONFIG)) == ["name", "pushNotificationConfig"]
    page = pb.ListTaskPushNotificationConfigsResponse(configs=[CONFIG], next_page_token="p")
    assert written(DRAFT, page) == {"configs": [NAMED], "nextPageToken": "p"}


@pytest.mark.req("DRFT-04", "DRFT-06")
@pytest.mark.parametrize(
    "told",
    [
        NAMED,
        {"taskId": "t", "pushNotificationConfig": HOOK},
        {"task_id": "t", "config_id": "w", "push_notification_config": HOOK},
        {"parent": "tasks/t", "configId": "w", "config": {"pushNotificationConfig": {**HOOK, "id": ""}}},
        {"parent": "tasks/t/pushNotificationConfigs", "configId": "w", "config": NAMED},
        {"taskId": "t", "config": {"name": "tasks/t/pushNotificationConfigs/", "pushNotificationConfig": HOOK}},
    ],
)
def test_a_config_may_be_made_in_many_words(told: Any) -> None:
    assert read(DRAFT, told, pb.TaskPushNotificationConfig) == CONFIG


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({**NAMED, "parent": "tasks/u"}, {"parent": 'says "u" where name says "t"'}),
        ({**NAMED, "configId": "v"}, {"configId": 'says "v" where pushNotificationConfig.id says "w"'}),
        (
            {"configId": "v", "config": {"name": NAMED["name"], "pushNotificationConfig": {"url": "u"}}},
            {"configId": 'says "v" where config.name says "w"'},
        ),
        (
            {"taskId": "u", "config": NAMED},
            {"config.name": 'says "t" where taskId says "u"'},
        ),
        ({**NAMED, "parent": "t"}, {"parent": 'must be a name such as "tasks/{id}", got "t"'}),
        ({**NAMED, "tenant": 1}, {"tenant": "must be a string, got 1"}),
        (
            {**NAMED, "id": "w"},
            {"id": 'is for "pushNotificationConfig" to hold; outside of it there is "configId"'},
        ),
        (
            {"id": "w", "config": NAMED},
            {"id": 'is for "pushNotificationConfig" to hold; outside of it there is "configId"'},
        ),
        ({"config": {**NAMED, "tenant": "n"}}, {"config.tenant": "is for the request to say"}),
        (
            {"name": NAMED["name"], "pushNotificationConfig": {**HOOK, "tenant": "n"}},
            {"pushNotificationConfig.tenant": "is for the request to say"},
        ),
        ({"config": []}, {"config": "must be an object, got a list"}),
        ([], {"": "must be an object, got a list"}),
        (
            {"config": {"pushNotificationConfig": {"url": 1}}},
            {"config.pushNotificationConfig.url": "must be a string, got 1"},
        ),
        (
            {"name": "w", "pushNotificationConfig": HOOK},
            {"name": 'must be a name such as "tasks/{id}/pushNotificationConfigs/{config id}", got "w"'},
        ),
    ],
)
def test_what_is_said_twice_must_be_the_same(told: Any, found: Any) -> None:
    assert faults(DRAFT, told, pb.TaskPushNotificationConfig) == found


ONE_TASK = [pb.GetTaskRequest, pb.CancelTaskRequest, pb.SubscribeToTaskRequest]
ONE_CONFIG = [pb.GetTaskPushNotificationConfigRequest, pb.DeleteTaskPushNotificationConfigRequest]


@pytest.mark.req("DRFT-06")
@pytest.mark.parametrize("kind", ONE_TASK)
def test_a_task_is_named_or_told_by_its_id(kind: Any) -> None:
    expected = kind(tenant="n", id="t")
    for told in ({"id": "t"}, {"name": "tasks/t"}, {"name": "tasks/t", "id": "t"}):
        assert read(DRAFT, {"tenant": "n", **told}, kind) == expected
    assert read(DRAFT, {"id": "t", "name": None}, kind) == kind(id="t")
    assert faults(DRAFT, {"name": "tasks/t", "id": "u"}, kind) == {"id": 'says "u" where name says "t"'}
    for wrong in ("t", "tasks/", "tasks/a/b", 7):
        assert faults(DRAFT, {"name": wrong}, kind).keys() == {"name"}
    assert faults(DRAFT, {"name": 1, "id": 2}, kind).keys() == {"name", "id"}
    assert faults(DRAFT, [], kind) == {"": "must be an object, got a list"}


@pytest.mark.req("DRFT-06")
@pytest.mark.parametrize("kind", ONE_CONFIG)
def test_a_config_is_named_or_told_by_its_ids(kind: Any) -> None:
    expected, name = kind(task_id="t", id="w"), "tasks/t/pushNotificationConfigs/w"
    for told in ({"taskId": "t", "id": "w"}, {"name": name}, {"name": name, "id": "w"}):
        assert read(DRAFT, told, kind) == expected
    assert faults(DRAFT, {"name": name, "taskId": "u", "id": "v"}, kind) == {
        "taskId": 'says "u" where name says "t"',
        "id": 'says "v" where name says "w"',
    }
    assert faults(DRAFT, {"name": "tasks/t"}, kind).keys() == {"name"}


@pytest.mark.req("DRFT-06")
@pytest.mark.parametrize("told", [{"parent": "tasks/t"}, {"name": "tasks/t"}, {"id": "t"}, {"taskId": "t"}])
def test_a_list_of_configs_is_of_a_task(told: Any) -> None:
    kind = pb.ListTaskPushNotificationConfigsRequest
    expected = kind(task_id="t", page_size=2, page_token="p")
    assert read(DRAFT, {**told, "pageSize": 2, "pageToken": "p"}, kind) == expected


def test_a_list_of_configs_is_of_one_task_only() -> None:
    kind = pb.ListTaskPushNotificationConfigsRequest
    assert faults(DRAFT, {"parent": "tasks/t", "name": "tasks/u", "taskId": "v"}, kind) == {
        "name": 'says "u" where parent says "t"',
        "taskId": 'says "v" where parent says "t"',
    }
