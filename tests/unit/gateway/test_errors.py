"""How fields and failures are spelled (spec: ERRS-05); each row of the table is tested in tests/bindings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from a2a_gateway.errors import explain, failure_of, json_path
from a2a_gateway.older.errors import OldFailure
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason, StatusError, Violation
from a2a_server.protocol.v0_3 import error_words
from a2a_server.protocol.v0_3.error_words import translate_error
from a2a_server.protocol.v0_3.json import proto_json


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


INFO = "type.googleapis.com/google.rpc.ErrorInfo"


def said(code: int, message: str = "Said so.", *details: Message) -> StatusError:
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        status.details.add().Pack(detail)
    return StatusError(status, [("x-trailer", "kept")])


def told(error: Exception) -> tuple[Any, Any]:
    """What JSON-RPC and REST say."""
    failure = explain(error, "1.0.0", OldFailure)
    return failure.jsonrpc_error(), json.loads(failure.rest())["error"]


@pytest.mark.req("LRPC-07", "LRES-09")
@pytest.mark.parametrize(
    ("code", "number", "http", "reason"),
    [
        (code_pb2.NOT_FOUND, -32001, 404, "TASK_NOT_FOUND"),
        (code_pb2.UNIMPLEMENTED, -32004, 501, "UNSUPPORTED_OPERATION"),
        (code_pb2.FAILED_PRECONDITION, -32004, 400, "UNSUPPORTED_OPERATION"),
        (code_pb2.INVALID_ARGUMENT, -32602, 400, "INVALID_PARAMS"),
        (code_pb2.UNAVAILABLE, -32603, 503, "UNAVAILABLE"),
        (code_pb2.DATA_LOSS, -32603, 500, "INTERNAL"),
        (99, -32603, 500, "INTERNAL"),
    ],
)
def test_a_bare_status_is_the_nearest_error(code: int, number: int, http: int, reason: str) -> None:
    by_method, by_path = told(said(code))
    assert (by_method["code"], by_method["data"]) == (number, {"reason": reason})
    assert by_path["code"] == http
    (info,) = by_path["details"]
    assert (info["@type"], info["reason"], info["metadata"]) == (INFO, reason, {"jsonrpcCode": str(number)})


@pytest.mark.req("LRPC-07", "LRES-09")
def test_details_that_nobody_knows_stay_with_those_who_could_read_them() -> None:
    help_ = error_details_pb2.Help(links=[error_details_pb2.Help.Link(url="https://x.example/")])
    foreign = error_details_pb2.ErrorInfo(reason="SOLD_OUT", domain="shop.example", metadata={"reason": "none left"})
    by_method, by_path = told(said(code_pb2.NOT_FOUND, "Sold out.", help_, foreign))
    assert by_method == {
        "code": -32001,
        "message": "Task not found: Sold out.",
        "data": {"reason": "SOLD_OUT"},
    }
    assert [detail["@type"].rpartition(".")[2] for detail in by_path["details"]] == ["Help", "ErrorInfo"]
    assert by_path["details"][1]["metadata"] == {"reason": "none left", "jsonrpcCode": "-32001"}


@pytest.mark.req("LRPC-07")
def test_a_challenge_becomes_a_header_without_control_characters() -> None:
    told = failure_of(A2AError(Reason.UNAUTHENTICATED, "no", metadata={"challenge": 'Bearer\r\nX: "y"\x7f'}))
    assert told.headers == [("WWW-Authenticate", 'BearerX: "y"')]


def test_a_standard_message_is_said_once() -> None:
    by_method, _ = told(A2AError(Reason.TASK_NOT_FOUND, "Task not found."))
    assert by_method["message"] == "Task not found"


@pytest.mark.req("ERRS-05")
def test_complaints_are_respelt_wherever_they_come_from() -> None:
    path = proto_json().sent
    fault = error_details_pb2.BadRequest.FieldViolation(field="message.parts[2].raw", description="is too long")
    foreign = said(
        code_pb2.INVALID_ARGUMENT,
        "message.parts[2].raw: is too long",
        error_details_pb2.BadRequest(field_violations=[fault]),
    )
    own = A2AError(Reason.INVALID_PARAMS, "2 fields are wrong.", violations=[Violation("message.parts", "x")] * 2)
    for error, message in ((foreign, "message.content[2].file.fileWithBytes: is too long"), (own, own.message)):
        spelt = translate_error(error, error_words.PROTO, path)
        assert isinstance(spelt, StatusError)
        assert spelt.status.message == message
        before = bytes(foreign.status.SerializeToString())
        assert translate_error(error, error_words.PROTO, path) is not error
        assert foreign.status.SerializeToString() == before
    assert translate_error(foreign, error_words.PROTO, path).metadata == foreign.metadata


def test_what_names_no_field_stays_as_it_is() -> None:
    error = A2AError(Reason.OVERLOADED, "Later.", retry_after=1)
    told = translate_error(error, error_words.KIND, proto_json().sent)
    assert isinstance(told, A2AError)
    assert (told.reason, told.message, told.retry_after) == (error.reason, error.message, error.retry_after)
