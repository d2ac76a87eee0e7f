"""Webhooks as operators set them: whether, whereto, how patiently, and with which keys (spec: CAPA-02, SSRF-03)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, BeforeValidator, ConfigDict, SecretStr, field_validator

from a2a_server.domain.addresses import Addresses, Network
from a2a_server.domain.hosts import Hosts
from a2a_server.domain.webhooks import Policy, ports_of
from a2a_server.operations.push.delivery import Patience
from a2a_server.protocol.options import NameList, split
from a2a_server.transport.grpc.pem import certificates_fault

Count = Annotated[int, Ge(1)]
Seconds = Annotated[float, Gt(0), Le(365 * 24 * 3600)]

_FILE = "file:"


Keys = Annotated[tuple[SecretStr, ...], BeforeValidator(partial(split, what="keys"))]


class Push(BaseModel):
    """Webhooks. Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    """Whether webhooks are delivered, and the card says so."""
    timeout: Annotated[float, Ge(1), Le(300)] = 15.0
    """What one attempt may take."""
    retry_first: Seconds = 1.0
    """The longest wait before the second attempt; it doubles with each that follows, and the real wait is random."""
    retry_most: Seconds = 3600.0
    """The longest wait of all, and the longest that a receiver may ask for with Retry-After."""
    give_up_after: Count = 20
    """Attempts at one webhook, after which its config is parked: `a2ad push list --parked`."""
    give_up_age: Seconds = 86_400.0
    """For how long attempts may fail before the config is parked."""
    concurrency: Count = 64
    """Attempts under way at once."""
    per_host: Count = 8
    """Attempts under way at once at one host."""
    allow_hosts: NameList = ()
    """The only hosts that may be named: hook.example, .example for all below it, or addresses; none = all."""
    deny_hosts: NameList = ()
    """Hosts that may not be named, in the same spelling."""
    allow_networks: NameList = ()
    """Networks that may be called although they are private, such as 10.1.0.0/16."""
    deny_networks: NameList = ()
    """Networks that may not be called although they are public."""
    https_only: bool = True
    """Whether webhooks go over HTTPS alone."""
    ports: NameList = ("443", "80", "1024-65535")
    """Ports that may be called."""
    allow_loopback: bool = False
    """For development: whether this machine itself may be called, also over HTTP. Callers could reach what it hides."""
    issuer: str = ""
    """Who signs webhooks, as `iss`; empty = `public_url`, else the HTTP door's URL, else the gRPC door's address."""
    signing_keys: Keys = ()
    """EC keys on P-256, as PEM or JWK, or file:PATH. The first signs, all are published; none = no signatures."""
    secret_keys: Keys = ()
    """Keys that tokens and credentials are sealed with in the store: 32 bytes in base64, or file:PATH. The first
    seals, all of them open; none = they are stored as they are."""
    challenge: bool = False
    """Whether receivers must echo a token before a config is accepted."""
    trust: str = ""
    """A file with authorities (PEM) that receivers' certificates may come from, beside the system's."""

    @field_validator("ports")
    @classmethod
    def _are_ports(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        ports_of(value)
        return value

    @field_validator("allow_hosts", "deny_hosts")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        Hosts.of(value)
        return value

    @field_validator("allow_networks", "deny_networks")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        list(_networks(value))
        return value

    @field_validator("signing_keys", "secret_keys")
    @classmethod
    def _from_files(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        return tuple(SecretStr(_read(key.get_secret_value())) for key in value)

    @field_validator("trust")
    @classmethod
    def _holds_certificates(cls, value: str) -> str:
        try:
            fault = certificates_fault(Path(value).read_bytes()) if value else ""
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from None
        if fault:
            raise ValueError(fault)
        return value

    @property
    def policy(self) -> Policy:
        allow, deny = _networks(self.allow_networks), _networks(self.deny_networks)
        return Policy(
            addresses=Addresses.of(allow, deny, loopback=self.allow_loopback),
            allow_hosts=Hosts.of(self.allow_hosts),
            deny_hosts=Hosts.of(self.deny_hosts),
            https_only=self.https_only,
            ports=ports_of(self.ports),
        )

    @property
    def patience(self) -> Patience:
        return Patience(
            timeout=self.timeout,
            retry_first=self.retry_first,
            retry_most=self.retry_most,
            give_up_after=self.give_up_after,
            give_up_age=self.give_up_age,
            concurrency=self.concurrency,
            per_host=self.per_host,
        )


def _networks(texts: Sequence[str]) -> Iterator[Network]:
    for text in texts:
        try:
            yield ip_network(text, strict=False)
        except ValueError:
            raise ValueError(f"{text[:80]!r}: must be an address or a network, such as 10.1.0.0/16") from None


def _read(text: str) -> str:
    """The text itself, or that of the file which it names."""
    if not text.startswith(_FILE):
        return text
    path = text.removeprefix(_FILE)
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"the file {path!r} cannot be read") from None
