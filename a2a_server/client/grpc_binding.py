"""The gRPC binding: one channel, and every RPC by its descriptor (spec: GRPC, CLI-44)."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncGenerator
from typing import Any, Final
from urllib.parse import urlsplit

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from a2a_proto import a2a_pb2 as pb
from a2a_server.client.binding import CallTerms, ClientLimits, NumberedEvent
from a2a_server.client.credentials import PresentedCredentials
from a2a_server.client.failures import CardInvalidError, UnreachableError, invalid_answer, of_grpc
from a2a_server.client.network import GrpcAddress, GrpcTarget
from a2a_server.client.wire import WireLog
from a2a_server.protocol.json_v1 import V1
from a2a_server.protocol.names import REPLAY_URI

_PLAIN: Final = frozenset({"http", "grpc"})
_SECURE: Final = frozenset({"https", "grpcs"})
_HTTP: Final = 80
_HTTPS: Final = 443
_KEEPALIVE_MS: Final = 30_000
_CONNECT_MS: Final = 10_000
_LARGEST_NUMBER: Final = 2**53


def target_of(url: str, card_url: str) -> GrpcTarget:
    """Read the URL of a gRPC interface. What a bare host and port mean depends on where the card was found."""
    scheme, _, rest = url.rpartition("://")
    if scheme not in {*_PLAIN, *_SECURE} and scheme + rest != url:
        raise CardInvalidError(f"The card's gRPC interface {url[:200]} must be host:port, or begin with https://.")
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise CardInvalidError(f"The card's gRPC interface {url[:200]} must be host:port, or begin with https://.")
    is_secure = scheme in _SECURE if scheme else _is_secure(host, port, card_url)
    return GrpcTarget(host, port or (_HTTPS if is_secure else _HTTP), is_secure)


def _is_secure(host: str, port: int | None, card_url: str) -> bool:
    """Whether a server speaks TLS: like the one that the card came from, and otherwise unless it is this machine."""
    if port == _HTTPS or card_url.startswith("https:"):
        return True
    return not (card_url.startswith("http:") or is_loopback(host))


def is_loopback(host: str) -> bool:
    if host.rstrip(".").lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _options(limits: ClientLimits) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", limits.answer_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # the timeout of an attempt
        ("grpc.service_config_disable_resolution", 1),  # the name's owner cannot change it
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]


class GrpcBinding:
    """Calls one interface over gRPC."""

    def __init__(
        self, address: GrpcAddress, presented: PresentedCredentials, limits: ClientLimits, wire: WireLog
    ) -> None:
        arguments = [*_options(limits), *address.options]
        if address.credentials is None:
            self._channel = grpc.aio.insecure_channel(address.target, arguments)
        else:
            self._channel = grpc.aio.secure_channel(address.target, address.credentials, arguments)
        self._target = address.target
        self._credentials = presented.metadata()
        self._limits = limits
        self._wire = wire
        self._closed = False

    async def call(self, method: MethodDescriptor, request: Message, terms: CallTerms) -> Message:
        make: Any = self._channel.unary_unary(_path_of(method))
        call = make(request.SerializeToString(), timeout=terms.timeout, metadata=self._metadata(method, request, terms))
        try:
            wire = await call
        except grpc.aio.AioRpcError as error:
            raise self._failed(method, error) from None
        except asyncio.CancelledError:
            call.cancel()
            raise self._closed_or_cancelled() from None
        return self._read(method, wire)

    async def stream(
        self, method: MethodDescriptor, request: Message, terms: CallTerms
    ) -> AsyncGenerator[NumberedEvent, None]:
        make: Any = self._channel.unary_stream(_path_of(method))
        call = make(request.SerializeToString(), timeout=terms.timeout, metadata=self._metadata(method, request, terms))
        try:
            while (wire := await call.read()) is not grpc.aio.EOF:
                event = self._read(method, wire)
                yield NumberedEvent(number_in(event), event)
        except grpc.aio.AioRpcError as error:
            raise self._failed(method, error) from None
        except asyncio.CancelledError:
            raise self._closed_or_cancelled() from None
        finally:
            call.cancel()

    async def close(self) -> None:
        self._closed = True
        await self._channel.close()

    def _metadata(self, method: MethodDescriptor, request: Message, terms: CallTerms) -> list[tuple[str, str]]:
        metadata = [(name.lower(), value) for name, value in (*terms.metadata, *self._credentials)]
        if self._wire.listens:
            self._wire.sent(f"gRPC {self._target}{_path_of(method)}", metadata, self._json(request))
        return metadata

    def _read(self, method: MethodDescriptor, wire: bytes) -> Message:
        kind: type[Message] = GetMessageClass(method.output_type)
        try:
            message = kind.FromString(wire)
        except DecodeError:
            raise invalid_answer(f"The agent's answer is not a well-formed {method.output_type.name}.") from None
        if self._wire.listens:
            self._wire.received("OK", (), self._json(message))
        return message

    def _json(self, message: Message) -> str:
        return V1.encode(message).decode()

    def _failed(self, method: MethodDescriptor, error: grpc.aio.AioRpcError) -> Exception:
        code, text = error.code(), error.details() or ""
        self._wire.received(code.name, (), text)
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "CLIENT: " in text:
            return invalid_answer(f"The answer is larger than {self._limits.answer_bytes} bytes.")
        if code is grpc.StatusCode.UNAVAILABLE and self._closed:
            return UnreachableError("The connection was closed.")
        return of_grpc(method.name, error, sent=bool(self._credentials))

    def _closed_or_cancelled(self) -> BaseException:
        """Tell a task that is cancelled from a call that ended because the channel was closed."""
        task = asyncio.current_task()
        if self._closed and not (task and task.cancelling()):
            return UnreachableError("The connection was closed.")
        return asyncio.CancelledError()


def _path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def number_in(event: Message) -> int:
    """Take the number out that a2ad puts into events for whoever asks for its replay extension."""
    if not isinstance(event, pb.StreamResponse) or not (kind := event.WhichOneof("payload")):
        return 0
    update = getattr(event, kind)
    if not update.HasField("metadata") or REPLAY_URI not in update.metadata.fields:
        return 0
    number = update.metadata.fields[REPLAY_URI].number_value
    del update.metadata.fields[REPLAY_URI]
    if not update.metadata.fields:
        update.ClearField("metadata")
    return int(number) if 0 < number < _LARGEST_NUMBER and number.is_integer() else 0
