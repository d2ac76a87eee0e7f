"""There and back again: whatever 0.3 can say comes back the same, and what it can't is on the list of losses.

Each `normal_*` applies the rows of `a2a_server.protocol.v0_3.losses` for one type and nothing else, so that a loss that
is not listed fails here.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar, cast

import pytest
from google.protobuf.message import Message
from hypothesis import event, given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.names import COMPAT
from a2a_server.protocol.v0_3 import (
    cards,
    events,
    files,
    kept,
    messages,
    names,
    push,
    push_requests,
    requests,
    sends,
    tasks,
)
from tests.property.messages import messages as arbitrary
from tests.property.messages import struct

M = TypeVar("M", bound=Message)


def walk(message: Message) -> Iterator[Any]:
    """The message and all that is set inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = [item for item in value.values() if isinstance(item, Message)]
        else:
            inner = list(value) if field.is_repeated else [value]
        for item in inner:
            yield from walk(item)


def within(kind: type[M], message: Message) -> Iterator[M]:
    yield from [item for item in walk(message) if isinstance(item, kind)]


# -- 1.0 → 0.3 → 1.0


def normal(message: M) -> M:
    """What is lost inside messages, tasks and events."""
    result = type(message)()
    result.CopyFrom(message)
    for status in within(pb.TaskStatus, result):
        if status.state not in pb.TaskState.values():
            status.state = pb.TASK_STATE_UNSPECIFIED
    for said in within(pb.Message, result):
        if said.role not in pb.Role.values():
            said.role = pb.ROLE_UNSPECIFIED
        if said.reference_task_ids and not said.metadata.fields:
            said.ClearField("metadata")
    for part in within(pb.Part, result):
        if part.HasField("data") and part.media_type == "application/json":
            part.media_type = ""
        named = (part.media_type or part.filename) and part.WhichOneof("content") not in {"raw", "url"}
        wrapped = part.HasField("data") and part.data.WhichOneof("kind") != "struct_value"
        if (named or wrapped) and not part.metadata.fields:
            part.ClearField("metadata")
    return result


def stream_item(legacy: v03.StreamResponse) -> v03.StreamResponse:
    """There and back, by a caller who knows what was the last."""
    return events.downgrade(events.upgrade(legacy), last=legacy.status_update.final)


FORTH: list[Any] = [
    pytest.param(pb.Message, messages.downgrade, messages.upgrade, id="Message"),
    pytest.param(pb.Task, tasks.downgrade, tasks.upgrade, id="Task"),
    pytest.param(pb.StreamResponse, partial(events.downgrade, last=False), events.upgrade, id="StreamResponse"),
    pytest.param(pb.SendMessageResponse, events.downgrade_answer, events.upgrade_answer, id="SendMessageResponse"),
]


@pytest.mark.req("LMAP-02")
@pytest.mark.parametrize(("kind", "down", "up"), FORTH)
@given(data=st.data())
def test_what_agents_and_clients_say_survives_0_3(
    kind: type[Message], down: Callable[[Any], Any], up: Callable[[Any], Any], data: st.DataObject
) -> None:
    before = data.draw(arbitrary(kind))
    after = up(down(before))
    event("nothing was lost" if after == before else "something was")
    assert after == normal(before)
    assert up(down(after)) == after


def normal_send(request: pb.SendMessageRequest) -> pb.SendMessageRequest:
    result = normal(request)
    result.tenant = ""
    if result.HasField("configuration"):
        configuration = result.configuration
        if not configuration.history_length:
            configuration.ClearField("history_length")
        if configuration.HasField("task_push_notification_config"):
            config = configuration.task_push_notification_config
            config.task_id = ""
            strip(config)
        if configuration == pb.SendMessageConfiguration():
            result.ClearField("configuration")
    return result


def strip(config: pb.TaskPushNotificationConfig) -> None:
    config.tenant = ""
    if config.authentication == pb.AuthenticationInfo():
        config.ClearField("authentication")


@pytest.mark.req("LMAP-02")
@given(request=arbitrary(pb.SendMessageRequest))
def test_sends_survive_0_3(request: pb.SendMessageRequest) -> None:
    for config in within(pb.TaskPushNotificationConfig, request):
        makeable(config)
    assert sends.upgrade(sends.downgrade(request)) == normal_send(request)


