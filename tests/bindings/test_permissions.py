"""Every RPC asks for its own right, through every door and in every version, before it looks anything up."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import grpc
import orjson
import pytest
from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from pydantic import ValidationError

from a2a_server.agents import Agent, Turn
from a2a_server.serve import relaying, running
from a2a_server.settings import Settings
from tests.support.house import Limits
from tests.support.http import SEND, get, once, post
from tests.support.strangers import A2A, OLD
from tests.support.world import refusal

Where = Literal["grpc", "rest", "jsonrpc"]
Version = Literal["1.0", "0.3", "draft"]

RENAMED = {
    "TaskSubscription": "SubscribeToTask",
    "ListTaskPushNotificationConfig": "ListTaskPushNotificationConfigs",
    "GetAgentCard": "GetExtendedAgentCard",
}
"""RPCs of 0.3 whose right has the name of 1.0."""
OLD_NAMES = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}
"""0.3 over JSON-RPC is in no descriptor."""
MESSAGE = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}], "kind": "message"}
CONFIG = {"pushNotificationConfig": {"url": "https://hooks.example"}}
OLD_ASKED: dict[str, dict[str, Any]] = {
    "message": {"message": MESSAGE},
    "tasks": {"id": "x"},
    "tasks/pushNotificationConfig": {"id": "x", "pushNotificationConfigId": "c"},
    "tasks/pushNotificationConfig/set": {"taskId": "x", **CONFIG},
    "SetTaskPushNotificationConfig": CONFIG,
    "agent": {},
}
"""What 0.3 and the draft must find in a request, for each method or those that begin so; 1.0 needs nothing."""

agent = Agent(name="Echo", description="Says it again.", version="1.0.0")


@agent.skill(id="echo", tags=["text"])
async def echo(turn: Turn) -> str:
    return turn.text


@agent.extended
def more(card: Any, caller: object) -> Any:
    del caller
    card.documentation_url = "https://docs.example"
    return card


def token(*scopes: str) -> str:
    return "t-" + "-".join(scopes)


def known(*scopes: str, **more: Any) -> dict[str, Any]:
    """A caller who may do just this."""
    digest = hashlib.sha256(token(*scopes).encode()).hexdigest()
    return {"owner": "ann", "hash": f"sha256:{digest}", "scopes": scopes, **more}


RIGHTS = [f"a2a:{method.name}" for method in A2A.methods]


@dataclass(frozen=True)
class House:
    """Its doors."""

    grpc: str
    http: int
    far: int
    """That of a gateway in front of it."""


@asynccontextmanager
async def house(tokens: Sequence[Any] = ()) -> AsyncIterator[House]:
    callers = [known(right) for right in [*RIGHTS, "a2a:read", "a2a:*", "nothing", "reader"]]
    everything = {"owner": "ann", "hash": "sha256:" + hashlib.sha256(b"t-").hexdigest()}
    roles = [{"name": "reader", "scopes": ["a2a:read", "books"]}]
    common: dict[str, Any] = {
        "http": "127.0.0.1:0",
        "gateway": {"profiles": ["draft"]},
        "limits": Limits(drain_grace=0.05),
    }
    told = {"store": "memory:", "grpc": "127.0.0.1:0", "push": {"enabled": True}, **common}
    told["auth"] = {"tokens": [*callers, everything, *tokens], "roles": roles}
    async with running(Settings(**told), agent) as server:
        assert server.http is not None
        upstream = {"addresses": [str(server.grpc)]}
        async with relaying(Settings(**common, upstream=upstream)) as far:
            yield House(str(server.grpc), server.http.port, far.port)


@dataclass(frozen=True)
class Told:
    """What a client was told of a refusal."""

    denied: bool
    scope: str = ""
    message: str = ""
    challenge: str = ""


Ask = Callable[[House, str], Awaitable[Told]]
"""Makes a call with a token."""


def over_grpc(method: MethodDescriptor) -> Ask:
    async def ask(house: House, bearer: str) -> Told:
        path = f"/{method.containing_service.full_name}/{method.name}"
        async with grpc.aio.insecure_channel(house.grpc) as channel:
            kind: Any = channel.unary_stream if method.server_streaming else channel.unary_unary
            made = kind(path)(_named(method), metadata=[("authorization", f"Bearer {bearer}")])
            try:
                async for _ in made if method.server_streaming else _once(made):
                    break
            except grpc.aio.AioRpcError as error:
                said = refusal(error)
                challenge = dict(error.trailing_metadata() or ()).get("www-authenticate", "")
                denied = error.code() is grpc.StatusCode.PERMISSION_DENIED
                return Told(denied, said.metadata.get("scope", ""), said.message, str(challenge))
        return Told(denied=False)

    return ask


def _named(method: MethodDescriptor) -> bytes:
    """0.3 has names that must look like names."""
    request = GetMessageClass(method.input_type)()
    for field, value in (("name", "tasks/x"), ("parent", "tasks/x")):
        if field in method.input_type.fields_by_name and method.containing_service is OLD:
            setattr(
                request, field, value + "/pushNotificationConfigs/c" * ("Config" in method.name and field == "name")
            )
    return request.SerializeToString()


async def _once(call: Awaitable[object]) -> AsyncIterator[object]:
    yield await call


def over_http(request: Callable[[str], bytes], *, far: bool = False) -> Ask:
    async def ask(house: House, bearer: str) -> Told:
        answer = await once(house.far if far else house.http, request(f"Authorization: Bearer {bearer}"))
        scope = re.search(rb'"scope":"([^"]*)"', answer.body)
        said = scope[1].decode() if scope else ""
        return Told(answer.status == 403, said, answer.body.decode(), answer.headers.get("WWW-Authenticate", ""))

    return ask


def rest(service: ServiceDescriptor, prefix: str = "", version: str = "1.0", *, far: bool = False) -> Iterator[Any]:
    """Every RPC by each of its paths."""
    for method in service.methods:
        rule = method.GetOptions().Extensions[annotations_pb2.http]
        for binding in (rule, *rule.additional_bindings):
            verb = str(binding.WhichOneof("pattern"))
            path = prefix + re.sub(r"\{([^{}=]*)=?([^{}]*)\}", _fill, getattr(binding, verb))
            yield method.name, over_http(_request(verb.upper(), path, version), far=far)


def _fill(found: re.Match[str]) -> str:
    return (found[2] or "*").replace("*", "x")


def _request(verb: str, path: str, version: str) -> Callable[[str], bytes]:
    def request(*fields: str) -> bytes:
        named = *fields, *([f"A2A-Version: {version}"] if version == "1.0" else [])
        body = orjson.dumps(CONFIG if path.endswith("Configs") and version != "1.0" else {})
        return post(path, body, *named) if verb == "POST" else get(path, *named, verb=verb)

    return request


def jsonrpc(names: Mapping[str, str], path: str = "/", *, far: bool = False) -> Iterator[Any]:
    for name, rpc in names.items():
        begins = name, name.rpartition("/")[0], name.partition("/")[0]
        params = next((OLD_ASKED[begin] for begin in begins if begin in OLD_ASKED), {})
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": name, "params": params})
        yield rpc, over_http(lambda *fields, body=body: post(path, body, *fields), far=far)


OWN_NAMES = {method.name: method.name for method in A2A.methods}
_SET, _LIST = "CreateTaskPushNotificationConfig", "ListTaskPushNotificationConfigs"
DRAFT_NAMES = {{_SET: "SetTaskPushNotificationConfig", _LIST: _LIST[:-1]}.get(name, name): name for name in OWN_NAMES}


def ways() -> Iterator[Any]:
    """Every way to call: its name, and every RPC with a call of it."""
    yield "1.0 over gRPC", [(method.name, over_grpc(method)) for method in A2A.methods]
    yield "0.3 over gRPC", [(method.name, over_grpc(method)) for method in OLD.methods]
    for far in (False, True):
        where = "far" if far else "near"
        yield f"1.0 over REST, {where}", [*rest(A2A, far=far)]
        yield f"1.0 over JSON-RPC, {where}", [*jsonrpc(OWN_NAMES, far=far)]
        yield f"0.3 over REST, {where}", [*rest(OLD, version="0.3", far=far)]
        yield f"0.3 over JSON-RPC, {where}", [*jsonrpc(OLD_NAMES, far=far)]
        yield f"draft over REST, {where}", [*rest(A2A, "/draft", "", far=far)]
        yield f"draft over JSON-RPC, {where}", [*jsonrpc(DRAFT_NAMES, "/draft", far=far)]


@pytest.mark.req("AUTZ-01", "AUTZ-04", "AUTZ-05", "GATE-07", "AUTN-02")
@pytest.mark.parametrize("calls", [pytest.param(calls, id=name) for name, calls in ways()])
async def test_every_rpc_asks_for_its_own_right(calls: Sequence[tuple[str, Ask]]) -> None:
    seen = set()
    async with house() as doors:
        for name, ask in calls:
            rpc = RENAMED.get(name, name)
            seen.add(rpc)
            right = f"a2a:{rpc}"
            for other in {"nothing", RIGHTS[RIGHTS.index(right) - 1]}:
                told = await ask(doors, token(other))
                assert told.denied, (name, other, told)
                assert told.scope == right, (name, told)
                assert f"{rpc} needs the scope {right}, which these credentials do not have." in told.message, name
                assert told.challenge == f'Bearer error="insufficient_scope", scope="{right}"', name
            assert not (await ask(doors, token(right))).denied, name
            for whole in ((), ("a2a:*",)):  # without a list everything, too
                assert (await ask(doors, token(*whole))).denied is (rpc == "GetExtendedAgentCard"), name
    assert OWN_NAMES.keys() - seen <= {"ListTasks"}  # 0.3 has none


@pytest.mark.req("GATE-07")
async def test_a_group_and_a_role_stand_for_their_rights() -> None:
    readings = {
        method.name for method in A2A.methods if method.GetOptions().Extensions[annotations_pb2.http].HasField("get")
    }
    async with house() as doors:
        for held in ("a2a:read", "reader"):
            for method in A2A.methods:
                allowed = method.name in readings - {"GetExtendedAgentCard"}
                assert (await over_grpc(method)(doors, token(held))).denied is not allowed, (held, method.name)


@pytest.mark.req("XCARD-03")
@pytest.mark.parametrize(
    ("scopes", "flag", "status"),
    [
        (None, False, 403),
        (None, True, 200),
        (["a2a:GetExtendedAgentCard"], False, 200),
        (["a2a:*"], False, 403),
        (["a2a:*"], True, 200),
        (["a2a:read"], False, 403),  # it tells more than others may read
        (["a2a:GetTask"], True, 200),
        (["a2a:GetTask"], False, 403),
    ],
)
async def test_the_extended_card_is_for_those_who_were_named_for_it(
    scopes: list[str] | None,
    flag: bool,  # noqa: FBT001 - a row
    status: int,
) -> None:
    digest = hashlib.sha256(b"card-reader").hexdigest()
    reader = {"owner": "cat", "hash": f"sha256:{digest}", "extended_card": flag}
    reader |= {} if scopes is None else {"scopes": scopes}
    async with house(tokens=[reader]) as doors:
        request = get("/extendedAgentCard", "Authorization: Bearer card-reader")
        answer = await once(doors.http, request)
        assert answer.status == status
        if status == 403:
            assert 'scope="a2a:GetExtendedAgentCard"' in answer.headers["WWW-Authenticate"]


@pytest.mark.req("AUTZ-02", "AUTZ-03")
async def test_the_answer_is_the_same_whether_or_not_there_is_a_task() -> None:
    everything, nothing = f"Authorization: Bearer {token()}", f"Authorization: Bearer {token('nothing')}"
    async with house() as doors:
        made = await once(doors.http, post("/message:send", SEND, everything))
        task = made.json["task"]["id"]
        for verb, path in (
            ("GET", ""),
            ("POST", ":cancel"),
            ("GET", ":subscribe"),
            ("GET", "/pushNotificationConfigs"),
        ):
            told = []
            for name in (task, "nobodys"):
                line = f"/tasks/{name}{path}"
                request = get(line, nothing) if verb == "GET" else post(line, b"{}", nothing)
                answer = await once(doors.http, request)
                told.append((answer.status, answer.body, answer.headers.get("WWW-Authenticate")))
            assert told[0] == told[1]
            assert told[0][0] == 403


@pytest.mark.req("AUTZ-05")
async def test_a_refusal_has_the_form_of_each_binding() -> None:
    reader = f"Authorization: Bearer {token('a2a:read')}"
    text = "CancelTask needs the scope a2a:CancelTask, which these credentials do not have."
    challenge = 'Bearer error="insufficient_scope", scope="a2a:CancelTask"'
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "PERMISSION_DENIED",
        "domain": "a2a-server",
        "metadata": {"scope": "a2a:CancelTask", "challenge": challenge},
    }
    async with house() as doors:
        told = await once(doors.http, post("/tasks/x:cancel", b"{}", reader))
        assert (told.status, told.headers["WWW-Authenticate"]) == (403, challenge)
        error = {"code": 403, "status": "PERMISSION_DENIED", "message": text, "details": [info]}
        assert told.json == {"error": error}
        call = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": "x"}}
        told = await once(doors.http, post("/", orjson.dumps(call), reader))
        assert (told.status, told.headers["WWW-Authenticate"]) == (403, challenge)
        assert told.json["error"] == {"code": -32051, "message": text, "data": [info]}


@pytest.mark.req("AUTN-01")
async def test_the_public_card_asks_for_nothing() -> None:
    async with house() as doors:
        for port in (doors.http, doors.far):
            path = "/.well-known/agent-card.json"
            assert (await once(port, get(path))).status == 200
            assert (await once(port, get(path, f"Authorization: Bearer {token('nothing')}"))).status == 200


@pytest.mark.parametrize(
    ("auth", "where", "says"),
    [
        ({"roles": [{"name": "r", "scopes": ["x"]}] * 2}, "roles", 'there are two roles "r"'),
        ({"roles": [{"name": "r", "scopes": []}]}, "scopes", "must name at least one scope"),
        ({"roles": [{"name": "a2a:r", "scopes": ["x"]}]}, "name", "must not begin with a2a:"),
        ({"roles": [{"name": "r r", "scopes": ["x"]}]}, "name", "printable ASCII"),
        ({"roles": [{"name": "r", "scopes": ["s"]}, {"name": "s", "scopes": ["x"]}]}, "roles", "list its scopes"),
        ({"tokens": [known("x") | {"scopes": []}]}, "scopes", "leave it out to allow everything"),
        ({"tokens": [known("x") | {"scopes": ["a2a:Get"]}]}, "scopes", '"a2a:Get" is none of the server'),
        ({"tokens": [known("x") | {"scopes": ['a"b']}]}, "scopes", "printable ASCII"),
    ],
)
def test_scopes_that_cannot_be_are_refused(auth: Any, where: str, says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(auth=auth)
    (fault,) = caught.value.errors()
    assert where in fault["loc"]
    assert says in fault["msg"]
