"""Our translation beside the official SDK's own: the same on common ground, and where it differs the test says why.

The SDK goes from the proto to its 0.3 models and from there to 1.0 (and back); both steps together are the peer here.
Its models also read the JSON that we write.
"""

from typing import Any

import orjson
import pytest
from a2a.compat.v0_3 import conversions, proto_utils, types
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3 import cards, messages
from a2a_server.protocol.v0_3 import grpc_calls as calls
from tests.property.dialects import within
from tests.property.messages import JSON
from tests.unit.protocol.codec.reference import canonical
from tests.unit.protocol.codec.strategies import messages as arbitrary
from tests.unit.protocol.spelling import KIND, KIND_REST

Json = dict[str, Any]
Objects = st.SearchStrategy[Json]

read: Any = proto_utils.FromProto
write: Any = proto_utils.ToProto
peer: Any = conversions

TEXT = st.text(max_size=4)
NAME = st.text("abc-1", min_size=1, max_size=4)
# Present and empty is lost by the peer; large numbers and such are told apart by its way over Python's dicts.
METADATA = st.dictionaries(NAME, JSON, min_size=1, max_size=2)
STAMP = st.just("2025-01-02T03:04:05.678Z")


def up(legacy: v03.Message) -> pb.Message:
    return calls.upgrade_send(v03.SendMessageRequest(request=legacy)).message


def down(message: pb.Message) -> v03.Message:
    return messages.Downgrade().task(pb.Task(history=[message])).history[0]


def some(always: dict[str, Any], /, **optional: Any) -> Objects:
    return st.fixed_dictionaries(always, optional=optional)


# -- 0.3

FILE = some({"fileWithUri": TEXT}, mimeType=NAME, name=NAME) | some(
    {"fileWithBytes": st.sampled_from(["QVAvKw==", "YUdWc2JHOD0="])}, mimeType=NAME, name=NAME
)
DATA = st.fixed_dictionaries({"data": st.dictionaries(NAME, JSON, min_size=1, max_size=2)})
LEGACY_PART = st.one_of(
    some({"text": TEXT}, metadata=METADATA),
    some({"file": FILE}, metadata=METADATA),
    some({"data": DATA}, metadata=METADATA),
)
ROLE = st.sampled_from(["ROLE_USER", "ROLE_AGENT"])
LEGACY_MESSAGE = some(
    {"messageId": TEXT, "role": ROLE, "content": st.lists(LEGACY_PART, max_size=3)},
    contextId=TEXT,
    taskId=TEXT,
    metadata=METADATA,
    extensions=st.lists(NAME, max_size=2),
)
WEBHOOK = some(
    {"url": TEXT, "id": NAME, "token": TEXT},
    authentication=some({"schemes": st.lists(NAME, min_size=1, max_size=2)}, credentials=NAME),
)
LEGACY_SEND = some(
    {
        "message": LEGACY_MESSAGE,
        "configuration": some(
            {"blocking": st.booleans(), "acceptedOutputModes": st.lists(NAME, min_size=1, max_size=2)},
            historyLength=st.integers(-5, 5),
            pushNotification=WEBHOOK,
        ),
    },
    metadata=METADATA,
)


@given(sent=LEGACY_SEND)
def test_sends_of_0_3(sent: Json) -> None:
    legacy = ParseDict(sent, v03.SendMessageRequest())
    params = read.message_send_params(legacy)
    theirs = pb.SendMessageRequest(message=peer.to_core_message(params.message))
    theirs.configuration.CopyFrom(peer.to_core_send_message_configuration(params.configuration))
    ours = calls.upgrade_send(legacy)
    if "metadata" in sent:
        theirs.metadata.CopyFrom(ours.metadata)  # theirs goes another way
    if theirs.configuration == pb.SendMessageConfiguration():
        theirs.ClearField("configuration")
    assert ours == theirs


# -- 1.0

PART = st.one_of(
    some({"text": TEXT}, metadata=METADATA),
    some({"url": TEXT}, filename=NAME, mediaType=NAME, metadata=METADATA),
    some({"raw": st.sampled_from(["QVAvKw==", ""])}, filename=NAME, mediaType=NAME, metadata=METADATA),
    some({"data": JSON}, metadata=METADATA),
)
MESSAGE = some(
    {"messageId": TEXT, "role": ROLE, "parts": st.lists(PART, max_size=3)},
    contextId=TEXT,
    taskId=TEXT,
    metadata=METADATA,
    extensions=st.lists(NAME, max_size=2),
)
STATUS = some({"state": st.sampled_from(pb.TaskState.keys())}, message=MESSAGE, timestamp=STAMP)
ARTIFACT = some(
    {"artifactId": TEXT, "parts": st.lists(PART, max_size=2)},
    name=TEXT,
    description=TEXT,
    metadata=METADATA,
    extensions=st.lists(NAME, max_size=2),
)
TASK = some(
    {"id": TEXT, "contextId": TEXT, "status": STATUS},
    artifacts=st.lists(ARTIFACT, max_size=2),
    history=st.lists(MESSAGE, max_size=2),
    metadata=METADATA,
)
ITEM = st.one_of(
    st.fixed_dictionaries({"task": TASK}),
    st.fixed_dictionaries({"message": MESSAGE}),
    st.fixed_dictionaries(
        {"statusUpdate": some({"taskId": TEXT, "contextId": TEXT, "status": STATUS}, metadata=METADATA)}
    ),
    st.fixed_dictionaries(
        {
            "artifactUpdate": some(
                {"taskId": TEXT, "contextId": TEXT, "artifact": ARTIFACT},
                append=st.booleans(),
                lastChunk=st.booleans(),
                metadata=METADATA,
            )
        }
    ),
)


