"""Helpers for parts, and the border between JSON and protobuf."""

from typing import Any

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from a2a_proto import a2a_pb2 as pb
from a2a_server.agents import data_part, file_part, text_part
from a2a_server.agents.parts import as_message, from_struct, to_python, to_struct

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


@given(json_values)
def test_json_comes_back_as_it_went(value: object) -> None:
    part = pb.Part.FromString(data_part(value).SerializeToString())  # type: ignore[arg-type]
    assert to_python(part.data) == value


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), json_values))
def test_metadata_comes_back_as_it_went(fields: dict[str, Any]) -> None:
    assert from_struct(to_struct(fields)) == fields


def test_whole_numbers_are_ints_while_they_are_exact() -> None:
    value = struct_pb2.Value(number_value=3.0)
    assert type(to_python(value)) is int
    assert type(to_python(struct_pb2.Value(number_value=1e300))) is float


def test_a_value_that_says_nothing_is_none() -> None:
    assert to_python(struct_pb2.Value()) is None


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (text_part("# x", media_type="text/markdown"), pb.Part(text="# x", media_type="text/markdown")),
        (file_part(b"x", filename="a.png"), pb.Part(raw=b"x", filename="a.png", media_type="image/png")),
        (file_part(b"x"), pb.Part(raw=b"x", media_type="application/octet-stream")),
        (file_part("https://e.org/a", media_type="image/gif"), pb.Part(url="https://e.org/a", media_type="image/gif")),
        (data_part("x", media_type="x/y"), pb.Part(data=struct_pb2.Value(string_value="x"), media_type="x/y")),
    ],
    ids=["text", "named", "bytes", "url", "data"],
)
def test_parts_are_quickly_made(part: pb.Part, expected: pb.Part) -> None:
    assert part == expected


def test_a_message_of_the_author_s_own_is_copied() -> None:
    own = pb.Message(parts=[text_part("x")], extensions=["urn:x"])
    message = as_message(own)
    assert message.role == pb.ROLE_AGENT
    assert (message.parts, list(message.extensions)) == (own.parts, ["urn:x"])
    assert own.role == pb.ROLE_UNSPECIFIED
