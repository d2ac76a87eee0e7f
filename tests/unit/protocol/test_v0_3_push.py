"""Push configs: where ids may stand, what must agree, and what of a list of schemes is left."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.v0_3 import calls, configs
from a2a_server.protocol.v0_3.messages import DEFAULT

Json = dict[str, Any]
NAME = "tasks/t/pushNotificationConfigs/c"
HOOK = {"url": "https://x.example"}


def create(request: Json) -> Json:
    legacy = ParseDict(request, v03.CreateTaskPushNotificationConfigRequest())
    return MessageToDict(calls.upgrade_create_config(legacy))


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
    ("rpc", "legacy", "field"),
    [
        ("GetTask", v03.GetTaskRequest(name="x"), "name"),
        ("CancelTask", v03.CancelTaskRequest(name="tasks/"), "name"),
        ("TaskSubscription", v03.TaskSubscriptionRequest(), "name"),
        ("GetTaskPushNotificationConfig", v03.GetTaskPushNotificationConfigRequest(name="tasks/t"), "name"),
        ("DeleteTaskPushNotificationConfig", v03.DeleteTaskPushNotificationConfigRequest(name="tasks/t"), "name"),
        ("ListTaskPushNotificationConfig", v03.ListTaskPushNotificationConfigRequest(parent=NAME), "parent"),
    ],
)
@pytest.mark.req("LGRP-02")
def test_malformed_names_are_refused_everywhere(rpc: str, legacy: Any, field: str) -> None:
    with pytest.raises(A2AError) as refused:
        calls.CALLS[rpc].request(legacy, DEFAULT)
    assert fields(refused) == [field]


@pytest.mark.req("LGRP-04")
def test_no_history_length_in_0_3_is_none_in_1_0() -> None:
    assert not calls.upgrade_get(v03.GetTaskRequest(name="tasks/t")).HasField("history_length")
    assert calls.upgrade_get(v03.GetTaskRequest(name="tasks/t", history_length=3)).history_length == 3


def test_0_3_nests_what_1_0_has_flat() -> None:
    config = pb.TaskPushNotificationConfig(task_id="t", id="c", url="https://x.example", token="s")
    legacy = configs.downgrade_config(config)
    assert MessageToDict(legacy) == {
        "name": NAME,
        "pushNotificationConfig": {"id": "c", "url": "https://x.example", "token": "s"},
    }


def test_pages() -> None:
    page = pb.ListTaskPushNotificationConfigsResponse(
        configs=[pb.TaskPushNotificationConfig(task_id="t", id="c")], next_page_token="p"
    )
    legacy = configs.downgrade_configs(page)
    assert [config.name for config in legacy.configs] == [NAME]
    assert legacy.next_page_token == "p"


@pytest.mark.parametrize("schemes", [["Basic"], []])
def test_the_scheme_is_a_list_of_one(schemes: list[str]) -> None:
    config = pb.TaskPushNotificationConfig(task_id="t", id="c")
    config.authentication.scheme = "".join(schemes)
    assert list(configs.downgrade_config(config).push_notification_config.authentication.schemes) == schemes


def test_credentials_without_a_scheme_are_for_the_core_to_refuse() -> None:
    config = pb.TaskPushNotificationConfig()
    configs.upgrade_config_into(
        config, v03.PushNotificationConfig(authentication=v03.AuthenticationInfo(credentials="s"))
    )
    assert config.HasField("authentication")
