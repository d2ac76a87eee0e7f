"""Parts: what they are called, what may be left out, what is kept in metadata, what is refused."""

from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from a2a_proto import a2a_pb2 as pb
from tests.unit.protocol.spelling import DRAFT, KIND, PROTO, RAW, Spelling, faults, read, written

B64 = "must be base64, got"
KEPT = "x-a2a-compat"
WRAPPED = "data_part_compat"


def part(**members: Any) -> pb.Part:
    return ParseDict(members, pb.Part())


@pytest.mark.req("LRPC-03", "LRES-05")
@pytest.mark.parametrize(
    ("message", "kind", "proto"),
    [
        (part(text="x"), {"kind": "text", "text": "x"}, {"text": "x"}),
        (part(text=""), {"kind": "text", "text": ""}, {"text": ""}),
        (
            part(text="x", metadata={"a": 1}),
            {"kind": "text", "text": "x", "metadata": {"a": 1}},
            {"text": "x", "metadata": {"a": 1}},
        ),
        (part(url="u:x"), {"kind": "file", "file": {"uri": "u:x"}}, {"file": {"fileWithUri": "u:x"}}),
        (
            part(url="u:x", filename="n", mediaType="a/b", metadata={}),
            {"kind": "file", "file": {"uri": "u:x", "name": "n", "mimeType": "a/b"}, "metadata": {}},
            {"file": {"fileWithUri": "u:x", "name": "n", "mimeType": "a/b"}, "metadata": {}},
        ),
        (part(raw="/w=="), {"kind": "file", "file": {"bytes": "/w=="}}, {"file": {"fileWithBytes": "L3c9PQ=="}}),
        (part(raw=""), {"kind": "file", "file": {"bytes": ""}}, {"file": {"fileWithBytes": ""}}),
        (part(data={"a": [1]}), {"kind": "data", "data": {"a": [1]}}, {"data": {"data": {"a": [1]}}}),
        (part(data={}), {"kind": "data", "data": {}}, {"data": {"data": {}}}),
        (
            part(data=[1], metadata={"a": 1}),
            {"kind": "data", "data": {"value": [1]}, "metadata": {"a": 1, WRAPPED: True}},
            {"data": {"data": {"value": [1]}}, "metadata": {"a": 1, WRAPPED: True}},
        ),
        (
            part(data=None),
            {"kind": "data", "data": {"value": None}, "metadata": {WRAPPED: True}},
            {"data": {"data": {"value": None}}, "metadata": {WRAPPED: True}},
        ),
        (
            part(text="x", mediaType="text/markdown", filename="n"),
            {"kind": "text", "text": "x", "metadata": {KEPT: {"mediaType": "text/markdown", "filename": "n"}}},
            {"text": "x", "metadata": {KEPT: {"mediaType": "text/markdown", "filename": "n"}}},
        ),
        (
            part(data={"a": 1}, mediaType="a/json", metadata={"b": 1}),
            {"kind": "data", "data": {"a": 1}, "metadata": {"b": 1, KEPT: {"mediaType": "a/json"}}},
            {"data": {"data": {"a": 1}}, "metadata": {"b": 1, KEPT: {"mediaType": "a/json"}}},
        ),
    ],
)
def test_a_part_and_back(message: pb.Part, kind: Any, proto: Any) -> None:
    for spelling, told in ((KIND, kind), (PROTO, proto)):
        assert written(spelling, message) == told
        assert read(spelling, told, pb.Part) == message


def test_what_data_is_anyway_is_not_kept() -> None:
    message = part(data={"a": 1}, mediaType="application/json")
    assert written(KIND, message) == {"kind": "data", "data": {"a": 1}}
    assert written(PROTO, message) == {"data": {"data": {"a": 1}}}
    told = {"kind": "data", "data": {}, "metadata": {KEPT: {"mediaType": "application/json"}}}
    assert read(KIND, told, pb.Part) == part(data={}, metadata=told["metadata"])


