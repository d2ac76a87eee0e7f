"""Requests of 0.3: what they mean in 1.0, what is wrong with them, and the resource names in them."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.domain.free_form import TOO_DEEP, fault_of
from a2a_server.protocol.v0_3 import messages
from a2a_server.protocol.v0_3 import resource_names as names
from a2a_server.protocol.v0_3.json import kind_json, proto_json
from tests.unit.protocol.spelling import KIND, KIND_REST, PROTO, Spelling, faults, read, written

BOTH = pytest.mark.parametrize("spelling", [KIND, PROTO], ids=["kind", "proto"])
IMPATIENT = pytest.mark.parametrize("spelling", [kind_json(wait=False), proto_json(wait=False)], ids=["kind", "proto"])


def configured(spelling: Spelling, configuration: Any) -> pb.SendMessageConfiguration:
    request: pb.SendMessageRequest = read(spelling, {"configuration": configuration}, pb.SendMessageRequest)
    return request.configuration


# -- sends


@pytest.mark.parametrize(
    ("told", "at_once"),
    [({}, False), ({"blocking": True}, False), ({"blocking": False}, True), ({"blocking": None}, False)],
)
def test_a_send_waits_unless_it_says_otherwise(told: Any, at_once: Any) -> None:
    assert configured(KIND, told).return_immediately is at_once
    assert configured(KIND, None).return_immediately is False


@pytest.mark.parametrize(
    ("told", "at_once"),
    [({}, True), ({"blocking": True}, False), ({"blocking": False}, True), ({"blocking": None}, True)],
)
def test_in_protojson_a_configuration_says_no_by_saying_nothing(told: Any, at_once: Any) -> None:
    assert configured(PROTO, told).return_immediately is at_once
    assert configured(PROTO, None).return_immediately is False


@IMPATIENT
def test_a_send_may_have_to_say_that_it_waits(spelling: Spelling) -> None:
    for told, at_once in (
        ({}, True),
        ({"blocking": None}, True),
        ({"blocking": False}, True),
        ({"blocking": True}, False),
    ):
        assert configured(spelling, told).return_immediately is at_once
    assert read(spelling, {}, pb.SendMessageRequest).configuration.return_immediately


@pytest.mark.parametrize("spelling", [KIND, PROTO, kind_json(wait=False), proto_json(wait=False)])
def test_a_configuration_that_says_what_none_would_say_is_none(spelling: Spelling) -> None:
    for told, there in (
        ({"blocking": True}, False),
        ({"blocking": True, "acceptedOutputModes": [], "historyLength": None}, False),
        ({"blocking": False}, True),
        ({"blocking": True, "acceptedOutputModes": ["text/plain"]}, True),
        ({"blocking": True, "historyLength": 0}, True),
    ):
        request = read(spelling, {"message": {"messageId": "m"}, "configuration": told}, pb.SendMessageRequest)
        assert request.HasField("configuration") is there, told


@BOTH
def test_what_is_wrong_with_blocking_is_said_of_blocking(spelling: Spelling) -> None:
    told = {"configuration": {"blocking": "true", "historyLength": "x"}}
    assert faults(spelling, told, pb.SendMessageRequest) == {
        "configuration.blocking": 'must be true or false, got "true"',
        "configuration.historyLength": 'must be a whole number from -2147483648 to 2147483647, got "x"',
    }


@IMPATIENT
def test_faults_are_told_where_sends_do_not_wait(spelling: Spelling) -> None:
    told = {"message": 5, "configuration": []}
    assert faults(spelling, told, pb.SendMessageRequest) == {
        "message": "must be an object, got 5",
        "configuration": "must be an object, got a list",
    }
    assert faults(spelling, [], pb.SendMessageRequest) == {"": "must be an object, got a list"}


@BOTH
def test_no_history_can_be_asked_for(spelling: Spelling) -> None:
    assert configured(spelling, {"historyLength": 0}).HasField("history_length")
    assert not configured(spelling, {}).HasField("history_length")
    assert read(spelling, {"id": "t", "historyLength": 0}, pb.GetTaskRequest).HasField("history_length")


PUSH = {
    "url": "u:x",
    "id": "c",
    "token": "k",
    "authentication": {"schemes": ["", "Bearer", "Basic"], "credentials": "s"},
}
CONFIG = pb.TaskPushNotificationConfig(
    url="u:x", id="c", token="k", authentication={"scheme": "Bearer", "credentials": "s"}
)


@BOTH
@pytest.mark.parametrize(
    "name", ["pushNotificationConfig", "push_notification_config", "pushNotification", "push_notification"]
)
def test_the_push_config_of_a_send_has_several_names(spelling: Spelling, name: str) -> None:
    assert configured(spelling, {name: PUSH}).task_push_notification_config == CONFIG


@BOTH
def test_two_push_configs_in_a_send_are_one_too_many(spelling: Spelling) -> None:
    told: Any = {"configuration": {"pushNotificationConfig": {}, "pushNotification": {}}}
    (said,) = faults(spelling, told, pb.SendMessageRequest).values()
    assert said.startswith("is given twice, as ")


@BOTH
@pytest.mark.parametrize(
    "nothing", [{}, {"schemes": []}, {"schemes": ["", ""]}, {"credentials": ""}, {"other": 1}, None]
)
def test_an_empty_authentication_is_none(spelling: Spelling, nothing: Any) -> None:
    config = configured(spelling, {"pushNotificationConfig": {"url": "u:x", "authentication": nothing}})
    assert not config.task_push_notification_config.HasField("authentication")


@BOTH
def test_credentials_alone_are_for_the_core_to_judge(spelling: Spelling) -> None:
    config = configured(spelling, {"pushNotificationConfig": {"authentication": {"credentials": "s"}}})
    assert config.task_push_notification_config.authentication == pb.AuthenticationInfo(credentials="s")
    assert written(spelling, config.task_push_notification_config)["pushNotificationConfig"]["authentication"] == {
        "schemes": [],
        "credentials": "s",
    }


@BOTH
@pytest.mark.parametrize(
    ("schemes", "said"),
    [
        ("Bearer", {"schemes": "must be a list, got a string"}),
        (["a", 1, None], {"schemes[1]": "must be a string, got 1", "schemes[2]": "must be a string, got null"}),
        (["\ud800"], {"schemes[0]": "must hold no lone surrogates"}),
    ],
)
def test_what_is_wrong_with_schemes(spelling: Spelling, schemes: Any, said: dict[str, str]) -> None:
    told = {"taskId": "t", "pushNotificationConfig": {"url": "u", "authentication": {"schemes": schemes}}}
    prefix = "pushNotificationConfig.authentication."
    assert faults(spelling, told, pb.TaskPushNotificationConfig) == {prefix + at: text for at, text in said.items()}


# -- other requests


@pytest.mark.parametrize("spelling", [KIND, KIND_REST, PROTO])
@pytest.mark.parametrize(
    ("told", "request_"),
    [
        ({"id": "t", "historyLength": 3, "metadata": {"a": 1}}, pb.GetTaskRequest(id="t", history_length=3)),
        ({"taskId": "t"}, pb.GetTaskRequest(id="t")),
        ({"task_id": "t", "history_length": 3}, pb.GetTaskRequest(id="t", history_length=3)),
        ({"id": "t", "metadata": {"a": 1}}, pb.CancelTaskRequest(id="t", metadata={"a": 1})),
        ({"id": "t", "metadata": 5}, pb.SubscribeToTaskRequest(id="t")),
        ({"id": "t", "metadata": {}}, pb.GetTaskPushNotificationConfigRequest(task_id="t")),
        ({"id": "t", "pushNotificationConfigId": "c"}, pb.GetTaskPushNotificationConfigRequest(task_id="t", id="c")),
        (
            {"id": "t", "push_notification_config_id": "c"},
            pb.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c"),
        ),
        ({"id": "t"}, pb.ListTaskPushNotificationConfigsRequest(task_id="t")),
    ],
)
def test_requests_mean(spelling: Spelling, told: Any, request_: Any) -> None:
    assert read(spelling, told, type(request_)) == request_


CONFIGURED = {"url": "https://h.example"}
TENANT_IN_PATH = "is A2A 1.0's; 0.3 has it in the path, as in /{tenant}/v1/tasks or /{tenant}/"


@pytest.mark.req("TENA-03", "TENA-05")
@pytest.mark.parametrize(
    ("spelling", "member"), [(KIND, "pushNotificationConfig"), (PROTO, "pushNotification")], ids=["kind", "proto"]
)
def test_so_is_that_of_a_config(spelling: Spelling, member: str) -> None:
    told = {**CONFIGURED, "tenant": "acme"}
    inside = f"configuration.{member}.tenant"
    assert faults(spelling, {"configuration": {member: told}}, pb.SendMessageRequest) == {inside: TENANT_IN_PATH}
    alone = {"pushNotificationConfig.tenant": TENANT_IN_PATH}
    assert faults(spelling, {"pushNotificationConfig": told}, pb.TaskPushNotificationConfig) == alone


def test_only_rest_has_pages_of_push_configs() -> None:
    told = {"id": "t", "pageSize": 5, "pageToken": "x"}
    request = pb.ListTaskPushNotificationConfigsRequest(task_id="t", page_size=5, page_token="x")
    for spelling in (KIND_REST, PROTO):
        assert read(spelling, told, type(request)) == request
    assert read(KIND, told, type(request)) == pb.ListTaskPushNotificationConfigsRequest(task_id="t")
    page = pb.ListTaskPushNotificationConfigsResponse(configs=[CONFIG], next_page_token="x")
    assert [*written(KIND_REST, page)] == [*written(PROTO, page)] == ["configs", "nextPageToken"]
    assert written(KIND, page) == [written(KIND, CONFIG)]


# -- push configs by themselves


def test_a_push_config_has_its_task_beside_it_or_in_its_name() -> None:
    config = pb.TaskPushNotificationConfig(task_id="t", id="c", url="u:x")
    inner = {"id": "c", "url": "u:x"}
    assert written(KIND, config) == written(KIND_REST, config) == {"taskId": "t", "pushNotificationConfig": inner}
    named = {"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": inner}
    assert written(PROTO, config) == named


@BOTH
@pytest.mark.parametrize(
    "told",
    [
        {"taskId": "t", "pushNotificationConfig": {"id": "c", "url": "u:x"}},
        {"task_id": "t", "push_notification_config": {"id": "c", "url": "u:x"}},
        {"taskId": "t", "pushNotificationConfigId": "c", "pushNotificationConfig": {"url": "u:x"}},
        {"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": {"url": "u:x"}},
        {"name": "tasks/t/pushNotificationConfigs/", "pushNotificationConfig": {"id": "c", "url": "u:x"}},
        {"name": "tasks/t/pushNotificationConfigs/None", "pushNotificationConfig": {"id": "c", "url": "u:x"}},
        {
            "name": "tasks/t/pushNotificationConfigs/c",
            "taskId": "t",
            "pushNotificationConfigId": "c",
            "pushNotificationConfig": {"id": "c", "url": "u:x"},
        },
    ],
)
def test_ids_of_a_push_config_may_stand_in_several_places(spelling: Spelling, told: Any) -> None:
    expected = pb.TaskPushNotificationConfig(task_id="t", id="c", url="u:x")
    assert read(spelling, told, pb.TaskPushNotificationConfig) == expected


@BOTH
@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, {"pushNotificationConfig": "must be an object, got null"}),
        ([], {"": "must be an object, got a list"}),
        (
            {"taskId": 5, "pushNotificationConfig": {"url": 5}},
            {"taskId": "must be a string, got 5", "pushNotificationConfig.url": "must be a string, got 5"},
        ),
        (
            {"taskId": "\ud800", "pushNotificationConfig": {}},
            {"taskId": "must hold no lone surrogates"},
        ),
        (
            {"name": "tasks/t", "pushNotificationConfig": {}},
            {"name": 'must be a name such as "tasks/{id}/pushNotificationConfigs/{config id}", got "tasks/t"'},
        ),
        (
            {"name": "tasks/t/pushNotificationConfigs/c", "taskId": "u", "pushNotificationConfig": {"id": "c"}},
            {"name": 'says "t" where taskId says "u"'},
        ),
        (
            {"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": {"id": "d"}},
            {"name": 'says "c" where pushNotificationConfig.id says "d"'},
        ),
        (
            {"pushNotificationConfigId": "c", "pushNotificationConfig": {"id": "d"}},
            {"pushNotificationConfigId": 'says "c" where pushNotificationConfig.id says "d"'},
        ),
        (
            {"taskId": "t", "url": "u:x", "pushNotificationConfig": {}},
            {"url": 'is for "pushNotificationConfig" to hold'},
        ),
    ],
)
def test_what_is_wrong_with_a_push_config(spelling: Spelling, told: Any, said: dict[str, str]) -> None:
    assert faults(spelling, told, pb.TaskPushNotificationConfig) == said


@pytest.mark.parametrize(("state", "legacy"), [*zip(pb.TaskState.keys(), v03.TaskState.keys(), strict=True)])
def test_states_differ_in_one_letter(state: str, legacy: str) -> None:
    task = messages.Downgrade().task(pb.Task(status=pb.TaskStatus(state=state)))
    assert task.status.state == v03.TaskState.Value(legacy)
    assert legacy == state.replace("CANCELED", "CANCELLED")


def test_numbers_that_only_the_other_side_knows_are_unspecified_in_answers() -> None:
    task = ParseDict({"status": {"state": 99, "message": {"role": 99}}}, pb.Task())
    assert MessageToDict(messages.Downgrade().task(task)) == {"status": {"message": {}}}


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_the_deepest_data_that_is_accepted_can_be_read_in_0_3(wrap: Any) -> None:
    part, value = pb.Part(), None
    while fault_of(ParseDict({"data": value}, pb.Part()).data) != TOO_DEEP:
        part, value = ParseDict({"data": value}, pb.Part()), wrap(value)
    status = pb.TaskStatus(message=pb.Message(parts=[part]))
    legacy = messages.Downgrade().item(pb.StreamResponse(task=pb.Task(status=status)), last=False)
    assert v03.StreamResponse.FromString(legacy.SerializeToString()) == legacy


TASK_OF, CONFIG_OF = names.task_of, names.config_of
PARENT, UNBORN = names.parent_of, names.new_config_of


@pytest.mark.parametrize(
    ("read", "name", "found"),
    [
        (TASK_OF, "tasks/t", "t"),
        (TASK_OF, "tasks/tasks", "tasks"),
        (TASK_OF, "tasks/a:b c%\n", "a:b c%\n"),
        (TASK_OF, "tasks/a%2Fb", "a/b"),
        (TASK_OF, "tasks/a%2fb%252F", "a/b%2F"),
        (PARENT, "tasks/a%2Fb/pushNotificationConfigs", "a/b"),
        (CONFIG_OF, "tasks/t/pushNotificationConfigs/c", ("t", "c")),
        (CONFIG_OF, "tasks/t/pushNotificationConfigs/None", ("t", "None")),
        (CONFIG_OF, "tasks/a%2Fb/pushNotificationConfigs/100%2525", ("a/b", "100%25")),
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
        (TASK_OF, ""),
        (TASK_OF, "t"),
        (TASK_OF, "tasks/"),
        (TASK_OF, "/tasks/t"),
        (TASK_OF, "Tasks/t"),
        (TASK_OF, "task/t"),
        (TASK_OF, "tasks/t/"),
        (TASK_OF, "tasks/t/u"),
        (TASK_OF, "tasks/t/pushNotificationConfigs/c"),
        (CONFIG_OF, "tasks/t"),
        (CONFIG_OF, "tasks/t/pushNotificationConfigs"),
        (CONFIG_OF, "tasks/t/pushNotificationConfigs/"),
        (CONFIG_OF, "tasks/t/pushNotificationConfigs/c/d"),
        (CONFIG_OF, "tasks//pushNotificationConfigs/c"),
        (CONFIG_OF, "tasks/t/pushnotificationconfigs/c"),
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