@given(item=ITEM)
def test_streams_of_1_0(item: Json) -> None:
    response = ParseDict(item, pb.StreamResponse())
    theirs = write.stream_response(peer.to_compat_stream_response(response).result)
    ours = messages.Downgrade().item(response, last=theirs.status_update.final)
    assert bare(ours) == bare(theirs)


def bare(message: Any) -> Message:
    """Without metadata that is present and empty, which the peer writes where there was none."""
    for field, value in message.ListFields():
        if field.name == "metadata":
            if not value.fields:
                message.ClearField("metadata")
        elif field.message_type and not field.message_type.full_name.startswith("google."):
            for inner in value if field.is_repeated else [value]:
                bare(inner)
    return message  # type: ignore[no-any-return]


DOORS = st.lists(NAME, min_size=1, max_size=3, unique=True).map(
    lambda urls: [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"} for url in urls]
)
NEEDS = st.lists(st.fixed_dictionaries({"schemes": st.dictionaries(NAME, some({}, list=st.lists(NAME)))}), max_size=2)
FLOW = some({"tokenUrl": NAME, "scopes": st.dictionaries(NAME, NAME)}, refreshUrl=NAME)
SCHEME = st.one_of(
    st.fixed_dictionaries({"apiKeySecurityScheme": some({"location": st.just("header"), "name": NAME})}),
    st.fixed_dictionaries({"httpAuthSecurityScheme": some({"scheme": NAME}, bearerFormat=NAME, description=NAME)}),
    st.fixed_dictionaries({"openIdConnectSecurityScheme": some({"openIdConnectUrl": NAME})}),
    st.fixed_dictionaries({"mtlsSecurityScheme": some({}, description=NAME)}),
    st.fixed_dictionaries(
        {
            "oauth2SecurityScheme": some(
                {"flows": st.fixed_dictionaries({"clientCredentials": FLOW})}, oauth2MetadataUrl=NAME
            )
        }
    ),
)
CARD = some(
    {
        "name": NAME,
        "description": NAME,
        "version": NAME,
        "supportedInterfaces": DOORS,
        "capabilities": some(
            {"streaming": st.booleans(), "pushNotifications": st.booleans(), "extendedAgentCard": st.booleans()},
            extensions=st.lists(
                some({"uri": NAME}, description=NAME, required=st.booleans(), params=METADATA), max_size=2
            ),
        ),
        "skills": st.lists(
            some(
                {"id": NAME, "name": NAME, "description": NAME, "tags": st.lists(NAME)},
                examples=st.lists(NAME, min_size=1),
                inputModes=st.lists(NAME, min_size=1),
                securityRequirements=NEEDS,
            ),
            max_size=2,
        ),
    },
    provider=st.fixed_dictionaries({"url": NAME, "organization": NAME}),
    documentationUrl=NAME,
    iconUrl=NAME,
    defaultInputModes=st.lists(NAME),
    securitySchemes=st.dictionaries(NAME, SCHEME, max_size=3),
    securityRequirements=NEEDS,
)


@given(told=CARD)
def test_cards_of_1_0(told: Json) -> None:
    card = ParseDict(told, pb.AgentCard())
    ours, theirs = cards.downgrade(card), write.agent_card(peer.to_compat_agent_card(card))
    # It lists the further interfaces only, where 0.3 wants all of them, and calls the version by 1.0's name.
    assert [*ours.additional_interfaces][1:] == [*theirs.additional_interfaces]
    assert (ours.protocol_version, theirs.protocol_version) == ("0.3.0", "0.3")
    theirs.protocol_version = ours.protocol_version
    ours.ClearField("additional_interfaces")
    theirs.ClearField("additional_interfaces")
    assert ours == theirs


# -- where we differ


def test_what_0_3_has_no_place_for_is_dropped_there_and_kept_here() -> None:
    message = pb.Message(role="ROLE_USER", parts=[pb.Part(text="", filename="f")], reference_task_ids=["a"])
    theirs = write.message(peer.to_compat_message(message))
    assert peer.to_core_message(read.message(theirs)) == pb.Message(role="ROLE_USER", parts=[pb.Part(text="")])
    assert up(down(message)) == message


def test_the_end_of_a_stream_at_a_question_is_final_here_but_not_there() -> None:
    status = pb.TaskStatus(state="TASK_STATE_INPUT_REQUIRED")
    item = pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(status=status))
    assert not write.stream_response(peer.to_compat_stream_response(item).result).status_update.final
    assert messages.Downgrade().item(item, last=True).status_update.final  # as 0.3's guide to streaming has it


