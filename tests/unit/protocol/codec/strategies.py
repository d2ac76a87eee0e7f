"""Arbitrary messages of any type, and arbitrary JSON for them, from descriptors."""

from collections.abc import Callable
from typing import Any, cast

from google.protobuf import duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2
from hypothesis import strategies as st

from a2a_proto import a2a_pb2, a2a_v0_3_pb2, discovery_pb2
from tests.unit.protocol.codec import everything

Strategy = st.SearchStrategy[Any]

KINDS: list[Any] = [
    GetMessageClass(descriptor)
    for module in (a2a_pb2, a2a_v0_3_pb2, discovery_pb2, error_details_pb2, status_pb2)
    for outer in module.DESCRIPTOR.message_types_by_name.values()
    for descriptor in (outer, *outer.nested_types)
    if not descriptor.GetOptions().map_entry
] + [*everything.ALL]
NAMES = [kind.DESCRIPTOR.full_name for kind in KINDS]

TEXTS = st.sampled_from(["", "a", "task-1", "ü" * 40, '"', "a\0b", "\\u0022", "\U0001f600"]) | st.text(max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([-0.0, 2.0**53 + 2, 1e300, 3.0])
JSON: Strategy = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.integers(-(2**60), 2**60) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT32 = st.integers(0, 2**32 - 1)
UINT64 = st.integers(0, 2**64 - 1)
SCALARS: dict[int, Strategy] = {
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=5),
    FieldDescriptor.TYPE_DOUBLE: st.floats() | NUMBERS,
    FieldDescriptor.TYPE_ENUM: st.integers(0, 9) | INT32,
    FieldDescriptor.TYPE_FIXED32: UINT32,
    FieldDescriptor.TYPE_FIXED64: UINT64,
    FieldDescriptor.TYPE_FLOAT: st.floats(width=32),
    FieldDescriptor.TYPE_INT32: INT32,
    FieldDescriptor.TYPE_INT64: INT64,
    FieldDescriptor.TYPE_SFIXED32: INT32,
    FieldDescriptor.TYPE_SFIXED64: INT64,
    FieldDescriptor.TYPE_SINT32: INT32,
    FieldDescriptor.TYPE_SINT64: INT64,
    FieldDescriptor.TYPE_STRING: TEXTS,
    FieldDescriptor.TYPE_UINT32: UINT32,
    FieldDescriptor.TYPE_UINT64: UINT64,
}
NANOS = st.sampled_from([0, 1, 999_999, 789_000_000, 999_999_999]) | st.integers(0, 999_999_999)


def _duration(seconds: int, nanos: int) -> duration_pb2.Duration:
    sign = -1 if seconds < 0 else 1
    return duration_pb2.Duration(seconds=seconds, nanos=sign * nanos)


def _parsed(value: Any, message: Message) -> Message:
    return ParseDict(value, message)


def _packed(inner: Message) -> AnyMessage:
    found = AnyMessage()
    found.Pack(inner)
    return found


PACKED: tuple[Any, ...] = (
    a2a_pb2.Task, error_details_pb2.ErrorInfo, error_details_pb2.RetryInfo, timestamp_pb2.Timestamp,
    duration_pb2.Duration, struct_pb2.Value, wrappers_pb2.BytesValue, everything.Inner,
)  # fmt: skip
OWN_FORM: dict[str, Callable[[], Strategy]] = {
    "Any": lambda: st.just(AnyMessage()) | st.sampled_from(PACKED).flatmap(messages).map(_packed),
    "Duration": lambda: st.builds(_duration, st.integers(-315576000000 + 1, 315576000000 - 1), NANOS),
    "FieldMask": lambda: st.builds(
        field_mask_pb2.FieldMask, paths=st.lists(st.sampled_from(["a", "some_name", "some_name.inner_one"]), max_size=3)
    ),
    "ListValue": lambda: st.lists(JSON, max_size=3).map(lambda value: _parsed(value, struct_pb2.ListValue())),
    "Struct": lambda: st.dictionaries(TEXTS, JSON, max_size=3).map(lambda value: _parsed(value, struct_pb2.Struct())),
    "Timestamp": lambda: st.builds(
        timestamp_pb2.Timestamp, seconds=st.integers(-62135596800, 253402300799) | st.integers(0, 2**31), nanos=NANOS
    ),
    "Value": lambda: st.just(struct_pb2.Value()) | JSON.map(lambda value: _parsed(value, struct_pb2.Value())),
}


