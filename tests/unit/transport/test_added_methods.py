"""A method that somebody adds to a proto is served without a route, and through the same gates as the others."""

import hashlib

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor

from a2a_proto import a2a_pb2 as pb
from a2a_server.adapters.auth import Secret, StaticAuthenticator
from a2a_server.ports.authenticator import Caller
from a2a_server.transport.grpc.server import SERVICES
from tests.unit.transport.doors import Seen, open_door, refused

TOKEN = "the-token-of-ann"


def added_service() -> ServiceDescriptor:
    """What protoc would make of an extension's own service."""
    proto = descriptor_pb2.FileDescriptorProto(name="extra.proto", package="extra.v1", dependency=["a2a.proto"])
    service = proto.service.add(name="Extra")
    service.method.add(name="Summarise", input_type=".lf.a2a.v1.GetTaskRequest", output_type=".lf.a2a.v1.Task")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(proto.SerializeToString())
    found: ServiceDescriptor = pool.FindServiceByName("extra.v1.Extra")
    return found


@pytest.mark.req("EXTN-09")
async def test_an_added_method_needs_the_same_credentials() -> None:
    secret = Secret(hashlib.sha256(TOKEN.encode()).digest(), Caller("ann", authenticated=True))
    authenticator = StaticAuthenticator(tokens=[secret], api_keys=[], api_key_header="x-api-key")
    seen = Seen()
    operation = {"Summarise": seen.answering(pb.Task(id="sum"))}
    services = (*SERVICES, added_service())
    async with open_door(operation, authenticator=authenticator, services=services) as door:
        call = door.channel.unary_unary(
            "/extra.v1.Extra/Summarise",
            request_serializer=pb.GetTaskRequest.SerializeToString,
            response_deserializer=pb.Task.FromString,
        )
        refusal = await refused(lambda: call(pb.GetTaskRequest(id="t")))
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
        assert not seen.calls
        answer = await call(pb.GetTaskRequest(id="t"), metadata=(("authorization", f"Bearer {TOKEN}"),))
        assert answer.id == "sum"
        assert [request.id for request in seen.requests] == ["t"]  # type: ignore[attr-defined]
        assert seen.calls[0].scope.owner == "ann"
