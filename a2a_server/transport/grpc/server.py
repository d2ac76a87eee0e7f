"""One gRPC server: TLS, limits, keepalive, health, reflection, drain (spec: DOOR-07, DOOR-09, DOOR-13, DURA-08)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import grpc
import structlog
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from a2a_proto import a2a_pb2, a2a_v0_3_pb2, discovery_pb2
from a2a_server.protocol.options import connection_bounds
from a2a_server.transport.address import Address, StartError
from a2a_server.transport.grpc.accepting import Acceptor, Places, core_of, is_wrapped, silence_broken_input
from a2a_server.transport.grpc.peers import Peers, has_connections, stop_listening
from a2a_server.transport.grpc.servicer import Handler, Servicer
from a2a_server.transport.grpc.servicer_v0_3 import CODES, LegacyServicer
from a2a_server.transport.grpc_options import GrpcOptions
from a2a_server.transport.tls.files import TlsFiles

SERVICES = (a2a_pb2.DESCRIPTOR.services_by_name["A2AService"], discovery_pb2.DESCRIPTOR.services_by_name["Discovery"])
LEGACY = a2a_v0_3_pb2.DESCRIPTOR.services_by_name["A2AService"]

log = structlog.get_logger(__name__)

_KEYS = "gRPC knows keys of RSA, of ECDSA on P-256, P-384 and P-521, and Ed25519"
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_SECONDS_BETWEEN_PROBES = 1.0
_LEAST_PATIENCE = 5.0
"""After how many seconds at the earliest a client loses its connection that leaves an answer unread."""


class GrpcDoor:
    """One listening gRPC server."""

    def __init__(
        self,
        options: GrpcOptions,
        tls: TlsFiles | None = None,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        *,
        shared: bool = False,
    ) -> None:
        """With `shared`, other processes listen on the same port, and the kernel spreads connections over them."""
        self._intercepted = bool(interceptors) or is_wrapped()
        silence_broken_input()
        self._server = grpc.aio.server(
            interceptors=list(interceptors),
            options=[
                *channel_arguments(options),
                ("grpc.so_reuseport", int(shared)),  # or a second server would share the port in silence (CONF-73)
            ],
        )
        self._shared = shared
        self._options = options
        self._tls = tls
        self._health = health.aio.HealthServicer()
        self._served: tuple[str, ...] = ()
        self._places = Places(options, intercepted=self._intercepted)
        self._watches: list[asyncio.Task[None]] = []

    def listen(self, address: Address) -> Address:
        """Take the port, so that it is known before the card is written; calls wait until `serve`."""
        if address.port and not self._shared:
            address.check_free("grpc")
        try:
            if self._tls is None:
                self._port = self._server.add_insecure_port(str(address))
            else:
                self._port = self._server.add_secure_port(str(address), self._tls.grpc_credentials())
            return Address(address.host, self._port)
        except RuntimeError:
            # The files are sound and fit together; gRPC's choice of algorithms is smaller than other people's.
            tls = f" with the certificate {self._tls.tls.cert!r} (tls.cert); {_KEYS}" if self._tls is not None else ""
            raise StartError(f"grpc: cannot listen on {address}{tls}") from None

    async def serve(
        self,
        servicer: Servicer,
        services: Sequence[ServiceDescriptor] = SERVICES,
        *,
        legacy: LegacyServicer | None = None,
    ) -> None:
        """Answer calls; those of 0.3 if there is a servicer for them."""
        names, bounded = [service.full_name for service in services], self._places.bounded
        found = chain.from_iterable(servicer.handlers(service).items() for service in services)
        handlers = {name: bounded(handler, servicer.codes) for name, handler in found}
        if legacy is not None:
            names.append(LEGACY.full_name)
            handlers |= {name: bounded(handler, CODES) for name, handler in legacy.handlers(LEGACY).items()}
        acceptor = self._acceptor(handlers)
        self._add_helpers([*names, health.SERVICE_NAME, reflection.SERVICE_NAME])
        await self._server.start()
        if acceptor is not None:
            acceptor.start()
        options = self._options
        peers = Peers(self._port, connection_bounds(options.connections, options.connections_per_client)[1])
        patience = max(2 * servicer.pipeline.streams.write_timeout, _LEAST_PATIENCE)
        waiting, unread = self._places.waiting, self._places.unread
        watches = peers.keep(), waiting.keep(self._port, servicer.caller), unread.keep(peers, patience)
        self._watches = [asyncio.create_task(watch, name="grpc bounds") for watch in watches]
        self._served = ("", *names)
        await self._tell_health(serves=True)

    def _acceptor(self, handlers: Mapping[str, Handler]) -> Acceptor | None:
        """Return what accepts the calls of these methods; None where grpc.aio does so itself, for its interceptors."""
        ahead = self._options.accept_ahead
        core = core_of(self._server) if ahead and not self._intercepted else None
        if core is not None:
            return Acceptor(core, handlers, ahead=ahead)
        if ahead and self._intercepted:
            log.info("grpc.accepts_one_by_one", why="interceptors")
        elif ahead:
            log.warning("grpc.accepts_one_by_one", why="another grpcio than expected", grpcio=grpc.__version__)
        self._server.add_generic_rpc_handlers([_ByName(handlers)])
        return None

    def _add_helpers(self, shown: Sequence[str]) -> None:
        found = _Registered()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, cast("grpc.aio.Server", found))
        if self._options.reflection:
            servicer = reflection.aio.ReflectionServicer(shown)
            cast("Any", reflection_pb2_grpc).add_ServerReflectionServicer_to_server(servicer, found)
        helpers = {name: self._places.bounded(handler, is_helper=True) for name, handler in found.handlers.items()}
        self._server.add_generic_rpc_handlers([_ByName(helpers)])

    async def _tell_health(self, *, serves: bool) -> None:
        for name in self._served:
            await self._health.set(name, _SERVING if serves else _NOT_SERVING)

    async def keep_health(self, ready: Callable[[], Awaitable[bool]]) -> None:
        """Let health checks say whether calls would be served, for as long as this runs."""
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_PROBES)
            await self._tell_health(serves=await ready())

    async def leave(self) -> None:
        """Accept no more connections. Those that are open go on until they reach their age."""
        await asyncio.to_thread(stop_listening, self._port)

    async def is_connected(self) -> bool:
        """Whether any connection is open."""
        return await asyncio.to_thread(has_connections, self._port)

    async def refuse_health(self) -> None:
        """Tell load balancers to use another server. Calls may still arrive until they do."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace: float | None) -> None:
        """Let calls end for `grace` seconds, then cut what is left."""
        for watch in self._watches:
            watch.cancel()
        await self._server.stop(grace)