def test_a_part_without_content_is_an_empty_text_where_parts_need_a_kind() -> None:
    assert written(KIND, pb.Part()) == {"kind": "text", "text": ""}
    assert written(PROTO, part(filename="n")) == {"metadata": {KEPT: {"filename": "n"}}}
    for spelling in (KIND, PROTO):
        assert read(spelling, {}, pb.Part) == pb.Part()


@pytest.mark.parametrize(
    "metadata",
    [
        {KEPT: {"mediaType": "a/b", "other": "x"}},
        {KEPT: {"mediaType": ""}},
        {KEPT: {"mediaType": 5}},
        {KEPT: {}},
        {KEPT: "junk"},
        {KEPT: None},
        {WRAPPED: True},
        {WRAPPED: "yes"},
        {"own": 1},
        {},
    ],
)
@pytest.mark.parametrize("spelling", [KIND, PROTO])
def test_metadata_that_only_looks_like_ours_is_left_alone(spelling: Spelling, metadata: Any) -> None:
    told = {"text": "x", "metadata": metadata}
    assert read(spelling, told, pb.Part) == part(**told)


@pytest.mark.parametrize(
    ("data", "mark"),
    [
        ({"value": {}}, True),
        ({"value": 1, "more": 1}, True),
        ({"other": 1}, True),
        ({}, True),
        ({"value": 1}, "yes"),
        ({"value": 1}, 1),
        ({"value": 1}, False),
    ],
)
def test_data_that_was_not_wrapped_stays_an_object(data: Any, mark: Any) -> None:
    told = {"kind": "data", "data": data, "metadata": {WRAPPED: mark}}
    assert read(KIND, told, pb.Part) == part(data=data, metadata={WRAPPED: mark})


@pytest.mark.req("CONF-55")
@pytest.mark.parametrize("value", [[1, 2], [], 5, "x", "", True, False, None])
@pytest.mark.parametrize("metadata", [{}, {"own": 1}, {WRAPPED: "own"}], ids=str)
def test_data_that_is_no_object_is_wrapped_and_read_with_and_without_its_wrapping(value: Any, metadata: Any) -> None:
    message = part(data=value, **({"metadata": metadata} if metadata else {}))
    kept = {KEPT: {WRAPPED: "own"}} if WRAPPED in metadata else metadata
    wrapped = {"data": {"value": value}, "metadata": {**kept, WRAPPED: True}}
    assert written(KIND, message) == {"kind": "data", **wrapped}
    bare = {"data": value, **({"metadata": metadata} if metadata else {})}
    for told in (wrapped, bare):
        assert read(KIND, {"kind": "data", **told}, pb.Part) == read(KIND, told, pb.Part) == message
        nested = {**told, "data": {"data": told["data"]}}
        for spelling in (PROTO, DRAFT):
            assert read(spelling, nested, pb.Part) == message
    for spelling in (PROTO, DRAFT):
        assert written(spelling, message) == {**wrapped, "data": {"data": wrapped["data"]}}


@pytest.mark.req("CONF-55", "LMAP-02")
def test_an_object_that_looks_like_a_wrapping_comes_back() -> None:
    looks_so = part(data={"value": 1}, metadata={WRAPPED: True, "own": 1})
    told = {"data": {"value": 1}, "metadata": {KEPT: {WRAPPED: True}, "own": 1}}
    assert written(KIND, looks_so) == {"kind": "data", **told}
    assert read(KIND, told, pb.Part) == looks_so
    named = part(data=1, mediaType="a/b", metadata={WRAPPED: True})
    assert written(KIND, named)["metadata"] == {KEPT: {"mediaType": "a/b", WRAPPED: True}, WRAPPED: True}
    assert read(KIND, written(KIND, named), pb.Part) == named


@pytest.mark.parametrize(
    ("data", "metadata"),
    [
        ({"value": 1}, {KEPT: {WRAPPED: "yes"}}),
        ({"other": 1}, {KEPT: {WRAPPED: True}}),
        ({"value": {}}, {KEPT: {WRAPPED: True}}),
        ({"value": 1, "more": 1}, {KEPT: {WRAPPED: True}}),
        ({"value": {}}, {KEPT: {WRAPPED: True}, WRAPPED: True}),
        ({"value": 1}, {KEPT: {WRAPPED: True, "other": "x"}}),
    ],
)
def test_a_mark_that_nothing_has_moved_stays(data: Any, metadata: Any) -> None:
    told = {"kind": "data", "data": data, "metadata": metadata}
    assert read(KIND, told, pb.Part) == part(data=data, metadata=metadata)
    assert written(KIND, part(data=data, metadata=metadata)) == told