IDS = st.text(min_size=1) | st.text("/%25Ff", min_size=1) | st.sampled_from(["a", "None", "tasks", "ä\n"])


@st.composite
def configs(draw: st.DrawFn) -> pb.TaskPushNotificationConfig:
    config = draw(arbitrary(pb.TaskPushNotificationConfig))
    config.task_id, config.id = draw(IDS), draw(IDS | st.just(""))
    return config


def makeable(config: pb.TaskPushNotificationConfig) -> None:
    """Let 0.3 make it: with an id of which it makes a name, and the name of a scheme."""
    config.id = config.id.replace("/", "|")
    if "," in config.authentication.scheme:
        config.authentication.scheme = "Bearer"


def normal_config(config: pb.TaskPushNotificationConfig) -> pb.TaskPushNotificationConfig:
    result = pb.TaskPushNotificationConfig()
    result.CopyFrom(config)
    strip(result)
    return result


@pytest.mark.req("LMAP-02")
@given(config=configs())
def test_push_configs_survive_0_3(config: pb.TaskPushNotificationConfig) -> None:
    assert push.upgrade(push.downgrade(config)) == normal_config(config)
    makeable(config)
    assert push_requests.upgrade_create(push_requests.downgrade_create(config)) == normal_config(config)


@given(page=st.lists(configs(), max_size=3), token=st.text())
def test_pages_of_push_configs_survive_0_3(page: list[pb.TaskPushNotificationConfig], token: str) -> None:
    response = pb.ListTaskPushNotificationConfigsResponse(configs=page, next_page_token=token)
    after = push.upgrade_list(push.downgrade_list(response))
    assert after.next_page_token == token
    assert list(after.configs) == [normal_config(config) for config in page]


@pytest.mark.req("LMAP-02", "LGRP-02", "LGRP-04")
@given(task_id=IDS, config_id=IDS, number=st.integers(1, 2**31 - 1), token=st.text())
def test_requests_survive_0_3(task_id: str, config_id: str, number: int, token: str) -> None:
    module: Any = requests
    for name, request in {
        "get": pb.GetTaskRequest(id=task_id, history_length=number),
        "cancel": pb.CancelTaskRequest(id=task_id),
        "subscribe": pb.SubscribeToTaskRequest(id=task_id),
        "card": pb.GetExtendedAgentCardRequest(),
    }.items():
        legacy = getattr(module, f"downgrade_{name}")(request)
        assert getattr(module, f"upgrade_{name}")(legacy) == request
    module = push_requests
    for name, request in {
        "get": pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id),
        "delete": pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id),
        "list": pb.ListTaskPushNotificationConfigsRequest(task_id=task_id, page_size=number, page_token=token),
    }.items():
        legacy = getattr(module, f"downgrade_{name}")(request)
        assert getattr(module, f"upgrade_{name}")(legacy) == request


@st.composite
def cards_of_both(draw: st.DrawFn) -> pb.AgentCard:
    """Cards with at least one interface that speaks 0.3."""
    card = draw(arbitrary(pb.AgentCard))
    card.supported_interfaces.add(url=draw(IDS), protocol_binding="JSONRPC", protocol_version="0.3")
    for scheme in draw(st.lists(arbitrary(pb.SecurityScheme), max_size=3)):
        card.security_schemes[draw(IDS)].CopyFrom(scheme)
    return card


def normal_card(card: pb.AgentCard) -> pb.AgentCard:
    result = pb.AgentCard()
    result.CopyFrom(card)
    _normal_interfaces(result)
    for url in ("documentation_url", "icon_url"):
        if not getattr(result, url):
            result.ClearField(cast("Any", url))
    capabilities = result.capabilities
    capabilities.streaming = capabilities.streaming
    capabilities.push_notifications = capabilities.push_notifications
    capabilities.extended_agent_card = capabilities.extended_agent_card
    result.ClearField("signatures")
    for flows in within(pb.OAuthFlows, result):
        flows.ClearField("device_code")
        if flows.HasField("authorization_code"):
            flows.authorization_code.pkce_required = False
    return result


