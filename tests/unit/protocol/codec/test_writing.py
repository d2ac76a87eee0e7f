"""What is written, member by member."""

from typing import Any

import orjson
import pytest
from google.protobuf import any_pb2, duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import Codec, Dialect
from a2a_server.protocol.errors import A2AError, Reason
from a2a_server.protocol.json_v1 import V1
from tests.unit.protocol.codec.everything import Choice, Inner, Lists, Loop, Maps, Optionals, Required, Singles


def written(message: Message) -> Any:
    return orjson.loads(V1.encode(message))


def complaint(message: Message) -> str:
    with pytest.raises(A2AError) as caught:
        V1.encode(message)
    assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE
    return caught.value.message.removeprefix("The answer can't be written as JSON: ")


@pytest.mark.req("JSON-01", "JSON-02", "JSON-11")
def test_members_are_in_camel_case_and_enums_in_full() -> None:
    event = pb.TaskStatusUpdateEvent(task_id="t", context_id="c", status={"state": pb.TASK_STATE_INPUT_REQUIRED})
    assert written(event) == {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}
    message = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[{"text": "x", "media_type": "text/plain"}])
    parts = [{"text": "x", "mediaType": "text/plain"}]
    assert written(message) == {"messageId": "m", "role": "ROLE_USER", "parts": parts}


@pytest.mark.req("JSON-12")
def test_text_is_utf_8() -> None:
    assert V1.encode(pb.Part(text='ü\U0001f600"\\\n')) == '{"text":"ü\U0001f600\\"\\\\\\n"}'.encode()


@pytest.mark.req("JSON-09")
@pytest.mark.parametrize(
    ("message", "json"),
    [
        (pb.Message(), {"messageId": "", "role": "ROLE_UNSPECIFIED", "parts": []}),
        (pb.Task(), {"id": "", "status": {"state": "TASK_STATE_UNSPECIFIED"}}),
        (pb.ListTasksResponse(), {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0}),
        (pb.ListTaskPushNotificationConfigsResponse(), {}),
        (pb.Artifact(), {"artifactId": "", "parts": []}),
        (pb.AuthorizationCodeOAuthFlow(), {"authorizationUrl": "", "tokenUrl": "", "scopes": {}}),
        (pb.TaskStatusUpdateEvent(), {"taskId": "", "contextId": "", "status": {"state": "TASK_STATE_UNSPECIFIED"}}),
        (
            pb.AgentCard(),
            {
                "name": "", "description": "", "version": "", "capabilities": {}, "supportedInterfaces": [],
                "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
            },
        ),
        (
            Required(),  # not `loop`, which would go on for ever, nor a time and a value that nobody has given
            {
                "myString": "", "myInt64": "0", "myDouble": 0, "myBool": False, "myBytes": "",
                "myColour": "COLOUR_UNSPECIFIED", "myInner": {}, "myStruct": {}, "myList": [],
            },
        ),
        (Loop(again={"name": "x"}), {"name": "", "again": {"name": "x"}}),
    ],
)  # fmt: skip
def test_required_members_are_always_written(message: Message, json: Any) -> None:
    assert written(message) == json


@pytest.mark.req("JSON-10")
def test_optional_members_are_written_exactly_when_set() -> None:
    assert written(Optionals()) == {}
    unset = Optionals(my_int32=0, my_string="", my_bool=False, my_colour=0, my_double=0, my_bytes=b"")
    assert written(unset) == {
        "myInt32": 0, "myString": "", "myBool": False, "myColour": "COLOUR_UNSPECIFIED", "myDouble": 0, "myBytes": "",
    }  # fmt: skip
    assert written(Required(my_optional="")) == {**written(Required()), "myOptional": ""}
    assert written(pb.AgentCapabilities(streaming=False)) == {"streaming": False}
    assert written(pb.GetTaskRequest(id="t", history_length=0)) == {"id": "t", "historyLength": 0}