def test_nothing_is_kept_in_the_metadata_of_files() -> None:
    metadata = {KEPT: {"mediaType": "a/b"}, WRAPPED: True}
    told = {"kind": "file", "file": {"uri": "u:x"}, "metadata": metadata}
    assert read(KIND, told, pb.Part) == part(url="u:x", metadata=metadata)
    assert written(KIND, part(url="u:x", metadata=metadata)) == told


@pytest.mark.req("LRPC-04")
@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"text": "x"}, part(text="x")),
        ({"kind": None, "text": "x"}, part(text="x")),
        ({"text": "x", "kind": "text", "unheardOf": 1}, part(text="x")),
        ({"text": "x", "file": None, "data": None, "metadata": None}, part(text="x")),
        ({"file": {"uri": "u:x"}}, part(url="u:x")),
        ({"data": {}}, part(data={})),
        ({"kind": "file", "file": {"fileWithUri": "u:x", "mime_type": "a/b"}}, part(url="u:x", mediaType="a/b")),
        ({"kind": "file", "file": {"file_with_uri": "u:x", "bytes": None}}, part(url="u:x")),
        ({"kind": "file", "file": {"fileWithBytes": "_w"}}, part(raw="/w==")),
        ({"kind": "file", "file": {"file_with_bytes": "/w==", "name": "n", "size": 1}}, part(raw="/w==", filename="n")),
    ],
)
def test_the_schemas_parts_in_other_words(told: Any, message: pb.Part) -> None:
    assert read(KIND, told, pb.Part) == message


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"text": "x", "unheardOf": 1}, part(text="x")),
        ({"text": None}, pb.Part()),
        ({"file": {"file_with_uri": "u:x", "mime_type": "a/b"}}, part(url="u:x", mediaType="a/b")),
        ({"file": {"file_with_bytes": "L3c9PQ=="}}, part(raw="/w==")),
    ],
)
def test_the_protos_parts_in_other_words(told: Any, message: pb.Part) -> None:
    assert read(PROTO, told, pb.Part) == message


@pytest.mark.req("LRES-05")
def test_files_of_the_proto_hold_base64_text_or_bytes() -> None:
    jpeg = part(raw="/9j/")
    assert written(PROTO, jpeg) == {"file": {"fileWithBytes": "LzlqLw=="}}
    assert written(RAW, jpeg) == {"file": {"fileWithBytes": "/9j/"}}
    for spelling in (PROTO, RAW):
        for told in ("LzlqLw==", "/9j/"):
            assert read(spelling, {"file": {"fileWithBytes": told}}, pb.Part) == jpeg
    for no_base64 in (
        b"Zg=",
        b"Zg",
        b"Zh==",
        b"Zm9v\n",
        b"Zm9 v",
        b"_w==",
        b"====",
        b"Zg==Zm9v",
        b"Zm9=",
    ):  # to the letter
        assert read(PROTO, written(RAW, pb.Part(raw=no_base64)), pb.Part).raw == no_base64
    text = pb.Part(raw=b"Zm9v")
    assert read(PROTO, written(PROTO, text), pb.Part) == text
    assert read(PROTO, written(RAW, text), pb.Part).raw == b"foo"


