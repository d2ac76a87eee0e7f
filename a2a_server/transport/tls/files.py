"""The files of TLS as they are now: read again when they change, while connections go on (spec: SECR-06, GATE-10)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, cast

import grpc
import structlog

from a2a_server.transport.address import StartError
from a2a_server.transport.grpc_options import Tls
from a2a_server.transport.tls.certificates import PemFile, server_context, server_identity
from a2a_server.transport.tls.revocations import Revocations, read_revocations

log = structlog.get_logger(__name__)

_SECONDS_BETWEEN_LOOKS: Final = 1.0
_Stamp = tuple[int, int, int]


class LoadedTls(NamedTuple):
    """What all files say together."""

    context: ssl.SSLContext
    configuration: grpc.ServerCertificateConfiguration
    revocations: Revocations | None


class TlsFiles:
    """What both doors use. New files count for new connections, all of them or none."""

    def __init__(self, tls: Tls) -> None:
        self.tls = tls
        self._stamps = self._look()
        self._now = self._told = _load(tls)
        self.on_change: list[Callable[[], None]] = []

    @classmethod
    def of(cls, tls: Tls) -> TlsFiles | None:
        """Read the files; None without a certificate."""
        return cls(tls) if tls.cert else None

    @property
    def context(self) -> ssl.SSLContext:
        return self._now.context

    def fault(self, certificate: bytes) -> str:
        """Say why a client's certificate does not count any more, though it was signed; empty if it does."""
        revocations = self._now.revocations
        return revocations.fault(certificate) if certificate and revocations is not None else ""

    def grpc_credentials(self) -> grpc.ServerCredentials:
        fresh = cast("Callable[[], grpc.ServerCertificateConfiguration]", self._fresh)  # None = no change
        return grpc.dynamic_ssl_server_credentials(
            self._now.configuration, fresh, require_client_authentication=bool(self.tls.client_ca)
        )

    def _fresh(self) -> grpc.ServerCertificateConfiguration | None:
        """What gRPC asks for before each handshake; None = what it has."""
        now = self._now
        if now is self._told:
            return None
        self._told = now
        return now.configuration

    async def keep(self, asked: asyncio.Event | None = None) -> None:
        """Look for changes for as long as this runs, and read all again when that is `asked` for."""
        asked = asked or asyncio.Event()
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(asked.wait(), _SECONDS_BETWEEN_LOOKS)
            if await asyncio.to_thread(self._renew, always=asked.is_set()):
                for tell in self.on_change:
                    tell()
            asked.clear()

    def _renew(self, *, always: bool) -> bool:
        stamps = self._look()
        if stamps == self._stamps and not always:
            return False
        self._stamps = stamps
        try:
            self._now = _load(self.tls)
        except StartError as error:
            log.warning("tls.not_reloaded", why=str(error), goes_on_with="the files as they were before")
            return False
        log.info("tls.reloaded", cert=self.tls.cert)
        return True

    def _look(self) -> list[_Stamp]:
        return [_stamp(path) for path in (self.tls.cert, self.tls.key, self.tls.client_ca, self.tls.crl) if path]


def _stamp(path: str) -> _Stamp:
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size


def _load(tls: Tls) -> LoadedTls:
    own, roots = server_identity(tls)
    configuration = grpc.ssl_server_certificate_configuration([own], roots)
    return LoadedTls(server_context(tls), configuration, _revocations(tls, roots))


def _revocations(tls: Tls, roots: bytes | None) -> Revocations | None:
    if not tls.crl or roots is None:
        return None
    file = PemFile("tls.crl", tls.crl)
    try:
        return read_revocations(file.read(), roots)
    except ValueError as error:
        raise StartError(f"tls.crl: {tls.crl!r} {error}") from None
