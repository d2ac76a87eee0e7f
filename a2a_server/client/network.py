"""How connections to other agents are opened: which certificates are trusted, and which addresses may be called.

gRPC can be told neither to skip a check of certificates nor to ask before it connects. So an unchecked certificate is
fetched first and then trusted, and a name is resolved and checked first and then called by its addresses.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import grpc
from aiohttp import AddrInfoType
from cryptography import x509

from a2a_server.client.failures import UnreachableError

Option = tuple[str, Any]

_KEEPALIVE_SECONDS: Final = 30
_IDLE_SECONDS: Final = 15.0


class GrpcTarget(NamedTuple):
    host: str
    port: int
    is_secure: bool

    @property
    def named_host(self) -> str:
        """The host as URLs write it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def address(self) -> str:
        return f"{self.named_host}:{self.port}"


class GrpcAddress(NamedTuple):
    """What a channel is made with."""

    target: str
    credentials: grpc.ChannelCredentials | None
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The caller's choices for all connections."""

    trust: str = ""
    """Certificates of further authorities, as PEM."""
    insecure: bool = False
    """Does not check certificates."""
    refusal: Callable[[str], str] | None = None
    """Says why an IP address may not be called; empty = it may."""
    connect_seconds: float = 10.0

    def new_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0, ssl=self._context(), socket_factory=self._socket, keepalive_timeout=_IDLE_SECONDS
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.connect_seconds),
        )

    async def grpc_address(self, target: GrpcTarget) -> GrpcAddress:
        """Return what leads to a gRPC server, once names and certificates are settled."""
        options: tuple[Option, ...] = ()
        address = target.address
        if self.refusal is not None:
            address = await self._checked(target)
            options = (("grpc.default_authority", target.address), ("grpc.ssl_target_name_override", target.host))
        if not target.is_secure:
            return GrpcAddress(address, None, options[:1])
        if not self.insecure:
            return GrpcAddress(address, grpc.ssl_channel_credentials(self._roots()), options)
        pem, name = await self._served(target)
        named = (("grpc.default_authority", target.address), ("grpc.ssl_target_name_override", name))
        return GrpcAddress(address, grpc.ssl_channel_credentials(pem), named)

    def _context(self) -> ssl.SSLContext | bool:
        if self.insecure:
            return False
        context = ssl.create_default_context()
        if self.trust:
            context.load_verify_locations(cadata=self.trust)
        return context

    def _roots(self) -> bytes | None:
        """Return the system's authorities and those of `trust`; None = gRPC's own, where the system has no file."""
        place = ssl.get_default_verify_paths().cafile
        system = Path(place).read_bytes() if place else b""
        return (system + b"\n" + self.trust.encode()).strip() or None

    def _socket(self, info: AddrInfoType) -> socket.socket:
        """Open a socket that notices when the other side is gone, however long a stream is silent."""
        family, kind, proto, _, address = info
        if self._refused(str(address[0])):
            raise OSError(errno.EACCES, "calls may not go to this address")
        made = socket.socket(family, kind, proto)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
        return made

    def _refused(self, address: str) -> str:
        return self.refusal(address) if self.refusal is not None else ""

    async def _checked(self, target: GrpcTarget) -> str:
        """Resolve a name, and return only addresses that may be called, all of one family."""
        found = await self._resolved(target)
        allowed = [(family, address) for family, address in found if not self._refused(address)]
        if not allowed:
            raise UnreachableError(f"Calls may not go to the address of {target.host}.")
        family = allowed[0][0]
        hosts = [address for its, address in allowed if its == family]
        if family == socket.AF_INET6:
            return "ipv6:" + ",".join(f"[{host}]:{target.port}" for host in hosts)
        return "ipv4:" + ",".join(f"{host}:{target.port}" for host in hosts)

    async def _resolved(self, target: GrpcTarget) -> Sequence[tuple[int, str]]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.connect_seconds):
                found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError) as error:
            raise UnreachableError(f"The name {target.host} cannot be resolved: {error}") from None
        return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))

    async def _served(self, target: GrpcTarget) -> tuple[bytes, str]:
        """Fetch the certificate of a server, unchecked, and a name that it is for."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        try:
            async with asyncio.timeout(self.connect_seconds):
                _, writer = await asyncio.open_connection(target.host, target.port, ssl=context)
        except (OSError, TimeoutError) as error:
            raise UnreachableError(f"{target.address} cannot be reached: {error}") from None
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        with suppress(OSError, ssl.SSLError):
            await writer.wait_closed()
        return ssl.DER_cert_to_PEM_cert(der).encode(), _name_in(x509.load_der_x509_certificate(der)) or target.host


def _name_in(certificate: x509.Certificate) -> str:
    with suppress(x509.ExtensionNotFound, ValueError):
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        for name in names.get_values_for_type(x509.DNSName):
            return name.replace("*", "any", 1)
        for address in names.get_values_for_type(x509.IPAddress):
            return str(address)
    common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(common[0].value) if common else ""
