"""What a server is told beside a request of 0.3, and what becomes of several answers (spec: CONF-34, LRPC-06)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from a2a_gateway.upstream import Answer, CallContext, UpstreamAnswer
from a2a_proto import a2a_pb2 as pb
from tests.support.door_old import WHERE, OldClient, Where, old_gateway, old_serving, say, tell
from tests.support.door_upstream import Scripted
from tests.support.house import Call
from tests.support.stage import Stage

URL = "https://hooks.example/"
EXTENSION = "urn:a2a-server:input-request:v1"
EXTRAS = "urn:a2a-server:input-request-members:v1"
CONFIG = "tasks/pushNotificationConfig"


class Paged(Scripted):
    """Lists configs a few at a time, for ever if need be."""

    def __init__(self, pages: int, *, each: int = 2) -> None:
        super().__init__()
        self.pages = pages
        self.each = each

    async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
        asked = pb.ListTaskPushNotificationConfigsRequest()
        asked.MergeFromString(request.SerializeToString())
        self.asked.append((method.name, asked, context))
        page = int(asked.page_token or 0)
        configs = [pb.TaskPushNotificationConfig(task_id="t", id=f"c-{page}-{n}", url=URL) for n in range(self.each)]
        more = str(page + 1) if page + 1 < self.pages else ""
        return Answer(pb.ListTaskPushNotificationConfigsResponse(configs=configs, next_page_token=more))


def told(upstream: Scripted) -> list[dict[str, tuple[str, ...]]]:
    """The metadata of each call that is this gateway's own."""
    return [
        {name: tuple(values) for name, values in context.metadata.items() if name.startswith("a2a-")}
        for _, _, context in upstream.asked
    ]


OWN = {"a2a-server-spoken": ("0.3",), "a2a-version": ("1.0",)}


@pytest.mark.req("VERS-01", "VERS-07")
async def test_the_server_is_told_what_its_client_speaks() -> None:
    upstream = Scripted()
    async with old_gateway(upstream) as client:
        await client.call("tasks/get", {"id": "t"})
        await client.call("tasks/get", {"id": "t"}, a2a_version="0.3.0")
        await client.told("GET", "/v1/tasks/t", a2a_version="0.3")
        await client.told("GET", "/v1/tasks/t?A2A-Version=0.3.1")
        async with client.session.get(f"{client.base}/tasks/t", headers={"A2A-Version": "1.0"}) as response:
            assert response.status == 200
    *old, new = told(upstream)
    assert old == [OWN] * 4
    assert new == {"a2a-version": ("1.0",)}
    assert [context.spoken for _, _, context in upstream.asked] == ["0.3"] * 4 + ["1.0"]


@pytest.mark.req("VERS-07", "SPAR-01")
@pytest.mark.parametrize("prefix", ["", "Grpc-Metadata-"])
async def test_no_client_says_it_in_the_gateways_stead(prefix: str) -> None:
    upstream = Scripted()
    headers = {f"{prefix}A2A-Server-Spoken": "draft", f"{prefix}A2A-Server-Schemes": "Basic"}
    async with old_gateway(upstream) as client:
        await client.told("GET", "/v1/tasks/t", **headers)
        async with client.session.get(f"{client.base}/tasks/t", headers=headers) as response:
            assert response.status == 200
    assert told(upstream) == [OWN, {}]


def offering(*schemes: str) -> dict[str, Any]:
    return {"url": URL, "authentication": {"schemes": [*schemes], "credentials": "s3cret"}}


@pytest.mark.req("LPSH-02", "LRES-06")
async def test_all_schemes_travel_beside_a_request_that_has_room_for_one() -> None:
    upstream = Scripted(pb.SendMessageResponse(task=pb.Task(id="t")))
    three = offering("Bearer", "Basic", "HMAC")
    async with old_gateway(upstream) as client:
        await client.call("message/send", say(configuration={"pushNotificationConfig": three}))
        await client.told("POST", "/v1/message:send", tell(configuration={"pushNotification": three}))
        await client.told("POST", "/v1/message:send", say(configuration={"push_notification_config": three}))
        upstream.answer = pb.TaskPushNotificationConfig(task_id="t", id="c", url=URL)
        await client.call(f"{CONFIG}/set", {"taskId": "t", "pushNotificationConfig": three})
        for body in ({"pushNotificationConfig": three}, {"config": {"pushNotificationConfig": three}}):
            await client.told("POST", "/v1/tasks/t/pushNotificationConfigs", body)
        count = len(upstream.asked)
        for one in (offering("Bearer"), offering(), {"url": URL, "authentication": {}}, {"url": URL}):
            await client.call(f"{CONFIG}/set", {"taskId": "t", "pushNotificationConfig": one})
    assert told(upstream)[:count] == [{**OWN, "a2a-server-schemes": ("Bearer,Basic,HMAC",)}] * count
    assert told(upstream)[count:] == [OWN] * 4
    first = [getattr(request, "configuration", None) for _, request, _ in upstream.asked[:3]]
    assert [one.task_push_notification_config.authentication.scheme for one in first if one] == ["Bearer"] * 3