def test_other_members_are_left_out_when_they_hold_their_default() -> None:
    event = pb.TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact={"artifact_id": "a"}, append=False)
    assert written(event).keys() == {"taskId", "contextId", "artifact"}
    for message in (Singles(one_int32=0, one_string=""), Lists(many_inner=[]), Maps(string_int32={})):
        assert written(message) == {}
    assert V1.encode(Singles(one_double=-0.0)) == b'{"oneDouble":-0.0}'


@pytest.mark.req("JSON-05")
def test_bytes_are_base64_of_the_standard_alphabet_with_padding() -> None:
    assert written(pb.Part(raw=b"\xfb\xff\xbff")) == {"raw": "+/+/Zg=="}
    assert written(pb.Part(raw=b"")) == {"raw": ""}


@pytest.mark.req("JSON-07", "JSON-08")
@pytest.mark.parametrize(
    ("seconds", "nanos", "text"),
    [
        (1770091506, 0, "2026-02-03T04:05:06.000Z"),
        (1770091506, 789_000_000, "2026-02-03T04:05:06.789Z"),
        (1770091506, 789_999_999, "2026-02-03T04:05:06.789Z"),
        (1770091506, 999_999, "2026-02-03T04:05:06.000Z"),
        (0, 1_000_000, "1970-01-01T00:00:00.001Z"),
        (-1, 999_000_000, "1969-12-31T23:59:59.999Z"),
        (-62135596800, 0, "0001-01-01T00:00:00.000Z"),
        (253402300799, 999_999_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_written_in_utc_with_milliseconds(seconds: int, nanos: int, text: str) -> None:
    status = pb.TaskStatus(state=pb.TASK_STATE_WORKING, timestamp=timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos))
    assert written(status) == {"state": "TASK_STATE_WORKING", "timestamp": text}


@pytest.mark.req("JSON-06")
@pytest.mark.parametrize(
    ("value", "json"),
    [
        (struct_pb2.Value(), b"null"),
        (struct_pb2.Value(null_value=struct_pb2.NULL_VALUE), b"null"),
        (struct_pb2.Value(bool_value=False), b"false"),
        (struct_pb2.Value(string_value=""), b'""'),
        (struct_pb2.Value(number_value=3), b"3"),  # as it was sent, not as 3.0
        (struct_pb2.Value(number_value=0), b"0"),
        (struct_pb2.Value(number_value=-0.0), b"-0.0"),
        (struct_pb2.Value(number_value=-1.5), b"-1.5"),
        (struct_pb2.Value(number_value=2.0**53), b"9007199254740992"),
        (struct_pb2.Value(number_value=2.0**53 + 2), b"9007199254740994.0"),
        (struct_pb2.Value(number_value=1e300), b"1e+300"),
        (struct_pb2.Value(struct_value=struct_pb2.Struct()), b"{}"),
        (struct_pb2.Value(list_value=struct_pb2.ListValue(values=[struct_pb2.Value()])), b"[null]"),
    ],
)
def test_data_is_any_json_value(value: struct_pb2.Value, json: bytes) -> None:
    assert V1.encode(pb.Part(data=value)) == b'{"data":%b}' % json


def test_what_has_no_name_is_written_as_a_number() -> None:
    assert written(Singles(one_colour=77)) == {"oneColour": 77}
    assert written(pb.Task(id="t", status={"state": -3})) == {"id": "t", "status": {"state": -3}}  # type: ignore[arg-type, dict-item, typeddict-item, unused-ignore]


@pytest.mark.parametrize(
    ("message", "json"),
    [
        (
            Singles(one_int64=2**53 + 1, one_uint64=2**64 - 1),
            {"oneInt64": "9007199254740993", "oneUint64": str(2**64 - 1)},
        ),
        (Singles(one_float=0.1, one_double=0.1), {"oneFloat": 0.1, "oneDouble": 0.1}),
        (Singles(one_float=1.10312204e-10), {"oneFloat": 1.10312204e-10}),
        (Singles(one_float=float("nan"), one_double=float("-inf")), {"oneFloat": "NaN", "oneDouble": "-Infinity"}),
        (Singles(**{"from": "x", "renamed": "y"}), {"from": "x", "otherName": "y"}),
        (Singles(one_duration=duration_pb2.Duration(seconds=-1, nanos=-500_000_000)), {"oneDuration": "-1.500s"}),
        (
            Singles(one_fieldmask=field_mask_pb2.FieldMask(paths=["some_name", "a.b_c"])),
            {"oneFieldmask": "someName,a.bC"},
        ),
        (Singles(one_int32value=wrappers_pb2.Int32Value()), {"oneInt32value": 0}),
        (Singles(one_uint64value=wrappers_pb2.UInt64Value(value=5)), {"oneUint64value": "5"}),
        (Choice(a_nullvalue=0), {"aNullvalue": None}),
        (Choice(a_int32=0), {"aInt32": 0}),
        (Lists(many_colour=[1, 5], many_int64=[1]), {"manyColour": ["COLOUR_RED", 5], "manyInt64": ["1"]}),
        (Maps(bool_int32={True: 1}, int32_inner={-1: Inner()}), {"boolInt32": {"true": 1}, "int32Inner": {"-1": {}}}),
    ],
)
def test_types_that_no_vendored_proto_uses_yet(message: Message, json: Any) -> None:
    assert written(message) == json


def test_an_any_is_written_by_its_type() -> None:
    known = any_pb2.Any()
    known.Pack(ErrorInfo(reason="R", metadata={"a": "b"}))
    url = "type.googleapis.com/google.rpc.ErrorInfo"
    assert written(known) == {"@type": url, "reason": "R", "metadata": {"a": "b"}}
    known.Pack(duration_pb2.Duration(seconds=3))
    assert written(known) == {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "3s"}
    assert written(any_pb2.Any()) == {}


@pytest.mark.parametrize("url", ["x/no.such.Type", "x/google.rpc.ErrorInfo", ""])
def test_an_any_that_cannot_be_understood_is_passed_on_as_it_is(url: str) -> None:
    assert written(any_pb2.Any(type_url=url, value=b"\xff\xff")) == {"@type": url, "value": "//8="}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (pb.Part(data=struct_pb2.Value(number_value=float("nan"))), "it holds the number nan."),
        (pb.Part(data=struct_pb2.Value(number_value=float("-inf"))), "it holds the number -inf."),
        (
            timestamp_pb2.Timestamp(seconds=253402300800),
            "it holds a time 253402300800 seconds and 0 nanoseconds after 1970.",
        ),
        (timestamp_pb2.Timestamp(nanos=-1), "it holds a time 0 seconds and -1 nanoseconds after 1970."),
        (duration_pb2.Duration(seconds=1, nanos=-1), "Duration is not valid: Sign mismatch."),
    ],
)
def test_what_json_cannot_hold_is_an_error_of_the_answer(message: Message, said: str) -> None:
    assert complaint(message) == said


def test_a_dialect_decides_about_names_times_and_what_is_always_there() -> None:
    codec = Codec(
        Dialect(
            member=lambda field: f"x-{field.name}",
            always=lambda field: field.name == "context_id",
            time=lambda time: f"{time.seconds}s",
        )
    )
    task = pb.Task(status={"timestamp": timestamp_pb2.Timestamp(seconds=7)})
    assert orjson.loads(codec.encode(task)) == {"x-context_id": "", "x-status": {"x-timestamp": "7s"}}
    for name in ("x-context_id", "context_id", "contextId"):
        assert codec.decode({name: "c"}, pb.Task) == pb.Task(context_id="c")
    value = {"x-status": {"state": "DONE"}, "x-id": "a", "id": "b", "contextId": "", "context_id": ""}
    with pytest.raises(A2AError) as caught:
        codec.decode(value, pb.Task)
    said = {violation.field: violation.description for violation in caught.value.violations}
    assert said.pop("x-status.x-state").startswith("must be one of TASK_STATE_SUBMITTED, ")
    assert said == {
        "x-id": "is given twice, as x-id and as id",
        "x-context_id": "is given twice, as contextId and as context_id",
    }