def _normal_interfaces(card: pb.AgentCard) -> None:
    urls: dict[str, str] = {}
    for interface in card.supported_interfaces:
        if interface.protocol_version == "0.3":
            urls.setdefault(interface.url, interface.protocol_binding)
    del card.supported_interfaces[:]
    for url, binding in urls.items():
        card.supported_interfaces.add(url=url, protocol_binding=binding, protocol_version="0.3")


@pytest.mark.req("LMAP-02")
@given(card=cards_of_both())
def test_cards_survive_0_3(card: pb.AgentCard) -> None:
    after = cards.upgrade(cards.downgrade(card))
    assert after == normal_card(card)
    assert cards.upgrade(cards.downgrade(after)) == after


# -- 0.3 → 1.0 → 0.3


def mappable(legacy: Message) -> bool:
    return not (
        any(status.state not in v03.TaskState.values() for status in within(v03.TaskStatus, legacy))
        or any(message.role not in v03.Role.values() for message in within(v03.Message, legacy))
        or any(file.WhichOneof("file") is None for file in within(v03.FilePart, legacy))
        or any(not data.HasField("data") for data in within(v03.DataPart, legacy))
        or any("/" in config.id for config in within(v03.PushNotificationConfig, legacy))
        or any("," in "".join(offer.schemes) for offer in within(v03.AuthenticationInfo, legacy))
    )


def normal_legacy(legacy: M) -> M:
    """Everything comes back but the spelling of bytes: even what looks like ours in metadata."""
    result = type(legacy)()
    result.CopyFrom(legacy)
    for file in within(v03.FilePart, result):
        if file.HasField("file_with_bytes"):
            file.file_with_bytes = files.encode(files.decode(file.file_with_bytes))
    return result


TEXTS = st.sampled_from(["", "text/plain", "application/json", "a.txt"])
RECORDS = (
    st.dictionaries(st.sampled_from(["mediaType", "filename", "other"]), TEXTS | st.just(1))
    | st.fixed_dictionaries({"referenceTaskIds": st.lists(st.text(max_size=2) | st.none(), max_size=2)})
    | st.just("junk")
)
MARKED = st.fixed_dictionaries(
    {}, optional={COMPAT: RECORDS, kept.WRAPPED: st.booleans() | st.just("yes"), "own": st.just(1)}
)
VALUES: st.SearchStrategy[Any] = st.sampled_from([1, None, [], {}, {"value": 1}, "x"])
DATA = st.dictionaries(st.sampled_from(["value", "other"]), VALUES)


@st.composite
def parts(draw: st.DrawFn) -> v03.Part:
    """Parts that look as if we had written them, nearly."""
    part = draw(arbitrary(v03.Part))
    if draw(st.booleans()):
        part.data.data.CopyFrom(struct(draw(DATA)))
    if draw(st.booleans()):
        part.metadata.CopyFrom(struct(draw(MARKED)))
    return part


@st.composite
def said(draw: st.DrawFn) -> v03.Message:
    message = draw(arbitrary(v03.Message))
    message.content.extend(draw(st.lists(parts(), max_size=3)))
    if draw(st.booleans()):
        message.role = v03.ROLE_USER
        message.metadata.CopyFrom(struct(draw(MARKED)))
    return message


@st.composite
def legacy_tasks(draw: st.DrawFn) -> v03.Task:
    task = draw(arbitrary(v03.Task))
    task.history.extend(draw(st.lists(said(), max_size=2)))
    for artifact in task.artifacts:
        artifact.parts.extend(draw(st.lists(parts(), max_size=2)))
    return task


LEGACY_EVENTS = (
    arbitrary(v03.StreamResponse)
    | st.builds(v03.StreamResponse, task=legacy_tasks())
    | st.builds(v03.StreamResponse, msg=said())
)
LEGACY_ANSWERS = st.builds(v03.SendMessageResponse, task=legacy_tasks()) | st.builds(
    v03.SendMessageResponse, msg=said()
)


BACK: list[Any] = [
    pytest.param(said(), lambda legacy: messages.downgrade(messages.upgrade(legacy)), id="Message"),
    pytest.param(legacy_tasks(), lambda legacy: tasks.downgrade(tasks.upgrade(legacy)), id="Task"),
    pytest.param(LEGACY_EVENTS, stream_item, id="StreamResponse"),
    pytest.param(
        LEGACY_ANSWERS, lambda legacy: events.downgrade_answer(events.upgrade_answer(legacy)), id="SendMessageResponse"
    ),
]