@pytest.mark.req("LPSH-02", "ERRS-05")
@pytest.mark.parametrize("scheme", ["ü", "a\nb", "\x7f", "Digest,Bearer", "a b"])
async def test_what_cannot_be_a_scheme_is_refused_where_it_stands(scheme: str) -> None:
    upstream = Scripted()
    text = "must be the name of an HTTP authentication scheme, such as Bearer"
    async with old_gateway(upstream) as client:
        error = await client.fault(
            "message/send", say(configuration={"pushNotificationConfig": offering("Bearer", scheme)})
        )
        field = "configuration.pushNotificationConfig.authentication.schemes[1]"
        assert error["data"]["violations"] == [{"field": field, "description": text}]
    assert not upstream.asked


@pytest.mark.req("LPSH-02", "CONF-34")
@pytest.mark.parametrize("where", WHERE)
async def test_a_comma_does_not_make_two_schemes_of_one(where: Where) -> None:
    async with old_serving(Stage().agent, where, push_notifications=True) as (_, client):
        told = say("paint", skill="ask", configuration={"pushNotificationConfig": offering("Digest,Bearer")})
        (fault,) = (await client.fault("message/send", told))["data"]["violations"]
        assert fault["field"] == "configuration.pushNotificationConfig.authentication.schemes"
        assert fault["description"].startswith("'Digest,Bearer' cannot be served")


@pytest.mark.req("LPSH-02")
@pytest.mark.parametrize("where", WHERE)
async def test_a_server_knows_the_version_and_the_schemes_of_the_client(where: Where) -> None:
    calls: list[Call] = []
    async with old_serving(Stage().agent, where, push_notifications=True) as (world, client):
        operations: Any = world.pipeline._unary  # noqa: SLF001 - there is no other way to look
        create = operations["CreateTaskPushNotificationConfig"]

        async def watched(call: Call, request: Any) -> Any:
            calls.append(call)
            return await create(call, request)

        task = (await client.call("message/send", say("paint", skill="ask")))["id"]
        operations["CreateTaskPushNotificationConfig"] = watched
        config = {"taskId": task, "pushNotificationConfig": offering("Bearer", "Basic")}
        made = await client.call(f"{CONFIG}/set", config)
    assert [(call.version, [*call.schemes]) for call in calls] == [("0.3", ["Bearer", "Basic"])]
    assert len(made["pushNotificationConfig"]["authentication"]["schemes"]) == 1  # wire-0.3, 8: the one that was chosen


@pytest.mark.req("LRPC-01", "LRPC-06")
async def test_pages_are_followed_to_their_end() -> None:
    async with old_gateway(paged := Paged(3)) as client:
        listed = await client.call(f"{CONFIG}/list", {"id": "t"})
        assert [entry["pushNotificationConfig"]["id"] for entry in listed] == [
            f"c-{page}-{n}" for page in range(3) for n in range(2)
        ]
        assert [(request.page_size, request.page_token) for _, request, _ in paged.asked] == [  # type: ignore[attr-defined]
            (100, ""),
            (100, "1"),
            (100, "2"),
        ]
        whole = await client.told("GET", "/v1/tasks/t/pushNotificationConfigs")
        assert len(whole["configs"]) == 6
        page = await client.told("GET", "/v1/tasks/t/pushNotificationConfigs?pageSize=2&pageToken=1")
        assert ([*page], page["nextPageToken"], len(page["configs"])) == (["configs", "nextPageToken"], "2", 2)
        one = await client.call(f"{CONFIG}/get", {"id": "t"})
        assert one["pushNotificationConfig"]["id"] == "c-0-0"


@pytest.mark.req("LRPC-01", "LIMT-01")
async def test_a_list_without_end_is_not_followed_for_ever() -> None:
    async with old_gateway(paged := Paged(10**9)) as client:
        error = await client.fault(f"{CONFIG}/list", {"id": "t"})
    assert (error["code"], error["message"]) == (-32006, "Invalid agent response: The list has more than 100 pages.")
    assert len(paged.asked) == 100


