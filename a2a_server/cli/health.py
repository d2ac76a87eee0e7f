"""`a2ad health`: whether doors are ready, for containers and scripts (spec: DOOR-07, OPER-04)."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from a2a_server.settings import Settings
from a2a_server.transport.address import Address
from a2a_server.transport.tls.certificates import PemFile, authorities, identity

READY = "/readyz"
PORTS = {"http": 80, "https": 443}
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where a door listens, and where it is reached
DIRECT: Sequence[tuple[str, object]] = [("grpc.enable_http_proxy", 0)]
"""A proxy of the environment is not used: the door is asked directly."""

Status = health_pb2.HealthCheckResponse


class NotServingError(Exception):
    """A door is not ready; the message says which one and why."""


class ClosedError(NotServingError):
    """Nothing listens at the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """How to check a door's certificate, and which one to show it. Files are PEM."""

    ca: Path | None = None
    """Authorities of the door's certificate; none = those of the system."""
    server_name: str | None = None
    """The name in the door's certificate, if it is not the host's."""
    cert: Path | None = None
    key: Path | None = None

    def check(self) -> None:
        """Raise `StartError` for a file that cannot be used. gRPC would say neither which one nor why."""
        if bool(self.cert) != bool(self.key):
            raise ValueError("--cert and --key are needed together")
        if self.ca:
            authorities(PemFile("--ca", str(self.ca)))
        if self.cert and self.key:
            identity(PemFile("--cert", str(self.cert)), PemFile("--key", str(self.key)))

    def channel(self, target: str) -> grpc.Channel:
        named = [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else []
        pems = (path.read_bytes() if path else None for path in (self.ca, self.key, self.cert))
        credentials = grpc.ssl_channel_credentials(*pems)
        return grpc.secure_channel(target, credentials, [*DIRECT, *named])

    def wrap(self, plain: socket.socket, host: str) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=self.ca)
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        return context.wrap_socket(plain, server_hostname=self.server_name or host)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthQuestion:
    """Which doors to ask, and how. Each method returns the doors that are ready, or raises `NotServingError`."""

    grpc: Address | None = None
    http: SplitResult | None = None
    timeout: float = 3.0
    tls: ClientTls | None = None

    @classmethod
    def of(cls, *, grpc: str | None, http: str | None, timeout: float, tls: bool, **certificates: Any) -> Self:  # noqa: ANN401 - of `ClientTls`
        """Read the command line. A `ValueError` names the option that is wrong, a `StartError` the file."""
        own = ClientTls(**certificates)
        own.check()
        return cls(
            grpc=_address(grpc) if grpc else None,
            http=_url(http) if http else None,
            timeout=timeout,
            tls=own if tls or own != ClientTls() else None,
        )

    def ask(self) -> list[str]:
        """Ask the doors that are named, if any."""
        found = [self.ask_grpc(self.grpc)] if self.grpc else []
        return [*found, self.ask_http(self.http)] if self.http else found

    def ask_process(self, settings: Settings) -> list[str]:
        """Ask the door that the settings open: gRPC, or HTTP where a gateway runs alone."""
        if settings.tls.cert and not self.tls:
            raise NotServingError(f"grpc {settings.grpc}: speaks TLS; ask it with --ca, and --server-name if need be")
        try:
            return [self.ask_grpc(_reachable(settings.grpc))]
        except ClosedError as closed:
            if not settings.http:
                raise
            try:
                return [self.ask_http(urlsplit(f"http://{_reachable(settings.http)}"))]
            except ClosedError as also:
                raise ClosedError(f"{closed}; {also}") from None

    def ask_grpc(self, address: Address) -> str:
        """Ask `grpc.health.v1` for the server as a whole."""
        door = f"grpc {address}"
        _connected(door, address, self.timeout).close()
        target = str(address)
        with self.tls.channel(target) if self.tls else grpc.insecure_channel(target, DIRECT) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            try:
                answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=self.timeout)
            except grpc.RpcError as error:
                raise NotServingError(f"{door}: {_why(error)}") from None
        if answer.status != Status.SERVING:
            raise NotServingError(f"{door}: {Status.ServingStatus.Name(answer.status)}")
        return door

    def ask_http(self, url: SplitResult) -> str:
        """GET a URL, `/readyz` where it has no path. Redirects and proxies are not followed; 2xx is a yes."""
        address = Address(url.hostname or "", url.port or PORTS[url.scheme])
        door = f"http {address}"
        plain = _connected(door, address, self.timeout)
        with closing(http.client.HTTPConnection(address.host, address.port)) as connection:
            connection.sock = plain  # closed with the connection, also when there is no handshake
            try:
                if url.scheme == "https":
                    connection.sock = (self.tls or ClientTls()).wrap(plain, address.host)
                connection.request("GET", url.path.rstrip("/") or READY)
                with connection.getresponse() as answer:
                    verdict = f"{answer.status} {answer.reason}".rstrip()
            except (OSError, http.client.HTTPException) as error:
                raise NotServingError(f"{door}: {str(error) or type(error).__name__}") from None
        if not http.client.OK <= answer.status < http.client.MULTIPLE_CHOICES:
            raise NotServingError(f"{door}: {verdict}")
        return door


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError as error:
        raise ValueError(f"--grpc = {text!r}: {error}") from None


def _url(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        if url.scheme in PORTS and url.hostname and url.port != 0:  # reading the port checks it
            return url
    except ValueError:
        pass
    raise ValueError(f"--http = {text!r}: must be a URL such as http://127.0.0.1:8080")


def _reachable(listening: str) -> Address:
    address = Address.parse(listening)
    return Address(ANYWHERE.get(address.host, address.host), address.port)


def _connected(door: str, address: Address, timeout: float) -> socket.socket:
    """Tell a closed door from one that is not ready; gRPC would say UNAVAILABLE for both."""
    try:
        return socket.create_connection((address.host, address.port), timeout)
    except ConnectionRefusedError:
        raise ClosedError(f"{door}: nothing listens there") from None
    except OSError as error:
        raise NotServingError(f"{door}: {error.strerror or error}") from None


def _why(error: grpc.RpcError) -> str:
    if not isinstance(error, grpc.Call):  # errors of calls are calls, too, which their type does not say
        return str(error)
    match error.code():
        case grpc.StatusCode.UNIMPLEMENTED:
            return "has no health service (grpc.health.v1)"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return "no answer in time"
        case code:
            return f"{code.name}: {error.details()}"
