"""Paths that a service and the gateway itself both want: both are served, or the gateway is not (spec: CONF-49)."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from tests.support.door_upstream import Scripted
from tests.support.doors import http_door
from tests.support.house import A2A, GatewayConfig, GatewayOptions, LegacyCards, create_app
from tests.support.http import get, once
from tests.unit.gateway.scratch.library import of_source


def annotated(folder: Path, *rules: str) -> ServiceDescriptor:
    rpcs = [
        f"rpc Do{at}(Thing) returns (Thing) {{ option (google.api.http) = {{ {rule} }}; }}"
        for at, rule in enumerate(rules)
    ]
    return of_source(folder, " ".join(rpcs))


@pytest.mark.parametrize("old", [False, True], ids=["without 0.3", "beside 0.3"])
async def test_what_a_service_says_is_under_v1_is_there_and_nothing_else_of_it(tmp_path: Path, *, old: bool) -> None:
    """Whether 0.3 is served there or not, `v1` is nobody's tenant (CONF-49)."""
    service = annotated(
        *(tmp_path, 'get: "/v1/things/{id}"', 'get: "/north/v1/things/{id}"'),
        *('get: "/{id}/v1/stuff"', 'put: "/{id}/things"'),
    )
    kind = GetMessageClass(service.methods[0].output_type)
    upstream = Scripted(kind(id="7"))
    async with http_door(upstream, old=old, services=(service,), tenants=True) as door:
        for prefix in ("/v1", "/north/v1"):
            answer = await once(door.port, get(f"{prefix}/things/a"))
            assert (answer.status, answer.json) == (200, {"id": "7"})
            told = await once(door.port, get(f"{prefix}/things/a", verb="OPTIONS"))
            assert told.headers["Allow"] == "GET, HEAD, OPTIONS"
            refused = await once(door.port, get(f"{prefix}/things/a", verb="PUT"))
            assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
        assert (await once(door.port, get("/anybody/v1/stuff"))).json == {"id": "7"}
        assert (await once(door.port, get("/v1/things", verb="PUT"))).status == 404
        assert (await once(door.port, get("/v2/things", verb="PUT"))).status == 200
        assert (await once(door.port, get("/v1/tasks/t"))).status == (200 if old else 404)


REFUSED = [
    ('get: "/healthz"', '"/healthz": the gateway itself answers there'),
    ('post: "/"', '"/": the gateway itself answers there'),
    ('post: "/keys.json"', '"/keys.json": the gateway itself answers there'),
    ('get: "/v1/tasks/{id}"', 'A2A 0.3 is served at "/v1/{name=tasks/*}"'),
    ('delete: "/v1/tasks/{id}:burn"', 'A2A 0.3 is served at "/v1/{name=tasks/*}"'),
    ('get: "/v1/{id=**}"', 'A2A 0.3 is served at "/v1/'),
    ('get: "/v1/message:send"', 'A2A 0.3 is served at "/v1/message:send"'),
    ('get: "/north/v1/card"', 'A2A 0.3 is served at "/v1/card"'),
    ('get: "/{id}/v1/card"', 'A2A 0.3 is served at "/v1/card"'),
    ('get: "/south/v1/card"', 'A2A 0.3 is served at "/v1/card"'),
    ('get: "/d/raft"', 'the draft is served at "/d/raft/**"'),
    ('get: "/d/raft/{id}"', 'the draft is served at "/d/raft/**"'),
]
BESIDE = [
    *('get: "/{id=**}"', 'get: "/healthz/{id}"', 'get: "/v1"', 'get: "/v1/message:lend"', 'get: "/d/{id}"'),
    *('get: "/{id}/v1/cards"', 'get: "/v1/tasks/{id}/pages"', 'post: "/{id}"', 'get: "/north/v1/cards"'),
]


AT_THE_ROOT = [
    ('get: "/v1"', 'the draft is served at "/v1/**"'),
    ('get: "/v1/tasks/{id}/pages"', 'the draft is served at "/v1/**"'),
    ('get: "/north/v1/cards"', 'the draft is served at "/*/v1/**"'),
    ('get: "/{id}/v1/cards"', 'the draft is served at "/*/v1/**"'),
]


def put_together(service: ServiceDescriptor, draft_path: str = "/d/raft") -> None:
    config = GatewayConfig(
        base="http://a.example",
        options=GatewayOptions(profiles=("draft",), draft_path=draft_path),
        services=(A2A, service),
        legacy_cards=LegacyCards() if draft_path != "/" else None,
        tenants=True,
        documents={"/keys.json": b"{}"},
    )
    create_app(Scripted(), config)


@pytest.mark.parametrize(("rule", "reason"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_route_that_something_else_would_answer_is_refused(tmp_path: Path, rule: str, reason: str) -> None:
    with pytest.raises(ValueError, match="cannot have") as caught:
        put_together(annotated(tmp_path, rule))
    assert str(caught.value).startswith("small.Small.Do0 cannot have ")
    assert reason in str(caught.value)


@pytest.mark.req("CONF-49")
@pytest.mark.parametrize(("rule", "reason"), AT_THE_ROOT)
def test_the_draft_may_have_the_root(tmp_path: Path, rule: str, reason: str) -> None:
    with pytest.raises(ValueError, match="cannot have") as caught:
        put_together(annotated(tmp_path, rule), "/")
    assert reason in str(caught.value)
    put_together(annotated(tmp_path, 'get: "/d/raft/{id}"'), "/")


@pytest.mark.parametrize("rule", BESIDE)
def test_a_route_beside_all_that_is_not(tmp_path: Path, rule: str) -> None:
    put_together(annotated(tmp_path, rule))