class _ByName(grpc.GenericRpcHandler):
    """Handlers by the full names of their methods."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        return self._handlers.get(handler_call_details.method)


class _Registered:
    """Collects what generated code registers. Registered at the server, each would cost grpc.aio one more future."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Generated code registers twice."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        self.handlers |= {f"/{service}/{name}": handler for name, handler in handlers.items()}


def channel_arguments(options: GrpcOptions) -> list[tuple[str, Any]]:
    """The options in the spelling of gRPC's core."""
    arguments: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", -1),  # what agents produce is bounded elsewhere
        ("grpc.max_metadata_size", options.max_metadata_bytes),
        ("grpc.absolute_max_metadata_size", options.max_metadata_bytes),
        ("grpc.max_allowed_incoming_connections", connection_bounds(options.connections, 1)[0]),
        ("grpc.server_handshake_timeout_ms", _ms(options.handshake_timeout)),
        ("grpc.max_concurrent_streams", options.max_concurrent_streams),
        ("grpc.keepalive_time_ms", _ms(options.keepalive_time)),
        ("grpc.keepalive_timeout_ms", _ms(options.keepalive_timeout)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _ms(options.min_ping_interval)),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    if options.max_connection_age:
        arguments.append(("grpc.max_connection_age_ms", _ms(options.max_connection_age)))
    if options.max_connection_idle:
        arguments.append(("grpc.max_connection_idle_ms", _ms(options.max_connection_idle)))
    return arguments


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
