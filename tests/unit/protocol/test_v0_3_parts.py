"""What a part looks like in the other version, member by member."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_proto import a2a_pb2 as pb
from a2a_proto import a2a_v0_3_pb2 as v03
from a2a_server.protocol.v0_3 import parts
from a2a_server.protocol.v0_3.messages import upgrade_message_into
from a2a_server.protocol.v0_3.parts import Found

Json = dict[str, Any]
OURS = "x-a2a-compat"


def down(part: Json, *, raw_files: bool = False) -> Json:
    legacy = v03.Part()
    parts.downgrade_into(legacy, ParseDict(part, pb.Part()), raw_files=raw_files)
    return dict(MessageToDict(legacy))


def up(part: Json) -> Json:
    new, found = pb.Part(), Found()
    parts.upgrade_into(new, ParseDict(part, v03.Part()), "", found)
    assert not found
    return dict(MessageToDict(new))


@pytest.mark.parametrize(
    ("part", "legacy"),
    [
        pytest.param({"text": "hi"}, {"text": "hi"}, id="text"),
        pytest.param({"text": "", "metadata": {"a": 1.0}}, {"text": "", "metadata": {"a": 1.0}}, id="empty-text"),
        pytest.param(
            {"text": "# hi", "mediaType": "text/markdown", "filename": "hi.md"},
            {"text": "# hi", "metadata": {OURS: {"mediaType": "text/markdown", "filename": "hi.md"}}},
            id="0.3-text-has-neither-name-nor-type",
        ),
        pytest.param(
            {"url": "https://x.example/a", "mediaType": "image/png", "filename": "a.png", "metadata": {"k": "v"}},
            {
                "file": {"fileWithUri": "https://x.example/a", "mimeType": "image/png", "name": "a.png"},
                "metadata": {"k": "v"},
            },
            id="file-by-reference",
        ),
        pytest.param({"raw": "AP/+"}, {"file": {"fileWithBytes": "QVAvKw=="}}, id="bytes-travel-as-base64-text"),
        pytest.param({"raw": ""}, {"file": {"fileWithBytes": ""}}, id="an-empty-file"),
        pytest.param({"data": {"a": [1.0]}}, {"data": {"data": {"a": [1.0]}}}, id="object"),
        pytest.param({"data": {}}, {"data": {"data": {}}}, id="empty-object"),
        pytest.param(
            {"data": [1.0, None]},
            {"data": {"data": {"value": [1.0, None]}}, "metadata": {"data_part_compat": True}},
            id="0.3-data-is-an-object",
        ),
        pytest.param(
            {"data": None, "mediaType": "text/csv", "metadata": {"own": True}},
            {
                "data": {"data": {"value": None}},
                "metadata": {"own": True, "data_part_compat": True, OURS: {"mediaType": "text/csv"}},
            },
            id="null-with-a-type",
        ),
        pytest.param(
            {"data": {"value": 1.0}},
            {"data": {"data": {"value": 1.0}}},
            id="an-object-that-looks-wrapped-is-not-marked",
        ),
        pytest.param({"filename": "a"}, {"metadata": {OURS: {"filename": "a"}}}, id="nothing-at-all"),
    ],
)
@pytest.mark.req("LMAP-02")
def test_the_same_in_both(part: Json, legacy: Json) -> None:
    assert down(part) == legacy
    assert up(legacy) == part


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({OURS: "mine"}, id="no-object"),
        pytest.param({OURS: {}}, id="empty"),
        pytest.param({OURS: {"mediaType": 1.0}}, id="no-text"),
        pytest.param({OURS: {"mediaType": ""}}, id="empty-text"),
        pytest.param({OURS: {"mediaType": "a/b", "more": "x"}}, id="more-than-we-write"),
        pytest.param({"data_part_compat": True}, id="a-mark-without-data"),
    ],
)
def test_what_only_looks_like_ours_stays(metadata: Json) -> None:
    assert up({"text": "hi", "metadata": metadata}) == {"text": "hi", "metadata": metadata}


@pytest.mark.parametrize(
    ("data", "mark"),
    [
        pytest.param({"value": 1.0}, False, id="not-marked"),
        pytest.param({"value": 1.0}, "yes", id="no-boolean"),
        pytest.param({"value": {}}, True, id="objects-need-no-wrapper"),
        pytest.param({"value": 1.0, "more": 1.0}, True, id="more-than-the-wrapper"),
        pytest.param({"other": 1.0}, True, id="no-value"),
    ],
)
def test_data_that_only_looks_wrapped_stays(data: Json, mark: object) -> None:
    metadata = {"data_part_compat": mark}
    assert up({"data": {"data": data}, "metadata": metadata}) == {"data": data, "metadata": metadata}


def test_the_type_that_data_has_anyway_is_nothing_that_we_would_keep() -> None:
    metadata = {OURS: {"mediaType": "application/json"}}
    assert up({"data": {"data": {}}, "metadata": metadata}) == {"data": {}, "metadata": metadata}


def test_empty_metadata_stays_empty() -> None:
    assert up({"text": "hi", "metadata": {}}) == {"text": "hi", "metadata": {}}


def test_files_keep_what_looks_like_ours_since_they_need_no_keeping() -> None:
    metadata = {OURS: {"mediaType": "text/plain"}}
    assert up({"file": {"fileWithUri": "u:x"}, "metadata": metadata}) == {"url": "u:x", "metadata": metadata}


def test_bytes_as_they_are_for_who_wants_them() -> None:
    assert down({"raw": "AP/+"}, raw_files=True) == {"file": {"fileWithBytes": "AP/+"}}


@pytest.mark.req("ERRS-05")
def test_what_cannot_be_mapped_is_told_all_at_once_in_the_words_of_0_3() -> None:
    legacy = ParseDict({"role": 9, "content": [{"text": "fine"}, {"file": {"name": "a"}}, {}]}, v03.Message())
    legacy.content.add().data.SetInParent()
    found = Found()
    upgrade_message_into(pb.Message(), legacy, "", found)
    assert [(fault.field, fault.description) for fault in found] == [
        ("role", "unknown value 9; allowed are ROLE_UNSPECIFIED, ROLE_USER, ROLE_AGENT"),
        ("content[1].file", "must have file_with_uri or file_with_bytes"),
        ("content[3].data.data", "is required: data holds its object in a member of the same name"),
    ]
