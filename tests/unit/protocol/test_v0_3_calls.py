"""The table of RPCs against the services' descriptors."""

import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError
from a2a_server.protocol.v0_3.calls import CALLS
from a2a_server.protocol.v0_3.messages import Options

LEGACY = v03.DESCRIPTOR.services_by_name["A2AService"].methods_by_name
CURRENT = pb.DESCRIPTOR.services_by_name["A2AService"].methods_by_name

# The least that each request must say.
SAYS = {
    "GetTask": {"name": "tasks/t"},
    "CancelTask": {"name": "tasks/t"},
    "TaskSubscription": {"name": "tasks/t"},
    "CreateTaskPushNotificationConfig": {"parent": "tasks/t"},
    "GetTaskPushNotificationConfig": {"name": "tasks/t/pushNotificationConfigs/c"},
    "ListTaskPushNotificationConfig": {"parent": "tasks/t"},
    "DeleteTaskPushNotificationConfig": {"name": "tasks/t/pushNotificationConfigs/c"},
}


def test_there_is_a_row_for_every_rpc_and_no_other() -> None:
    assert set(CALLS) == set(LEGACY)
    assert {call.rpc for call in CALLS.values()} == set(CURRENT) - {"ListTasks"}


@pytest.mark.parametrize("name", CALLS)
def test_requests_and_answers_have_the_types_of_the_rpc(name: str) -> None:
    call, legacy, current = CALLS[name], LEGACY[name], CURRENT[CALLS[name].rpc]
    request = call.request(GetMessageClass(legacy.input_type)(**SAYS.get(name, {})), Options())
    assert request.DESCRIPTOR is current.input_type
    if call.answer is None:
        assert legacy.server_streaming
        assert current.server_streaming
    else:
        assert call.answer(_answer(name), Options()).DESCRIPTOR is legacy.output_type


def _answer(name: str) -> Message:
    if name == "GetAgentCard":
        return pb.AgentCard(supported_interfaces=[pb.AgentInterface(url="u:x", protocol_version="0.3")])
    return GetMessageClass(CURRENT[CALLS[name].rpc].output_type)()


@pytest.mark.parametrize("name", SAYS)
def test_a_name_is_required(name: str) -> None:
    with pytest.raises(A2AError):
        CALLS[name].request(GetMessageClass(LEGACY[name].input_type)(), Options())


def test_the_schemes_of_a_push_config_are_read_wherever_there_is_one() -> None:
    config = v03.PushNotificationConfig(authentication=v03.AuthenticationInfo(schemes=["Basic", "", "Bearer"]))
    named = v03.TaskPushNotificationConfig(push_notification_config=config)
    send = v03.SendMessageRequest(configuration=v03.SendMessageConfiguration(push_notification=config))
    requests = {
        "SendMessage": send,
        "SendStreamingMessage": send,
        "CreateTaskPushNotificationConfig": v03.CreateTaskPushNotificationConfigRequest(config=named),
    }
    for name, call in CALLS.items():
        request = requests.get(name, GetMessageClass(LEGACY[name].input_type)())
        assert [*call.schemes(request)] == (["Basic", "Bearer"] if name in requests else []), name
