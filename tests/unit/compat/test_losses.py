"""Every loss on the list, shown; and the same list in the documentation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import struct_pb2
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.v0_3 import cards, events, messages, push, push_requests, requests, sends
from a2a_server.protocol.v0_3.losses import BACK, FORTH, LOSSES, Loss, Way
from a2a_server.protocol.v0_3.options import Options

Json = dict[str, Any]
Trip = Callable[[Any], Any]

DOCS = Path(__file__).parents[3] / "docs" / "protocol-0.3.md"

DOOR = {"url": "u:x", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}
LEGACY_DOOR = {"url": "u:x", "transport": "JSONRPC"}
QUIET = {"streaming": False, "pushNotifications": False, "extendedAgentCard": False}
LEGACY_CARD = {
    "protocolVersion": "0.3.0",
    "url": "u:x",
    "preferredTransport": "JSONRPC",
    "additionalInterfaces": [LEGACY_DOOR],
    "capabilities": {},
}
NAME = "tasks/t/pushNotificationConfigs/c"
SIGNED = {"signatures": [{"protected": "e30", "signature": "e30"}]}
RAW = Options(raw_files=True)


def _config(**members: object) -> Json:
    return {"name": NAME, "pushNotificationConfig": {"id": "c", **members}}


def _card(*doors: Json, **members: object) -> Json:
    return {"supportedInterfaces": [DOOR, *doors], "capabilities": QUIET, **members}


def _flow(**flow: object) -> Json:
    return _card(securitySchemes={"s": {"oauth2SecurityScheme": {"flows": flow}}})


def _there(kind: Any, trip: Trip) -> tuple[Any, Trip]:
    return kind, trip


RAW_MESSAGE = _there(pb.Message, lambda new: messages.upgrade(messages.downgrade(new, RAW)))
MESSAGE = _there(pb.Message, lambda new: messages.upgrade(messages.downgrade(new)))
SEND = _there(pb.SendMessageRequest, lambda new: sends.upgrade(sends.downgrade(new)))
GET = _there(pb.GetTaskRequest, lambda new: requests.upgrade_get(requests.downgrade_get(new)))
CANCEL = _there(pb.CancelTaskRequest, lambda new: requests.upgrade_cancel(requests.downgrade_cancel(new)))
CONFIG = _there(pb.TaskPushNotificationConfig, lambda new: push.upgrade(push.downgrade(new)))
CREATE = _there(
    pb.TaskPushNotificationConfig, lambda new: push_requests.upgrade_create(push_requests.downgrade_create(new))
)
CARD = _there(pb.AgentCard, lambda new: cards.upgrade(cards.downgrade(new)))
LEGACY_MESSAGE = _there(v03.Message, lambda old: messages.downgrade(messages.upgrade(old)))
LEGACY_RAW = _there(v03.Message, lambda old: messages.downgrade(messages.upgrade(old), RAW))
LEGACY_EVENT = _there(v03.StreamResponse, lambda old: events.downgrade(events.upgrade(old), last=False))
LEGACY_SEND = _there(v03.SendMessageRequest, lambda old: sends.downgrade(sends.upgrade(old)))
LEGACY_GET = _there(v03.GetTaskRequest, lambda old: requests.downgrade_get(requests.upgrade_get(old)))
LEGACY_CONFIG = _there(v03.TaskPushNotificationConfig, lambda old: push.downgrade(push.upgrade(old)))
LEGACY_CREATE = _there(
    v03.CreateTaskPushNotificationConfigRequest,
    lambda old: push_requests.downgrade_create(push_requests.upgrade_create(old)),
)
LEGACY_CARD_TRIP = _there(v03.AgentCard, lambda old: cards.downgrade(cards.upgrade(old)))

# Way, beginning of the row, type and trip, before, after (None = refused).
SHOWN: list[tuple[Way, str, tuple[Any, Trip], Json, Json | None]] = [
    (
        FORTH,
        "`Part.media_type`",
        MESSAGE,
        {"parts": [{"data": {}, "mediaType": "application/json"}]},
        {"parts": [{"data": {}}]},
    ),
    (FORTH, "`Part.raw`", RAW_MESSAGE, {"parts": [{"raw": "QVAvKw=="}]}, {"parts": [{"raw": "AP/+"}]}),
    (
        FORTH,
        "metadata named",
        MESSAGE,
        {"parts": [{"text": "", "metadata": {"x-a2a-compat": {"filename": "f"}}}]},
        {"parts": [{"text": "", "filename": "f"}]},
    ),
    (
        FORTH,
        "metadata named",
        MESSAGE,
        {"referenceTaskIds": ["a"], "metadata": {"x-a2a-compat": "mine"}},
        {"referenceTaskIds": ["a"]},
    ),
    (
        FORTH,
        "metadata named",
        MESSAGE,
        {"parts": [{"data": {"value": 1.0}, "metadata": {"data_part_compat": True}}]},
        {"parts": [{"data": 1.0}]},
    ),
    (FORTH, "empty `metadata`", MESSAGE, {"referenceTaskIds": ["a"], "metadata": {}}, {"referenceTaskIds": ["a"]}),
    (
        FORTH,
        "empty `metadata`",
        MESSAGE,
        {"parts": [{"text": "", "filename": "f", "metadata": {}}]},
        {"parts": [{"text": "", "filename": "f"}]},
    ),
    (FORTH, "numbers of states", MESSAGE, {"role": 9}, {}),
    (
        FORTH,
        "`history_length` 0",
        SEND,
        {"configuration": {"historyLength": 0, "returnImmediately": True}},
        {"configuration": {"returnImmediately": True}},
    ),
    (FORTH, "`history_length` 0", GET, {"id": "t", "historyLength": 0}, {"id": "t"}),
    (FORTH, "an empty `configuration`", SEND, {"configuration": {}}, {}),
    (FORTH, "`tenant`", SEND, {"tenant": "x"}, {}),
    (FORTH, "`tenant`", CONFIG, {"tenant": "x", "taskId": "t", "id": "c"}, {"taskId": "t", "id": "c"}),
    (
        FORTH,
        "`task_id` of a push config",
        SEND,
        {"configuration": {"taskPushNotificationConfig": {"taskId": "t", "url": "u:x"}}},
        {"configuration": {"taskPushNotificationConfig": {"url": "u:x"}}},
    ),
    (FORTH, "`CancelTaskRequest.metadata`", CANCEL, {"id": "t", "metadata": {"a": 1.0}}, {"id": "t"}),
    (FORTH, "empty ids", GET, {}, None),
    (FORTH, "empty ids", CANCEL, {}, None),
    (FORTH, "empty ids", CONFIG, {"id": "c"}, None),
    (FORTH, "a slash in", CREATE, {"taskId": "t", "id": "c/d"}, None),
    (FORTH, "a slash in", SEND, {"configuration": {"taskPushNotificationConfig": {"id": "c/d"}}}, None),
    (FORTH, "a comma in", CREATE, {"taskId": "t", "id": "c", "authentication": {"scheme": "a,b"}}, None),
    (FORTH, "`authentication` without", CONFIG, {"taskId": "t", "authentication": {}}, {"taskId": "t"}),
    (FORTH, "`supported_interfaces`", CARD, _card(DOOR | {"protocolVersion": "1.0", "url": "u:y"}), _card()),
    (
        FORTH,
        "the tenant of an interface",
        CARD,
        {"supportedInterfaces": [DOOR | {"tenant": "x", "protocolVersion": "0.3.1"}], "capabilities": QUIET},
        _card(),
    ),
    (FORTH, "a second interface", CARD, _card(DOOR | {"protocolBinding": "HTTP+JSON"}), _card()),
    (
        FORTH,
        "a gRPC interface",
        CARD,
        _card(DOOR | {"protocolBinding": "GRPC", "url": "x.example:1"}),
        _card(DOOR | {"protocolBinding": "GRPC", "url": "https://x.example:1"}),
    ),
    (FORTH, "absent `capabilities`", CARD, {"supportedInterfaces": [DOOR]}, _card()),
    (FORTH, "`documentation_url`", CARD, _card(documentationUrl="", iconUrl=""), _card()),
    (FORTH, "card signatures", CARD, _card(**SIGNED), _card()),
    (FORTH, "`OAuthFlows.device_code`", CARD, _flow(deviceCode={"tokenUrl": "u:t"}), _flow()),
    (
        FORTH,
        "`AuthorizationCodeOAuthFlow",
        CARD,
        _flow(authorizationCode={"tokenUrl": "u:t", "pkceRequired": True}),
        _flow(authorizationCode={"tokenUrl": "u:t"}),
    ),
    (
        BACK,
        "`file_with_bytes` that is not",
        LEGACY_MESSAGE,
        {"content": [{"file": {"fileWithBytes": "AP/+"}}]},
        {"content": [{"file": {"fileWithBytes": "QVAvKw=="}}]},
    ),
    (
        BACK,
        "`file_with_bytes` that happens",
        LEGACY_RAW,
        {"content": [{"file": {"fileWithBytes": "QVAvKw=="}}]},
        {"content": [{"file": {"fileWithBytes": "AP/+"}}]},
    ),
    (
        BACK,
        "`final`",
        LEGACY_EVENT,
        {"statusUpdate": {"taskId": "t", "final": True}},
        {"statusUpdate": {"taskId": "t"}},
    ),
    (BACK, "an empty `configuration`", LEGACY_SEND, {"configuration": {}}, {}),
    (
        BACK,
        "`authentication.schemes`",
        LEGACY_CONFIG,
        _config(authentication={"schemes": ["Bearer", "Basic"]}),
        _config(authentication={"schemes": ["Bearer"]}),
    ),
    (BACK, "`authentication` without", LEGACY_CONFIG, _config(authentication={}), _config()),
    (
        BACK,
        "a push config's id",
        LEGACY_CREATE,
        {"parent": "tasks/t", "configId": "c"},
        {"parent": "tasks/t", "configId": "c", "config": _config()},
    ),
    (BACK, "`%2f` in", LEGACY_GET, {"name": "tasks/a%2fb%25"}, {"name": "tasks/a%2Fb%"}),
    (
        BACK,
        "`parent` with",
        LEGACY_CREATE,
        {"parent": "tasks/t/pushNotificationConfigs", "configId": "c", "config": _config()},
        {"parent": "tasks/t", "configId": "c", "config": _config()},
    ),
    (BACK, "a patch in", LEGACY_CARD_TRIP, LEGACY_CARD | {"protocolVersion": "0.3.7"}, LEGACY_CARD),
    (BACK, "a `protocol_version`", LEGACY_CARD_TRIP, LEGACY_CARD | {"protocolVersion": "0.2.5"}, None),
    (
        BACK,
        "an absent `preferred_transport`",
        LEGACY_CARD_TRIP,
        {key: value for key, value in LEGACY_CARD.items() if key != "preferredTransport"},
        LEGACY_CARD,
    ),
    (BACK, "`additional_interfaces`", LEGACY_CARD_TRIP, LEGACY_CARD | {"additionalInterfaces": []}, LEGACY_CARD),
    (
        BACK,
        "`additional_interfaces`",
        LEGACY_CARD_TRIP,
        LEGACY_CARD | {"additionalInterfaces": [{"url": "u:y", "transport": "JSONRPC"}, LEGACY_DOOR]},
        LEGACY_CARD | {"additionalInterfaces": [LEGACY_DOOR, {"url": "u:y", "transport": "JSONRPC"}]},
    ),
    (
        BACK,
        "a gRPC interface",
        LEGACY_CARD_TRIP,
        LEGACY_CARD | {"additionalInterfaces": [LEGACY_DOOR, {"url": "x.example:1", "transport": "GRPC"}]},
        LEGACY_CARD | {"additionalInterfaces": [LEGACY_DOOR, {"url": "https://x.example:1", "transport": "GRPC"}]},
    ),
    (
        BACK,
        "absent `capabilities`",
        LEGACY_CARD_TRIP,
        {key: value for key, value in LEGACY_CARD.items() if key != "capabilities"},
        LEGACY_CARD,
    ),
    (BACK, "card signatures", LEGACY_CARD_TRIP, LEGACY_CARD | SIGNED, LEGACY_CARD),
]


def _row(way: Way, start: str) -> Loss:
    [loss] = [loss for loss in LOSSES if loss.way == way and loss.what.startswith(start)]
    return loss


@pytest.mark.parametrize(
    ("way", "start", "trip", "before", "after"), SHOWN, ids=[f"{row[0][:3]}-{row[1]}" for row in SHOWN]
)
@pytest.mark.req("LMAP-02")
def test_shown(way: Way, start: str, trip: tuple[Any, Trip], before: Json, after: Json | None) -> None:
    kind, there_and_back = trip
    message = ParseDict(before, kind())
    if after is None:
        with pytest.raises(A2AError) as refused:
            there_and_back(message)
        assert refused.value.reason in {Reason.INVALID_PARAMS, Reason.VERSION_NOT_SUPPORTED}
        assert _row(way, start).becomes.startswith("refused")
    else:
        result = there_and_back(message)
        assert result == ParseDict(after, kind())
        assert result != message


def test_every_loss_is_shown() -> None:
    assert {_row(way, start) for way, start, *_ in SHOWN} == set(LOSSES)


@pytest.mark.req("LMAP-02")
def test_the_documentation_has_the_same_list() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for way in (FORTH, BACK):
        rows = "".join(f"| {loss.what} | {loss.becomes} |\n" for loss in LOSSES if loss.way == way)
        assert f"### {way}\n\n| what | comes back |\n|---|---|\n{rows}\n" in text


def test_kept_whole_these_losses_need_no_more_than_what_the_caller_knows() -> None:
    event = v03.StreamResponse(status_update=v03.TaskStatusUpdateEvent(task_id="t", final=True))
    assert events.downgrade(events.upgrade(event), last=True) == event
    config = v03.TaskPushNotificationConfig(name=NAME, push_notification_config=v03.PushNotificationConfig(id="c"))
    config.push_notification_config.authentication.schemes.extend(["Bearer", "Basic"])
    assert push.downgrade(push.upgrade(config), schemes=("Bearer", "Basic")) == config


def test_objects_within_lists_of_metadata_are_no_loss() -> None:
    metadata = struct_pb2.Struct()
    metadata.update({"a": [{"b": None}], "x": {}})
    message = pb.Message(metadata=metadata, parts=[pb.Part(text="", metadata=metadata)])
    assert MessageToDict(messages.upgrade(messages.downgrade(message))) == MessageToDict(message)