@pytest.mark.req("GEN-07")
async def test_a_deadline_is_one_for_all_pages() -> None:
    class Slow(Paged):
        async def unary(self, method: MethodDescriptor, request: Message, context: CallContext) -> UpstreamAnswer:
            if self.asked:
                await asyncio.sleep(60)
            return await super().unary(method, request, context)

    async with old_gateway(Slow(3)) as client:
        error = await client.fault(f"{CONFIG}/list", {"id": "t"}, grpc_timeout="50m")
    assert (error["code"], error["data"]["reason"]) == (-32054, "DEADLINE_EXCEEDED")


def carrying() -> pb.SendMessageResponse:
    """An answer with what one source alone has, as 1.0 carries it."""
    part = pb.Part(data={"struct_value": {"toolUseId": "d", "result": "left"}})
    part.metadata[EXTENSION] = {"partKind": "tool-result"}
    message = pb.Message(message_id="a", role=pb.ROLE_AGENT, parts=[{"text": "Which?"}, part], extensions=[EXTENSION])
    message.metadata[EXTENSION] = {
        "inputRequest": {"kind": "input-request", "prompt": "Which?", "sensitive": False, "requestId": "d"}
    }
    return pb.SendMessageResponse(message=message)


async def kinds_told(client: OldClient, body: dict[str, Any], headers: dict[str, str]) -> list[list[str]]:
    """Of the parts of an answer over JSON-RPC and over REST, and at last whether it has the member, too."""
    message = await client.call("message/send", body, **headers)
    wrapped = await client.told("POST", "/v1/message:send", body, **headers)
    return [
        [*(part["kind"] for part in one["parts"]), *(name for name in one if name == "inputRequest")]
        for one in (message, wrapped["message"])
    ]


RESULT = {"kind": "tool-result", "toolUseId": "d", "result": "the left one"}
CARRIED = {
    "kind": "data",
    "data": {"toolUseId": "d", "result": "left"},
    "metadata": {EXTENSION: {"partKind": "tool-result"}},
}
ASKS = {"kind": "input-request", "prompt": "Which?", "sensitive": False, "requestId": "r"}


@pytest.mark.req("XTRA-01", "LMAP-03")
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (say(), {"X_A2A_Extensions": EXTRAS}),
        (say(), {"A2A_Extensions": f"urn:other, {EXTRAS} ,{EXTENSION}"}),
        (say(parts=[{"kind": "text", "text": "x"}, RESULT]), {}),
        (say(inputRequest=ASKS), {}),
    ],
)
async def test_extras_are_written_for_those_who_use_them(body: dict[str, Any], headers: dict[str, str]) -> None:
    async with old_gateway(Scripted(carrying())) as client:
        assert await kinds_told(client, body, headers) == [["text", "tool-result", "inputRequest"]] * 2


@pytest.mark.req("XTRA-01", "LRPC-01")
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (say(), {}),
        (say(), {"X_A2A_Extensions": EXTENSION}),
        (say(extensions=[EXTENSION]), {"X_A2A_Extensions": EXTENSION}),
        (say(parts=[CARRIED]), {}),
        # URIs are items of a list, and only the whole of one is its name.
        (say(), {"X_A2A_Extensions": f"{EXTRAS}:more,x{EXTRAS}"}),
    ],
)
async def test_extras_are_written_for_nobody_else(body: dict[str, Any], headers: dict[str, str]) -> None:
    async with old_gateway(Scripted(carrying())) as client:
        assert await kinds_told(client, body, headers) == [["text", "data"]] * 2
        proto = await client.told("POST", "/v1/message:send", tell(), X_A2A_Extensions=EXTRAS)
        assert "inputRequest" not in proto["message"]


@pytest.mark.req("ONCE-01")
@pytest.mark.parametrize("where", WHERE)
async def test_a_send_with_a_key_is_made_once(where: Where) -> None:
    stage = Stage()
    async with old_serving(stage.agent, where) as (_, client):
        first = await client.call("message/send", say(), idempotency_key="k-1")
        second = await client.call("message/send", say(), idempotency_key="k-1")
        third = await client.told("POST", "/v1/message:send", say(), idempotency_key="k-1")
    assert first["id"] == second["id"] == third["task"]["id"]
    assert len(stage.turns) == 1