def test_a_send_without_configuration_waits_there_but_not_here() -> None:
    legacy = v03.SendMessageRequest(request=v03.Message(role="ROLE_USER"))
    assert read.message_send_params(legacy).configuration is None
    assert calls.upgrade_send(legacy).configuration.return_immediately  # protobuf's false (CONF-08)


def test_bytes_that_are_no_base64_break_there_but_not_here() -> None:
    legacy = v03.Message(role="ROLE_USER", content=[v03.Part(file=v03.FilePart(file_with_bytes=b"\xff\xd8"))])
    with pytest.raises(UnicodeDecodeError):
        read.message(legacy)
    assert up(legacy).parts[0].raw == b"\xff\xd8"


def test_a_role_that_is_absent_is_the_agent_there_and_absent_here() -> None:
    assert peer.to_core_message(read.message(v03.Message())).role == pb.ROLE_AGENT
    assert up(v03.Message()).role == pb.ROLE_UNSPECIFIED  # which the core refuses


def test_names_with_something_behind_them_are_read_there_but_not_here() -> None:
    legacy = v03.GetTaskRequest(name="tasks/t/else")
    assert read.task_query_params(legacy).id == "t"
    with pytest.raises(Exception, match=r"tasks/\{id\}"):
        calls.upgrade_get(legacy)


def test_signatures_over_the_other_form_go_along_there_but_not_here() -> None:
    card = pb.AgentCard(signatures=[pb.AgentCardSignature(protected="e30", signature="e30")])
    card.supported_interfaces.add(url="u:x", protocol_binding="JSONRPC", protocol_version="0.3")
    assert write.agent_card(peer.to_compat_agent_card(card)).signatures
    assert not cards.downgrade(card).signatures


def test_null_and_text_in_data_are_unwrapped_by_the_peer_as_by_us() -> None:
    for value in (None, "x", [1.0], True):
        message = ParseDict({"role": "ROLE_USER", "parts": [{"data": value}]}, pb.Message())
        legacy = down(message)
        assert peer.to_core_message(read.message(legacy)) == up(legacy) == message


# -- JSON

MANY = settings(max_examples=40, deadline=None)

MODELS: list[Any] = [
    (pb.Task, types.Task),
    (pb.TaskPushNotificationConfig, types.TaskPushNotificationConfig),
]


def sound(message: Any) -> Any:
    """With what the schema cannot do without."""
    for said in within(pb.Message, message):
        if said.role not in {pb.ROLE_USER, pb.ROLE_AGENT}:
            said.role = pb.ROLE_AGENT
    return message


def dumped(model: BaseModel) -> Any:
    return orjson.loads(model.model_dump_json(by_alias=True, exclude_none=True))


@pytest.mark.req("LRPC-03", "LRPC-04")
@pytest.mark.parametrize(("kind", "model"), MODELS, ids=[model.__name__ for _, model in MODELS])
@MANY
@given(data=st.data())
def test_the_models_read_what_is_written(kind: type[Message], model: type[BaseModel], data: st.DataObject) -> None:
    message = sound(data.draw(arbitrary(kind)))
    for codec in KIND[:2]:
        written = orjson.loads(codec.encode(message))
        dump = dumped(model.model_validate(written))
        assert canonical(dump) == canonical(written)


ITEMS = arbitrary(pb.StreamResponse).filter(lambda item: item.WhichOneof("payload")).map(sound)
ANSWERS = arbitrary(pb.SendMessageResponse).filter(lambda item: item.WhichOneof("payload")).map(sound)


@pytest.mark.req("LRPC-02", "LRPC-05")
@MANY
@given(item=ITEMS)
def test_items_of_streams_are_bare_objects(item: pb.StreamResponse) -> None:
    for final, codec in enumerate(KIND[:2]):
        written = orjson.loads(codec.encode(item))
        told = types.SendStreamingMessageSuccessResponse.model_validate({"id": 1, "result": written}).result
        assert told.kind == item.WhichOneof("payload").replace("_", "-")
        assert canonical(dumped(told)) == canonical(written)
        if isinstance(told, types.TaskStatusUpdateEvent):
            assert told.final is bool(final)
            assert [*written][:2] == ["kind", "final"]
        assert next(iter(written)) == "kind"


@pytest.mark.req("LRPC-02", "LRPC-08")
@MANY
@given(answer=ANSWERS)
def test_answers_of_sends_are_bare_objects(answer: pb.SendMessageResponse) -> None:
    written = orjson.loads(KIND.codec.encode(answer))
    told = types.SendMessageSuccessResponse.model_validate({"id": 1, "result": written}).result
    assert told.kind == answer.WhichOneof("payload")
    assert canonical(dumped(told)) == canonical(written)
    assert [*orjson.loads(KIND_REST.codec.encode(answer)).items()] == [(told.kind, written)]
    assert next(iter(written)) == "kind"
