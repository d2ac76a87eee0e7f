"""Every form that a value may have in JSON, and the words for those that it may not have."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from google.rpc.error_details_pb2 import ErrorInfo

from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.codec import loads
from a2a_server.protocol.errors import A2AError, Reason, Violation
from a2a_server.protocol.json_v1 import V1
from tests.unit.protocol.codec.everything import Choice, Lists, Loop, Maps, Optionals, Singles

INT32 = "must be a whole number from -2147483648 to 2147483647"
INT64 = "must be a whole number from -9223372036854775808 to 9223372036854775807"
UINT64 = "must be a whole number from 0 to 18446744073709551615"
COLOUR = "must be one of COLOUR_RED, COLOUR_BLUE"
TIME = 'must be a time such as "2026-02-03T04:05:06.789Z"'
DURATION = 'must be a duration such as "1.5s"'


def complaint(value: Any, kind: Any) -> tuple[str, str]:
    with pytest.raises(A2AError) as caught:
        V1.decode(value, kind)
    (violation,) = caught.value.violations
    assert caught.value.message == f"{violation.field}: {violation.description}"
    return violation.field, violation.description


@pytest.mark.req("JSON-03")
@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("int32", "5", 5),
        ("int32", "-0", 0),
        ("int32", "1.0", 1),
        ("int32", 1.0, 1),
        ("int32", "1e3", 1000),
        ("int32", loads(b"1e3"), 1000),
        ("int32", loads(b"2147483647.0"), 2**31 - 1),
        ("int64", 2**53 + 1, 2**53 + 1),
        ("int64", "9007199254740993", 2**53 + 1),
        ("int64", "-9223372036854775808", -(2**63)),
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("double", "1.5", 1.5),
        ("double", "-Infinity", float("-inf")),
        ("double", 2**53 + 1, 2.0**53),
        ("float", 3.4028235e38, 3.4028234663852886e38),
        ("bool", False, False),
        ("colour", "COLOUR_BLUE", 2),
        ("colour", 2, 2),
        ("colour", "2", 2),
        ("colour", 2.0, 2),
        ("colour", -77, -77),  # enums are open: what has no name is for others to refuse
        ("string", None, ""),
        ("inner", None, None),
    ],
)
def test_a_value_may_have_other_forms(name: str, value: Any, read: Any) -> None:
    message = V1.decode({f"one_{name}": value}, Singles)
    assert message == (Singles() if read is None else Singles(**{f"one_{name}": read}))
    assert V1.decode({f"one{name.capitalize()}": value}, Singles) == message


@pytest.mark.req("JSON-03", "JSON-13")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("Int32", 1.5, f"{INT32}, got 1.5"),
        ("Int32", "1.5", f'{INT32}, got "1.5"'),
        ("Int32", 2**31, f"{INT32}, got 2147483648"),
        ("Int32", "-2147483649", f'{INT32}, got "-2147483649"'),
        ("Int32", "1e400", f'{INT32}, got "1e400"'),
        ("Int32", 10**400, f"{INT32}, got a huge number"),
        ("Int32", "9" * 5000, f'{INT32}, got "{"9" * 40}"…'),
        ("Int32", "NaN", f'{INT32}, got "NaN"'),
        ("Int32", "", f'{INT32}, got ""'),
        ("Int32", "+5", f'{INT32}, got "+5"'),
        ("Int32", "05", f'{INT32}, got "05"'),
        ("Int32", " 5", f'{INT32}, got " 5"'),
        ("Int32", "5\n", f'{INT32}, got "5\\n"'),
        ("Int32", "1_0", f'{INT32}, got "1_0"'),
        ("Int32", "٣", f'{INT32}, got "٣"'),  # a digit to Python
        ("Int32", "0x5", f'{INT32}, got "0x5"'),
        ("Int32", True, f"{INT32}, got true"),
        ("Int32", [], f"{INT32}, got a list"),
        ("Int64", 2**63, f"{INT64}, got 9223372036854775808"),
        ("Int64", 9.3e18, f"{INT64}, got 9.3e+18"),
        ("Uint64", -1, f"{UINT64}, got -1"),
        ("Uint64", float(2**64), f"{UINT64}, got 1.8446744073709552e+19"),
        ("Fixed32", 2**32, "must be a whole number from 0 to 4294967295, got 4294967296"),
        ("Double", "1e400", 'must be a number, got "1e400"'),
        ("Double", float("inf"), "must be a number, got Infinity"),
        ("Double", "inf", 'must be a number, got "inf"'),
        ("Double", False, "must be a number, got false"),
        ("Float", 3.5e38, "must be a number of single precision, got 3.5e+38"),
        ("Bool", "true", 'must be true or false, got "true"'),
        ("Bool", 1, "must be true or false, got 1"),
        ("String", 5, "must be a string, got 5"),
        ("String", True, "must be a string, got true"),
        ("String", {"a": 1}, "must be a string, got an object"),
        ("String", "a\ud800", "must hold no lone surrogates"),
        ("Bytes", 5, "must be base64, got 5"),
        ("Colour", "RED", f'{COLOUR}, got "RED"'),
        ("Colour", "colour_red", f'{COLOUR}, got "colour_red"'),
        ("Colour", 1.5, f"{COLOUR}, got 1.5"),
        ("Colour", "1.0", f'{COLOUR}, got "1.0"'),
        ("Colour", 2**31, f"{COLOUR}, got 2147483648"),
        ("Colour", True, f"{COLOUR}, got true"),
        ("Colour", ["COLOUR_RED"], f"{COLOUR}, got a list"),
        ("Inner", "x", "must be an object, got a string"),
        ("Inner", "", "must be an object, got a string"),
        ("Inner", [], "must be an object, got a list"),
        ("Struct", [], "must be an object, got a list"),
        ("Listvalue", {}, "must be a list, got an object"),
        ("Int32value", "x", f'{INT32}, got "x"'),
        ("Duration", "1.5", f'{DURATION}, got "1.5"'),
        ("Duration", "1_0s", f'{DURATION}, got "1_0s"'),
        ("Duration", "400000000000s", f'{DURATION}, got "400000000000s"'),
        ("Fieldmask", "some_name", 'must be names such as "user.displayName,photo", got "some_name"'),
        ("Fieldmask", 3, 'must be names such as "user.displayName,photo", got 3'),
    ],
)
def test_a_wrong_value_is_told_what_would_be_right(name: str, value: Any, said: str) -> None:
    assert complaint({f"one{name}": value}, Singles) == (f"one{name}", said)


@pytest.mark.req("JSON-05")
@pytest.mark.parametrize("text", ["+/+/Zg==", "-_-_Zg==", "+/-_Zg==", "-_-_Zg", "+/+/Zg="])
def test_base64_may_be_url_safe_and_unpadded(text: str) -> None:
    assert V1.decode({"raw": text}, pb.Part).raw == b"\xfb\xff\xbff"


@pytest.mark.req("JSON-05")
@pytest.mark.parametrize("text", ["Z", "Zg===", "====", "=", "Zg==Zg==", "Z g=", "Zm9v\n", "Zm9v$", "é", "Zm9vZ"])
def test_anything_else_is_no_base64(text: str) -> None:
    assert complaint({"raw": text}, pb.Part) == ("raw", "must be base64, got a string")


@pytest.mark.req("JSON-07")
@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        ("2026-02-03T04:05:06Z", 1770091506, 0),
        ("2026-02-03T04:05:06.7Z", 1770091506, 700_000_000),
        ("2026-02-03T04:05:06.123456789Z", 1770091506, 123456789),
        ("2026-02-03T09:35:06+05:30", 1770091506, 0),
        ("2026-02-02T20:05:06.000000001-08:00", 1770091506, 1),
        ("2026-02-03T04:05:06-00:00", 1770091506, 0),
        ("2028-02-29T23:59:59Z", 1835481599, 0),
        ("0001-01-01T00:00:00Z", -62135596800, 0),
        ("9999-12-31T23:59:59.999999999Z", 253402300799, 999999999),
    ],
)
def test_times_are_read_with_any_offset_and_to_the_nanosecond(text: str, seconds: int, nanos: int) -> None:
    time = V1.decode({"statusTimestampAfter": text}, pb.ListTasksRequest).status_timestamp_after
    assert (time.seconds, time.nanos) == (seconds, nanos)


@pytest.mark.parametrize(
    "value",
    [
        "2026-02-30T00:00:00Z", "2026-02-03T24:00:00Z", "2026-02-03T04:05:60Z", "0000-01-01T00:00:00Z", "2026-02-03",
        "2026-02-03 04:05:06Z", "2026-02-03t04:05:06z", "2026-02-03T04:05:06", "2026-W06-2T04:05:06Z", "now",
        "2026-02-03T04:05:06.Z", "2026-02-03T04:05:06.1234567891Z", "2026-02-03T04:05:06+24:00", "2026-2-3T4:5:6Z",
        "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "2026-02-03T04:05:06Z ",
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(value: str) -> None:
    assert complaint({"oneTimestamp": value}, Singles) == ("oneTimestamp", f'{TIME}, got "{value}"')
    assert complaint({"oneTimestamp": 17}, Singles) == ("oneTimestamp", f"{TIME}, got 17")


@pytest.mark.req("JSON-03", "JSON-06")
@pytest.mark.parametrize(
    "value", [None, True, 0, -0.5, "", "x", [], {}, [None, {"a": [{}]}], {"a": {"b": None}, "": 1}]
)
def test_data_is_any_json_value(value: Any) -> None:
    part = V1.decode({"data": value}, pb.Part)
    assert part.WhichOneof("content") == "data"
    assert MessageToDict(part) == {"data": value}
    assert V1.decode({"metadata": {"x": value}}, pb.Part).metadata == V1.decode({"x": value}, type(part.metadata))


@pytest.mark.req("JSON-03")
def test_null_is_not_set() -> None:
    value: dict[str, Any] = {field.json_name: None for field in pb.Message.DESCRIPTOR.fields}
    assert V1.decode(value, pb.Message) == pb.Message()
    assert not V1.decode({"myInt32": None}, Optionals).HasField("my_int32")
    assert not V1.decode({"oneInner": None, "oneInt32value": None}, Singles).ListFields()
    assert V1.decode({"manyInner": None, "many_value": None}, Lists) == Lists()


@pytest.mark.req("JSON-03")
@pytest.mark.parametrize(
    ("value", "kind", "place"),
    [
        ({"manyString": ["a", None]}, Lists, ("manyString[1]", "must be a string, got null")),
        ({"manyInner": [None]}, Lists, ("manyInner[0]", "must be an object, got null")),
        ({"stringString": {"a": None}}, Maps, ('stringString["a"]', "must be a string, got null")),
        ({"stringInner": {"a": None}}, Maps, ('stringInner["a"]', "must be an object, got null")),
    ],
)
def test_null_is_no_element(value: Any, kind: Any, place: tuple[str, str]) -> None:
    assert complaint(value, kind) == place


@pytest.mark.req("JSON-06")
def test_null_is_an_element_where_it_is_a_value() -> None:
    message = V1.decode({"manyValue": [None, 1]}, Lists)
    assert [value.WhichOneof("kind") for value in message.many_value] == ["null_value", "number_value"]
    assert V1.decode({"stringValue": {"a": None}}, Maps).string_value["a"].HasField("null_value")


RIVALS = "only one of text, raw, url, data may be"


@pytest.mark.req("JSON-04")
@pytest.mark.parametrize(
    ("value", "name", "other"),
    [
        ({"text": "a", "url": "b"}, "url", "text"),
        ({"url": "b", "text": "a"}, "url", "text"),
        ({"text": "", "raw": ""}, "raw", "text"),
        ({"text": "a", "data": 1}, "data", "text"),
        ({"text": "a", "data": None}, "data", "text"),  # null is a value there
    ],
)
def test_two_members_of_a_oneof_are_an_error_naming_both(value: Any, name: str, other: str) -> None:
    assert complaint(value, pb.Part) == (name, f"can't be given together with {other}; {RIVALS}")


@pytest.mark.req("JSON-04")
def test_a_oneof_counts_members_under_all_their_names() -> None:
    rivals = "only one of aValue, aNullvalue, aString, aInt32, aInner, aStruct, aBytes may be"
    for value in ({"a_int32": 1, "aString": "x"}, {"a_int32": 1, "a_string": "x"}):
        assert complaint(value, Choice) == ("aInt32", f"can't be given together with aString; {rivals}")
    said = f"can't be given together with aValue; {rivals}"
    for name in ("aValue", "a_value"):
        assert complaint({name: None, "a_bytes": ""}, Choice) == ("aBytes", said)
    assert V1.decode({"aString": None, "a_int32": 1, "a_bytes": None}, Choice) == Choice(a_int32=1)


@pytest.mark.req("JSON-04")
def test_null_beside_a_member_of_a_oneof_is_no_second_member() -> None:
    for value in ({"text": "a", "url": None}, {"raw": None, "text": "a"}):
        assert V1.decode(value, pb.Part) == pb.Part(text="a")
    assert V1.decode({"data": None, "text": None}, pb.Part).WhichOneof("content") == "data"
    assert V1.decode({"text": None}, pb.Part).WhichOneof("content") is None


@pytest.mark.req("JSON-01", "JSON-03")
def test_a_field_is_read_under_both_its_names_but_not_both_at_once() -> None:
    assert V1.decode({"message_id": "m"}, pb.Message) == V1.decode({"messageId": "m"}, pb.Message)
    assert V1.decode({"from": "a", "otherName": "b"}, Singles) == V1.decode({"from": "a", "renamed": "b"}, Singles)
    for value in ({"message_id": "a", "messageId": "a"}, {"message_id": None, "messageId": "a"}):
        said = ("messageId", "is given twice, as messageId and as message_id")
        assert complaint(value, pb.Message) == said
    assert complaint({"message_id": "a", "messageId": None}, pb.Message) == said


@pytest.mark.req("GEN-06", "JSON-11")
def test_unknown_members_are_ignored() -> None:
    value = {
        "kind": "message",
        "messageId": "m",
        "unheardOf": {"a": [1]},
        "[x.y]": 1,
        "parts": [{"type": "text", "x": 0}],
    }
    assert V1.decode(value, pb.Message) == pb.Message(message_id="m", parts=[pb.Part()])


def test_empty_objects_are_messages() -> None:
    request = V1.decode({"message": {}, "metadata": {}, "configuration": {"unknown": 1}}, pb.SendMessageRequest)
    assert all(request.HasField(name) for name in ("message", "metadata", "configuration"))
    assert V1.decode({"message": {"parts": []}}, pb.SendMessageRequest).HasField("message")
    assert V1.decode({"message": {"parts": None}}, pb.SendMessageRequest).HasField("message")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"value": 1}, ('oneAny["@type"]', "must name a known type of message, got null")),
        ({"@type": 5}, ('oneAny["@type"]', "must name a known type of message, got 5")),
        ({"@type": "x/no.such"}, ('oneAny["@type"]', 'must name a known type of message, got "x/no.such"')),
        ({"@type": "x/google.protobuf.Duration"}, ("oneAny.value", f"{DURATION}, got null")),
        ({"@type": "x/google.protobuf.Duration", "value": 3}, ("oneAny.value", f"{DURATION}, got 3")),
        ({"@type": "x/google.rpc.ErrorInfo", "reason": 3}, ("oneAny.reason", "must be a string, got 3")),
        ([], ("oneAny", "must be an object, got a list")),
    ],
)
def test_an_any_is_read_by_its_type(value: Any, said: tuple[str, str]) -> None:
    assert complaint({"oneAny": value}, Singles) == said
    found = V1.decode({"oneAny": {"@type": "x/google.rpc.ErrorInfo", "reason": "R"}}, Singles).one_any
    assert (found.type_url, ErrorInfo.FromString(found.value).reason) == ("x/google.rpc.ErrorInfo", "R")


def test_the_keys_of_maps_are_read_and_checked() -> None:
    message = V1.decode({"boolInt32": {"true": 1}, "uint64Inner": {"18446744073709551615": {}}}, Maps)
    assert dict(message.bool_int32) == {True: 1}
    assert list(message.uint64_inner) == [2**64 - 1]
    assert complaint({"boolInt32": {"True": 1}}, Maps)[1] == 'must be named by true or false, got "True"'
    assert complaint({"int32Int32": {"2147483648": 1}}, Maps) == (
        'int32Int32["2147483648"]', f'must be named by {INT32.removeprefix("must be ")}, got "2147483648"',
    )  # fmt: skip


def faults(value: Any, kind: Any) -> dict[str, str]:
    with pytest.raises(A2AError) as caught:
        V1.decode(value, kind)
    assert caught.value.reason is Reason.INVALID_PARAMS
    found = {violation.field: violation.description for violation in caught.value.violations}
    assert len(found) == len(caught.value.violations)
    return found


@pytest.mark.req("JSON-13", "ERRS-05")
def test_every_fault_of_a_request_is_told() -> None:
    message = {
        "message_id": 5,
        "role": "USER",
        "parts": [
            {"text": "sound"},
            {"text": 1, "filename": []},
            3,
            {"raw": "###", "metadata": 0},
            {"data": 1, "url": "u"},
        ],
        "extensions": ["a", 1, None],
        "taskId": {},
    }
    request = {"message": message, "configuration": {"historyLength": 2**31, "returnImmediately": 0}, "metadata": []}
    assert faults(request, pb.SendMessageRequest) == {
        "message.messageId": "must be a string, got 5",
        "message.taskId": "must be a string, got an object",
        "message.role": 'must be one of ROLE_USER, ROLE_AGENT, got "USER"',
        "message.parts[1].text": "must be a string, got 1",
        "message.parts[1].filename": "must be a string, got a list",
        "message.parts[2]": "must be an object, got 3",
        "message.parts[3].raw": "must be base64, got a string",
        "message.parts[3].metadata": "must be an object, got 0",
        "message.parts[4].data": "can't be given together with url; only one of text, raw, url, data may be",
        "message.extensions[1]": "must be a string, got 1",
        "message.extensions[2]": "must be a string, got null",
        "configuration.historyLength": "must be a whole number from -2147483648 to 2147483647, got 2147483648",
        "configuration.returnImmediately": "must be true or false, got 0",
        "metadata": "must be an object, got a list",
    }


@pytest.mark.req("JSON-13")
def test_an_unknown_state_lists_those_that_exist() -> None:
    assert faults({"status": "TASK_STATE_DONE"}, pb.ListTasksRequest) == {
        "status": "must be one of TASK_STATE_SUBMITTED, TASK_STATE_WORKING, TASK_STATE_COMPLETED, TASK_STATE_FAILED, "
        "TASK_STATE_CANCELED, TASK_STATE_INPUT_REQUIRED, TASK_STATE_REJECTED, TASK_STATE_AUTH_REQUIRED, "
        'got "TASK_STATE_DONE"'
    }


def test_faults_in_maps_and_free_form_values_are_told_with_their_keys() -> None:
    inner = {"odd key": {"some_name": 3}, 'a"b': 5, "c" * 50: 5}
    maps = {"stringInner": inner, "stringInt32": [], "int32Inner": {"x": 0}}
    assert faults(maps, Maps) == {
        'stringInner["odd key"].someName': "must be a string, got 3",
        'stringInner["a\\"b"]': "must be an object, got 5",
        f'stringInner["{"c" * 40}"…]': "must be an object, got 5",
        "stringInt32": "must be an object, got a list",
        'int32Inner["x"]': 'must be named by a whole number from -2147483648 to 2147483647, got "x"',
    }
    assert faults({"oneStruct": {"a": {"b": [1, "\udc00"]}, "c": "\udc00"}}, Singles) == {
        'oneStruct["a"]["b"][1]': "must hold no lone surrogates",
        'oneStruct["c"]': "must hold no lone surrogates",
    }


def test_lists_tell_which_elements_are_wrong() -> None:
    assert list(faults({"manyInt32": [1, "a", True], "manyInner": {}, "manyString": "ab"}, Lists)) == [
        "manyInt32[1]", "manyInt32[2]", "manyString", "manyInner",
    ]  # fmt: skip
    assert list(faults({"manyStruct": [{}, 1], "manyColour": [7, 7.5], "manyBool": [0]}, Lists)) == [
        "manyBool[0]", "manyStruct[1]", "manyColour[1]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        ([], "a list"),
        ("x" * 50, "a string"),
        (0.5, "0.5"),
        (True, "true"),
        ("\ud800", "a string"),
    ],
)
def test_a_body_of_the_wrong_kind_has_no_field_to_name(value: Any, shown: str) -> None:
    with pytest.raises(A2AError) as caught:
        V1.decode(value, pb.Message)
    assert caught.value.violations == (Violation("", f"must be an object, got {shown}"),)
    assert caught.value.message == f"The JSON must be an object, got {shown}."


def test_a_hundred_faults_are_enough() -> None:
    wrong = [{"text": 1}, {"text": 1, "filename": 2}] * 10_000
    fields = list(faults({"message": {"messageId": 1, "parts": wrong, "extensions": wrong}}, pb.SendMessageRequest))
    assert len(fields) == 100
    assert fields[:3] == ["message.messageId", "message.parts[0].text", "message.parts[1].text"]
    for value, kind in (
        ({"manyInt32": ["x"] * 200}, Lists),
        ({"stringInt32": {str(number): "x" for number in range(200)}}, Maps),
        ({"oneStruct": {"a": ["\ud800"] * 200}}, Singles),
    ):
        assert len(faults(value, kind)) == 100


def test_faults_deep_inside_do_not_multiply_the_work() -> None:
    value: dict[str, Any] = {"name": 5}
    for _ in range(60):
        value = {"again": value, "na_me": 1}
    assert faults(value, Loop) == {".".join(["again"] * 60 + ["name"]): "must be a string, got 5"}