def messages(kind: Any) -> Strategy:
    return _messages(cast("Descriptor", kind.DESCRIPTOR))


def _messages(kind: Descriptor) -> Strategy:
    if kind.file.package == "google.protobuf" and (own := OWN_FORM.get(kind.name)):
        return own()
    fields = {field.name: _field(field) for field in kind.fields}
    return st.fixed_dictionaries({}, optional=fields).map(lambda members: GetMessageClass(kind)(**members))


def entry_of(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    if field.message_type is None or not field.message_type.GetOptions().map_entry:
        return None
    return field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]


def _field(field: FieldDescriptor) -> Strategy:
    if entry := entry_of(field):
        return st.dictionaries(_single(entry[0]), _single(entry[1]), max_size=2)
    return st.lists(_single(field), max_size=3) if field.is_repeated else _single(field)


def _single(field: FieldDescriptor) -> Strategy:
    if field.enum_type and field.enum_type.name == "NullValue":
        return st.just(0)
    kind = field.message_type
    return st.deferred(lambda: _messages(kind)) if kind else SCALARS[field.type]


NOISE: list[Any] = [
    None, True, False, 0, 1, -1, 5, 1.5, 1.0, 1e3, -0.0, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 1e300, 3.5e38,
    "", "a", "5", "1.0", "1e3", "1.5", "-0", "1e400", "NaN", "-Infinity", "Infinity", "nan", "true", "2147483648",
    [], {}, [1], ["a", 1], [None], [[]], [{}], {"a": 1}, {"a": None}, {"1": {}}, {"true": 1}, {"x": "AAAA"},
    "AAAA", "_-8", "QQ", "QQ=", "QQ==", "Q", "A=A=", "ROLE_USER", "COLOUR_RED", "COLOUR_RE", "NULL_VALUE", "2", 2, 77,
    "2026-02-03T04:05:06Z", "2026-02-03T04:05:06.123456789+05:30", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00+00:01",
    "2026-02-03 04:05:06Z", "2026-02-03T04:05:06", "1.5s", "-0.5s", "5", "someName,other.inName", "some_name",
    {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "3s"}, {"@type": "x/google.rpc.Nothing"},
    {"@type": "x/google.rpc.ErrorInfo", "reason": "R", "metadata": {"a": "b"}}, {"@type": 5},
    {"@type": "x/google.rpc.ErrorInfo", "reason": 3}, {"@type": "x/google.protobuf.Timestamp"},
    "TASK_STATE_CANCELLED", "input-required",
]  # fmt: skip
"""What could stand anywhere."""


def json_of(kind: Any) -> Strategy:
    """JSON of a message, some of it wrong."""
    return _json(cast("Descriptor", kind.DESCRIPTOR))


def _json(kind: Descriptor) -> Strategy:
    members = {name: _json_of_field(field) for field in kind.fields for name in (field.json_name, field.name)}
    chosen = st.sets(st.sampled_from([*members]), max_size=6) if members else st.just(set[str]())
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: members[name] for name in sorted(names)}))


def _json_of_field(field: FieldDescriptor) -> Strategy:
    noise = st.sampled_from(NOISE)
    if field.message_type is None or field.message_type.file.package == "google.protobuf":
        return noise | st.lists(noise, max_size=3)
    kind = field.message_type
    if entry := entry_of(field):
        return noise | st.dictionaries(TEXTS, _json_of_field(entry[1]), max_size=2)
    inner = st.deferred(lambda: _json(kind))
    return noise | inner | st.lists(inner | noise, max_size=3)
