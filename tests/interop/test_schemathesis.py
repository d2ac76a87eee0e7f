"""A fuzzer that knows nothing but /openapi.json, against a real server (spec: DOOR-03).

Whatever it sends, no answer is a server's fault, and every answer is one that the document has announced: its status,
its content type, its headers and its form.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from google.protobuf import json_format
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode, Response
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from a2a_proto import a2a_pb2 as pb
from tests.e2e.processes import serving
from tests.support.door_events import event_of
from tests.support.effort import effort
from tests.support.http import SEND

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
]
AGENT = str(Path(__file__).parents[1] / "support" / "door_agent.py")

bounded = settings(
    max_examples=effort(3, everything=15),
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    nowhere = {"A2A_PUSH__ALLOW_LOOPBACK": "true", "A2A_PUSH__ALLOW_HOSTS": "127.0.0.1"}  # no host of somebody's
    with serving(AGENT, "--store", "memory:", cwd=tmp_path_factory.mktemp("fuzzed"), **nowhere) as server:
        yield server.http


@pytest.fixture(scope="module")
def schema(base: str) -> Any:
    return schemathesis.openapi.from_url(f"{base}/openapi.json")


def task_at(base: str) -> str:
    """The id of a task that exists, as no fuzzer guesses any."""
    answer = requests.post(f"{base}/message:send", data=SEND, headers={"Content-Type": "application/json"}, timeout=10)
    return str(answer.json()["task"]["id"])


def validate(case: Case[Any], response: Response) -> None:
    """A stream is one text to OpenAPI 3.1; the fuzzer would hold its single events against what is said of the text."""
    if response.headers["content-type"] != ["text/event-stream"]:
        case.validate_response(response, [*CHECKS, response_schema_conformance])
        return
    case.validate_response(response, CHECKS)
    for frame in response.text.removesuffix("\n\n").split("\n\n"):
        event = event_of(frame).data
        if case.path.startswith("/v1/"):
            assert list(event) in (["task"], ["message"], ["statusUpdate"], ["artifactUpdate"])
        else:
            json_format.ParseDict(event, pb.StreamResponse())


@pytest.mark.req("DOOR-03", "REST-01", "REST-02")
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_nothing_is_the_servers_fault_and_nothing_is_unannounced(base: str, schema: Any, mode: GenerationMode) -> None:
    known = task_at(base)
    seen: set[str] = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        seen.add(operation.label)

        @bounded
        @given(case=operation.as_strategy(generation_mode=mode), exists=st.booleans())
        def fuzz(case: Case[Any], exists: bool) -> None:  # noqa: FBT001 - drawn
            for name in ("id", "taskId", "name", "name1", "parent"):
                if exists and name in case.path_parameters:
                    case.path_parameters[name] = known
                    break
            validate(case, case.call(base_url=base, timeout=10))

        fuzz()
    assert len(seen) == sum(len(path) for path in schema.raw_schema["paths"].values()) > 20
    assert requests.get(f"{base}/readyz", timeout=10).ok