@pytest.mark.req("LRPC-04")
@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"kind": "txt", "text": "x"}, {"kind": 'must be "text", got "txt"'}),
        ({"kind": "txt"}, {"kind": 'must be one of "text", "file", "data", got "txt"'}),
        ({"kind": ["text"], "data": {}}, {"kind": 'must be "data", got a list'}),
        ({"kind": 5}, {"kind": 'must be one of "text", "file", "data", got 5'}),
        ({"kind": "text"}, {"text": "must be a string, got null"}),
        ({"kind": "text", "text": None}, {"text": "must be a string, got null"}),
        ({"kind": "text", "text": 5}, {"text": "must be a string, got 5"}),
        ({"kind": "text", "text": "\ud800"}, {"text": "must hold no lone surrogates"}),
        ({"text": "\ud800", "x": 1}, {"text": "must hold no lone surrogates"}),
        ({"kind": "file", "text": "x"}, {"kind": 'must be "text", got "file"'}),
        ({"kind": "file"}, {"file": "must be an object, got null"}),
        ({"kind": "file", "file": "x"}, {"file": "must be an object, got a string"}),
        ({"kind": "file", "file": {}}, {"file": "must have uri or bytes"}),
        ({"kind": "file", "file": {"bytes": "#"}}, {"file.bytes": "must be base64, got a string"}),
        (
            {"kind": "file", "file": {"bytes": 5, "name": 1}},
            {"file.bytes": f"{B64} 5", "file.name": "must be a string, got 1"},
        ),
        (
            {"kind": "file", "file": {"uri": "u:x", "mimeType": "\ud800"}},
            {"file.mimeType": "must hold no lone surrogates"},
        ),
        (
            {"kind": "file", "file": {"uri": "u:x", "bytes": "QQ=="}},
            {"file.bytes": "can't be given together with uri; only one of uri, bytes may be"},
        ),
        (
            {"kind": "file", "file": {"uri": "u:x", "fileWithUri": "u:x"}},
            {"file.uri": "is given twice, as uri and as fileWithUri"},
        ),
        (
            {"kind": "file", "file": {"data": "QQ=="}},
            {"file.data": 'is no member of a file, which has "bytes", in base64, or "uri"'},
        ),
        ({"kind": "data"}, {"data": "must be an object, got null"}),
        ({"kind": "data", "data": ["\ud800"]}, {"data[0]": "must hold no lone surrogates"}),
        ({"kind": "data", "data": None, "text": "x"}, {"kind": 'must be "text", got "data"'}),
        ({"kind": "data", "data": {"a": "\ud800"}}, {'data["a"]': "must hold no lone surrogates"}),
        (
            {"kind": "data", "data": {"value": "\ud800"}, "metadata": {WRAPPED: True}},
            {'data["value"]': "must hold no lone surrogates"},
        ),
        (
            {"kind": "text", "text": "x", "data": {}, "file": {}},
            {
                "file": "can't be given together with text; only one of text, file, data may be",
                "data": "can't be given together with file; only one of text, file, data may be",
            },
        ),
        (
            {"kind": "text", "text": 5, "metadata": 5},
            {"text": "must be a string, got 5", "metadata": "must be an object, got 5"},
        ),
        (
            {"text": "x", "metadata": {"a": "\ud800"}},
            {'metadata["a"]': "must hold no lone surrogates"},
        ),
        (
            {"text": "x", "metadata": {KEPT: {"filename": "\ud800"}}},
            {f'metadata["{KEPT}"]["filename"]': "must hold no lone surrogates"},
        ),
        ([], {"": "must be an object, got a list"}),
    ],
)
def test_what_is_wrong_with_a_part_of_the_schema(told: Any, said: dict[str, str]) -> None:
    assert faults(KIND, told, pb.Part) == said


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"text": 5}, {"text": "must be a string, got 5"}),
        ({"file": {}}, {"file": "must have fileWithUri or fileWithBytes"}),
        ({"file": {"fileWithBytes": "#"}}, {"file.fileWithBytes": "must be base64, got a string"}),
        ({"data": {}}, {"data.data": "is required: data holds its object in a member of the same name"}),
        ({"data": {"data": ["\ud800"]}}, {"data.data[0]": "must hold no lone surrogates"}),
        ({"data": [1]}, {"data": "must be an object, got a list"}),
        ({"data": 5}, {"data": "must be an object, got 5"}),
        ({"text": "x", "data": {}}, {"data": "can't be given together with text; only one of text, file, data may be"}),
        (5, {"": "must be an object, got 5"}),
    ],
)
def test_what_is_wrong_with_a_part_of_the_proto(told: Any, said: dict[str, str]) -> None:
    assert faults(PROTO, told, pb.Part) == said
