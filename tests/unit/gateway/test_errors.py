"""How fields and failures are spelled (spec: ERRS-05); each row of the table is tested in tests/bindings."""

import json

import pytest
from google.rpc import code_pb2

from a2a_gateway.errors import explain, failure_of, json_path
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason, Violation


@pytest.mark.req("ERRS-05")
@pytest.mark.parametrize(
    ("proto", "path"),
    [
        ("message.message_id", "message.messageId"),
        ("message.parts[0].media_type", "message.parts[0].mediaType"),
        ("page_size", "pageSize"),
        ("pageSize", "pageSize"),
        ("id", "id"),
        ('metadata["my_key"].inner_field', 'metadata["my_key"].innerField'),
        ('metadata["a\\"b_c"]', 'metadata["a\\"b_c"]'),
        ("status_timestamp_after", "statusTimestampAfter"),
        ("Last-Event-ID", "Last-Event-ID"),
        ("", ""),
        ("a_[", "a_["),
    ],
)
def test_fields_are_spelled_as_in_json_and_the_clients_own_names_are_not_touched(proto: str, path: str) -> None:
    assert json_path(proto) == path


@pytest.mark.req("ERRS-05")
def test_every_field_there_is_has_the_name_of_its_json_and_keeps_it() -> None:
    kinds = pb.DESCRIPTOR.message_types_by_name.values()
    names = {field.name: field.json_name for kind in kinds for field in kind.fields}
    assert {name: json_path(name) for name in names} == names
    assert all(json_path(name) == name for name in names.values())


def test_a_message_that_repeats_the_field_is_respelled_with_it() -> None:
    fault = Violation("page_size", "must lie in 1..100")
    failure = failure_of(A2AError(Reason.INVALID_PARAMS, "page_size: must lie in 1..100", violations=[fault]))
    assert failure.message == "pageSize: must lie in 1..100"


@pytest.mark.req("DOOR-11")
def test_a_line_of_an_error_has_the_number_of_grpc() -> None:
    line = json.loads(failure_of(A2AError(Reason.TASK_NOT_FOUND, "No.")).ndjson())
    assert line["error"]["code"] == code_pb2.NOT_FOUND
    assert line["error"]["details"][0]["reason"] == "TASK_NOT_FOUND"


@pytest.mark.req("ERRS-07")
def test_nobody_learns_what_nobody_foresaw() -> None:
    failure = explain(RuntimeError("/etc/passwd"))
    assert (failure.http, failure.message) == (500, "Internal error.")
    assert b"passwd" not in failure.rest()
