"""Push configs: where ids may stand, what must agree, and what of a list of schemes is left."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.v0_3 import push, push_requests, requests

Json = dict[str, Any]
NAME = "tasks/t/pushNotificationConfigs/c"
HOOK = {"url": "https://x.example"}


def create(request: Json) -> Json:
    legacy = ParseDict(request, v03.CreateTaskPushNotificationConfigRequest())
    return MessageToDict(push_requests.upgrade_create(legacy))


def fields(refused: pytest.ExceptionInfo[A2AError]) -> list[str]:
    assert refused.value.reason is Reason.INVALID_PARAMS
    return [fault.field for fault in refused.value.violations]


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(
            {"parent": "tasks/t", "configId": "c", "config": {"pushNotificationConfig": HOOK}}, id="config_id"
        ),
        pytest.param({"parent": "tasks/t", "config": {"name": NAME, "pushNotificationConfig": HOOK}}, id="name"),
        pytest.param(
            {"parent": "tasks/t", "config": {"pushNotificationConfig": HOOK | {"id": "c"}}}, id="the-config-itself"
        ),
        pytest.param(
            {
                "parent": "tasks/t/pushNotificationConfigs",
                "configId": "c",
                "config": {"name": NAME, "pushNotificationConfig": HOOK | {"id": "c"}},
            },
            id="everywhere",
        ),
    ],
)
@pytest.mark.req("LGRP-02")
def test_an_id_may_stand_in_three_places(request_: Json) -> None:
    assert create(request_) == {"id": "c", "taskId": "t", "url": "https://x.example"}


@pytest.mark.parametrize("name", ["", "tasks/t/pushNotificationConfigs/", "tasks/t/pushNotificationConfigs/None"])
def test_an_id_may_be_left_to_the_server(name: str) -> None:
    request = {"parent": "tasks/t", "config": {"name": name, "pushNotificationConfig": HOOK}}
    assert create(request) == {"taskId": "t", "url": "https://x.example"}


@pytest.mark.parametrize(
    ("request_", "wrong"),
    [
        pytest.param({}, ["parent"], id="nothing"),
        pytest.param({"parent": "t"}, ["parent"], id="no-name"),
        pytest.param({"parent": "tasks/u", "config": {"name": NAME}}, ["config.name"], id="two-tasks"),
        pytest.param({"parent": "tasks/t", "config": {"name": "c"}}, ["config.name"], id="no-config's-name"),
        pytest.param({"parent": "t", "config": {"name": "c"}}, ["parent", "config.name"], id="both-at-once"),
        pytest.param({"parent": "tasks/t", "configId": "d", "config": {"name": NAME}}, ["config_id"], id="two-ids"),
        pytest.param(
            {"parent": "tasks/t", "configId": "e", "config": {"name": NAME, "pushNotificationConfig": {"id": "d"}}},
            ["config.name", "config_id"],
            id="three-ids",
        ),
    ],
)
@pytest.mark.req("LGRP-02")
def test_contradictions_are_refused(request_: Json, wrong: list[str]) -> None:
    with pytest.raises(A2AError) as refused:
        create(request_)
    assert fields(refused) == wrong


@pytest.mark.parametrize(
    ("upgrade", "legacy", "field"),
    [
        (requests.upgrade_get, v03.GetTaskRequest(name="x"), "name"),
        (requests.upgrade_cancel, v03.CancelTaskRequest(name="tasks/"), "name"),
        (requests.upgrade_subscribe, v03.TaskSubscriptionRequest(), "name"),
        (push_requests.upgrade_get, v03.GetTaskPushNotificationConfigRequest(name="tasks/t"), "name"),
        (push_requests.upgrade_delete, v03.DeleteTaskPushNotificationConfigRequest(name="tasks/t"), "name"),
        (push_requests.upgrade_list, v03.ListTaskPushNotificationConfigRequest(parent=NAME), "parent"),
        (push.upgrade, v03.TaskPushNotificationConfig(name="tasks/t"), "name"),
        (
            push.upgrade_list,
            v03.ListTaskPushNotificationConfigResponse(configs=[v03.TaskPushNotificationConfig(name="t")]),
            "configs[0].name",
        ),
    ],
)
@pytest.mark.req("LGRP-02")
def test_malformed_names_are_refused_everywhere(upgrade: Any, legacy: Any, field: str) -> None:
    with pytest.raises(A2AError) as refused:
        upgrade(legacy)
    assert fields(refused) == [field]


@pytest.mark.req("LGRP-04")
def test_no_history_length_in_0_3_is_none_in_1_0() -> None:
    assert not requests.upgrade_get(v03.GetTaskRequest(name="tasks/t")).HasField("history_length")
    assert requests.upgrade_get(v03.GetTaskRequest(name="tasks/t", history_length=3)).history_length == 3


def test_0_3_nests_what_1_0_has_flat() -> None:
    config = pb.TaskPushNotificationConfig(task_id="t", id="c", url="https://x.example", token="s")
    legacy = push.downgrade(config)
    assert MessageToDict(legacy) == {
        "name": NAME,
        "pushNotificationConfig": {"id": "c", "url": "https://x.example", "token": "s"},
    }
    assert push.upgrade(legacy) == config


@pytest.mark.parametrize(
    ("downgrade", "request_", "legacy"),
    [
        (
            requests.downgrade_get,
            pb.GetTaskRequest(id="t", history_length=2),
            v03.GetTaskRequest(name="tasks/t", history_length=2),
        ),
        (requests.downgrade_cancel, pb.CancelTaskRequest(id="t"), v03.CancelTaskRequest(name="tasks/t")),
        (requests.downgrade_subscribe, pb.SubscribeToTaskRequest(id="t"), v03.TaskSubscriptionRequest(name="tasks/t")),
        (requests.downgrade_card, pb.GetExtendedAgentCardRequest(tenant="x"), v03.GetAgentCardRequest()),
        (
            push_requests.downgrade_get,
            pb.GetTaskPushNotificationConfigRequest(task_id="t", id="c"),
            v03.GetTaskPushNotificationConfigRequest(name=NAME),
        ),
        (
            push_requests.downgrade_delete,
            pb.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c"),
            v03.DeleteTaskPushNotificationConfigRequest(name=NAME),
        ),
        (
            push_requests.downgrade_list,
            pb.ListTaskPushNotificationConfigsRequest(task_id="t", page_size=2, page_token="p"),
            v03.ListTaskPushNotificationConfigRequest(parent="tasks/t", page_size=2, page_token="p"),
        ),
    ],
)
@pytest.mark.req("LGRP-02")
def test_requests_to_a_0_3_server(downgrade: Any, request_: Any, legacy: Any) -> None:
    assert downgrade(request_) == legacy


def test_a_config_without_an_id_of_its_own_has_that_of_its_name() -> None:
    assert push.upgrade(v03.TaskPushNotificationConfig(name=NAME)).id == "c"


def test_an_id_that_looks_like_none_is_one_if_the_config_has_it() -> None:
    config = pb.TaskPushNotificationConfig(task_id="t", id="None")
    assert push.upgrade(push.downgrade(config)) == config


def test_pages() -> None:
    page = pb.ListTaskPushNotificationConfigsResponse(
        configs=[pb.TaskPushNotificationConfig(task_id="t", id="c")], next_page_token="p"
    )
    legacy = push.downgrade_list(page)
    assert [config.name for config in legacy.configs] == [NAME]
    assert push.upgrade_list(legacy) == page


def authentication(schemes: list[str], kept: tuple[str, ...] = ()) -> list[str]:
    config = pb.TaskPushNotificationConfig(task_id="t", id="c")
    config.authentication.scheme = schemes[0] if schemes else ""
    return list(push.downgrade(config, schemes=kept).push_notification_config.authentication.schemes)


def test_the_list_of_schemes_comes_back_if_it_was_kept() -> None:
    assert authentication(["Basic"]) == ["Basic"]
    assert authentication([]) == []
    assert authentication(["Basic"], ("Bearer", "Basic")) == ["Bearer", "Basic"]


def test_a_list_that_was_kept_from_before_does_not_replace_a_newer_scheme() -> None:
    assert authentication(["Digest"], ("Bearer", "Basic")) == ["Digest"]


def test_credentials_without_a_scheme_are_for_the_core_to_refuse() -> None:
    legacy = v03.TaskPushNotificationConfig(name=NAME)
    legacy.push_notification_config.authentication.credentials = "s"
    assert push.upgrade(legacy).HasField("authentication")