@pytest.mark.req("LMAP-02")
@pytest.mark.parametrize(("strategy", "trip"), BACK)
@given(data=st.data())
def test_what_0_3_can_say_survives_1_0(
    strategy: st.SearchStrategy[Any], trip: Callable[[Any], Any], data: st.DataObject
) -> None:
    legacy = data.draw(strategy)
    if mappable(legacy):
        event("mapped")
        assert trip(legacy) == normal_legacy(legacy)
    else:
        event("refused")
        with pytest.raises(A2AError) as refused:
            trip(legacy)
        assert refused.value.reason is Reason.INVALID_PARAMS
        assert refused.value.violations


@st.composite
def legacy_sends(draw: st.DrawFn) -> v03.SendMessageRequest:
    request = draw(arbitrary(v03.SendMessageRequest))
    if draw(st.booleans()):
        request.request.CopyFrom(draw(said().filter(mappable)))
    return request


def normal_legacy_send(legacy: v03.SendMessageRequest) -> v03.SendMessageRequest:
    result = normal_legacy(legacy)
    config = result.configuration.push_notification
    if result.configuration.HasField("push_notification"):
        normal_authentication(config)
    if result.configuration == v03.SendMessageConfiguration():
        result.ClearField("configuration")
    return result


def normal_authentication(config: v03.PushNotificationConfig) -> None:
    schemes = [scheme for scheme in config.authentication.schemes if scheme]
    if config.HasField("authentication"):
        config.authentication.schemes[:] = schemes[:1]
        if config.authentication == v03.AuthenticationInfo():
            config.ClearField("authentication")


@pytest.mark.req("LMAP-02")
@given(legacy=legacy_sends())
def test_0_3_sends_survive_1_0(legacy: v03.SendMessageRequest) -> None:
    if mappable(legacy):
        assert sends.downgrade(sends.upgrade(legacy)) == normal_legacy_send(legacy)
    else:
        with pytest.raises(A2AError, match=r"request|fields|push_notification"):
            sends.upgrade(legacy)


@st.composite
def legacy_configs(draw: st.DrawFn) -> v03.TaskPushNotificationConfig:
    own = draw(arbitrary(v03.PushNotificationConfig))
    own.id = draw(IDS)
    return v03.TaskPushNotificationConfig(name=names.config_name(draw(IDS), own.id), push_notification_config=own)


@pytest.mark.req("LMAP-02")
@given(legacy=legacy_configs())
def test_0_3_push_configs_survive_1_0(legacy: v03.TaskPushNotificationConfig) -> None:
    schemes = push.schemes_of(legacy.push_notification_config)
    kept_whole = push.downgrade(push.upgrade(legacy), schemes=schemes)
    assert list(kept_whole.push_notification_config.authentication.schemes) == schemes
    normal_authentication(legacy.push_notification_config)
    assert push.downgrade(push.upgrade(legacy)) == legacy


@st.composite
def legacy_cards(draw: st.DrawFn) -> v03.AgentCard:
    """Cards as they should be: of this version, all URLs different, the main one in front."""
    card = draw(arbitrary(v03.AgentCard))
    card.protocol_version = "0.3.0"
    urls = draw(st.lists(st.text(min_size=1), min_size=1, max_size=3, unique=True))
    transports = [draw(st.sampled_from(["JSONRPC", "HTTP+JSON", "urn:x"])) for _ in urls]
    del card.additional_interfaces[:]
    for url, transport in zip(urls, transports, strict=True):
        card.additional_interfaces.add(url=url, transport=transport)
    card.url, card.preferred_transport = urls[0], transports[0]
    card.capabilities.SetInParent()
    card.ClearField("signatures")
    return card


@pytest.mark.req("LMAP-02")
@given(legacy=legacy_cards())
def test_0_3_cards_survive_1_0(legacy: v03.AgentCard) -> None:
    assert cards.downgrade(cards.upgrade(legacy)) == legacy


@given(legacy=arbitrary(v03.AgentCard))
def test_any_0_3_card_can_be_read(legacy: v03.AgentCard) -> None:
    card = cards.upgrade(legacy)
    assert card.name == legacy.name
    assert len(card.skills) == len(legacy.skills)
