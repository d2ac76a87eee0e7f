"""All that a stranger can send about a tenant, through every door, and all that she sees of the answers.

Paths come from the annotations of every proto and names from its services, so that a new RPC is asked for by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple
from urllib.parse import quote

import grpc
import orjson
from google.api import annotations_pb2
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from a2a_proto import a2a_pb2, a2a_v0_3_pb2, discovery_pb2
from tests.support.http import get, once, post

A2A = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
OLD = a2a_v0_3_pb2.DESCRIPTOR.services_by_name["A2AService"]
DISCOVERIES = tuple(discovery_pb2.DESCRIPTOR.services_by_name.values())
OVER_GRPC = (A2A, OLD, discovery_pb2.DESCRIPTOR.services_by_name["Discovery"])

OLD_METHODS = (
    *("message/send", "message/stream", "tasks/get", "tasks/cancel", "tasks/resubscribe", "tasks/nope"),
    *(f"tasks/pushNotificationConfig/{verb}" for verb in ("set", "get", "list", "delete")),
    *("agent/getAuthenticatedExtendedCard", "agent/authenticatedExtendedCard"),
)
"""No descriptor has the names of 0.3 over JSON-RPC."""
MORE_PATHS = ("/v1/tasks", "/v1/nope", "/v1/", "/v1", "", "/nope", "/tasks/v1/nope")
DRAFT = "/draft"
NAME = "TENANT"
"""Stands for the name."""

VERBS = ("GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS")
VERSIONS = ("A2A-Version: 1.0", "A2A-Version: 0.3", "A2A-Version: 7")
HELLO = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}

_WILD = re.compile(r"\{([^{}=]*)=?([^{}]*)\}")


class Probe(NamedTuple):
    """A request about a tenant, whose name stands where `TENANT` does."""

    verb: str
    path: str
    fields: tuple[str, ...] = ()
    body: bytes | None = None
    escapes: bool = False
    """Whether each character of the name in the path is percent-encoded."""

    def about(self, tenant: str, *more: str) -> bytes:
        name = "".join(f"%{byte:02X}" for byte in tenant.encode()) if self.escapes else quote(tenant, safe="")
        path, fields = self.path.replace(NAME, name), (*self.fields, *more)
        if self.body is None:
            return get(path, *fields, verb=self.verb)
        return post(path, self.body.replace(NAME.encode(), orjson.dumps(tenant)[1:-1]), *fields, verb=self.verb)


def paths() -> Iterator[str]:
    """Every path that names a tenant, in every version and profile, and some where nothing is."""
    for service in (A2A, *DISCOVERIES):
        yield from (path for path in annotated(service) if path.startswith(f"/{NAME}/"))
    yield from (f"/{NAME}{path}" for path in annotated(OLD))
    yield from (f"/{NAME}{path}" for path in MORE_PATHS)
    for path in annotated(A2A):
        if path.startswith(f"/{NAME}/"):
            yield from (f"{DRAFT}{path}", DRAFT + path.replace(NAME, f"{NAME}/v1"))
    yield from (f"{DRAFT}/{NAME}/.well-known/agent-card.json", f"{DRAFT}/{NAME}", f"{DRAFT}/{NAME}/v1/nope")


def annotated(service: ServiceDescriptor) -> Iterator[str]:
    for method in service.methods:
        rule = method.GetOptions().Extensions[annotations_pb2.http]
        for binding in (rule, *rule.additional_bindings):
            text = binding.custom.path or str(getattr(binding, binding.WhichOneof("pattern") or "get"))
            yield _WILD.sub(lambda found: NAME if found[1] == "tenant" else found[2].replace("*", "x") or "x", text)


def probes() -> Iterator[Probe]:
    """Every path with every verb; then, one at a time, all that else may be said, or be wrong, about a request."""
    message = orjson.dumps({"message": HELLO})
    for path in dict.fromkeys(paths()):
        for verb in VERBS:
            yield Probe(verb, path, (), message if verb in {"POST", "PUT"} else None)
        yield Probe("OPTIONS", path, ("Origin: https://a.example", "Access-Control-Request-Method: POST"))
        for verb, field in product(("GET", "POST"), VERSIONS):
            yield Probe(verb, path, (field,), message if verb == "POST" else None)
        for body in (b"", b"{", b"[1]", b'{"tenant":"TENANT"}', b'{"tenant":"other","message":7}'):
            yield Probe("POST", path, (), body)
        yield Probe("POST", path, ("Content-Type: text/plain",), message)
        yield Probe("GET", path, ("Accept: text/html",))
        for spelt in (
            f"{path}/",
            f"{path}?tenant={NAME}",
            f"{path}?tenant=other",
            f"{path}%zz",
            path.replace("x", "%ff"),
        ):
            yield Probe("GET", spelt)
            yield Probe("POST", spelt, (), message)
        yield from (
            Probe(verb, path, (), message if verb == "POST" else None, escapes=True) for verb in ("GET", "POST")
        )
    yield from _calls_by_name()
    yield from (Probe(verb, f"{path}?tenant={NAME}") for verb, path in product(VERBS, _plain()))


def _plain() -> Iterator[str]:
    """The paths of all versions without a tenant, who then is in the query."""
    for service in (A2A, OLD, *DISCOVERIES):
        yield from (path for path in annotated(service) if not path.startswith(f"/{NAME}/"))


def _calls_by_name() -> Iterator[Probe]:
    """JSON-RPC of all versions, at every address."""
    names = (*(method.name for method in A2A.methods), *OLD_METHODS, "Nope")
    for name, path in product(names, ("/", f"/{NAME}", f"/{NAME}/", f"/?tenant={NAME}", DRAFT, f"{DRAFT}/")):
        for params in ({}, {"tenant": NAME}, {"tenant": NAME, "message": HELLO, "id": "x", "taskId": "x"}):
            call = {"jsonrpc": "2.0", "id": 1, "method": name, "params": params}
            yield Probe("POST", path, (), orjson.dumps(call))
    for path, body in product((f"/{NAME}", f"/{NAME}/"), (b"{", b"[]", b"7")):
        yield Probe("POST", path, (), body)


async def told(port: int, probe: Probe, tenant: str, credentials: Sequence[str]) -> object:
    """The whole answer, with the name blanked out."""
    answer = await once(port, probe.about(tenant, *credentials), head=probe.verb == "HEAD")
    names = {tenant, quote(tenant, safe="")}
    fields = [(name, value) for name, value in answer.headers.items() if name != "Date"]
    return answer.status, _blank(fields, names), _blank(answer.body, names)


def _blank(value: object, names: set[str]) -> str:
    text = repr(value)
    for name in names:
        text = text.replace(name, "?")
    return re.sub(r"('ETag', '\")[0-9a-f]+", r"\1?", text)  # a digest of the body, which is compared


# -- gRPC


class Call(NamedTuple):
    """A call of an RPC, with a request that has the tenant's name in one field."""

    method: MethodDescriptor
    field: int

    async def told(self, channel: grpc.aio.Channel, tenant: str, credentials: Sequence[tuple[str, str]]) -> object:
        """The whole answer, with the name blanked out."""
        path, name = f"/{self.method.containing_service.full_name}/{self.method.name}", tenant.encode()
        request = bytes([self.field << 3 | 2, len(name)]) + name
        kind: Any = channel.unary_stream if self.method.server_streaming else channel.unary_unary
        made = kind(path)(request, metadata=tuple(credentials))
        try:
            answer = [item async for item in made] if self.method.server_streaming else await made
        except grpc.aio.AioRpcError:
            answer = None
        said = (await made.code(), await made.details(), await made.initial_metadata(), await made.trailing_metadata())
        return _blank((answer, *map(str, said)), {tenant})


def calls() -> Iterator[Call]:
    """Every RPC; 0.3 has no field for a tenant, and clients of the draft write one where 0.3 has none."""
    for method in (method for service in OVER_GRPC for method in service.methods):
        yield from (Call(method, field) for field in range(1, 7))
