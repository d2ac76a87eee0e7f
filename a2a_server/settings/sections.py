"""What the sections of the settings have in common, and the section about webhooks (spec: CAPA-02, SSRF-03)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv6Network
from pathlib import Path
from typing import Annotated, Protocol

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator
from pydantic.dataclasses import dataclass

from a2a_server.domain.hosts import NAT64_LENGTHS, Addresses, HostList
from a2a_server.domain.slots import SLOTS, slots_in, slots_text
from a2a_server.domain.webhooks import Policy, ports_of
from a2a_server.operations.push.push_options import Patience
from a2a_server.protocol.card_doors import CardOptions
from a2a_server.protocol.options import NameList, Networks, all_are, network_of, split
from a2a_server.transport.address import Address
from a2a_server.transport.tls.certificates import certificates_fault

_FILE = "file:"


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _prefix(text: str) -> IPv6Network | None:
    found = network_of(text)
    return found if isinstance(found, IPv6Network) and found.prefixlen in NAT64_LENGTHS else None


def _checked(read: Callable[[Sequence[str]], object]) -> AfterValidator:
    """Keep a list as it is, if `read` can read it; otherwise `read` raises a `ValueError`."""

    def check(texts: tuple[str, ...]) -> tuple[str, ...]:
        read(texts)
        return texts

    return AfterValidator(check)


Hosts = Annotated[NameList, _checked(HostList.of)]
Prefixes = Annotated[
    NameList, all_are(_prefix, "must be IPv6 prefixes of 32, 40, 48, 56, 64 or 96 bits: 2001:db8:64::/96")
]
Ports = Annotated[NameList, _checked(ports_of)]


def _from_files(keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    return tuple(read_secret(key.get_secret_value()) for key in keys)


Keys = Annotated[tuple[SecretStr, ...], BeforeValidator(partial(split, what="keys")), AfterValidator(_from_files)]


@dataclass(frozen=True, kw_only=True)
class Card(CardOptions):
    """The agent card."""

    file: str = ""
    """A JSON file with the card of an `AgentExecutor` of the official SDK. Without it the card is taken from the
    executor's module, or made from its name and its docstring."""
    signing_keys: Keys = ()
    """Keys as PEM or JWK, or file:PATH: EC on P-256 (ES256), RSA (RS256) or Ed25519 (EdDSA). Private keys sign the
    card, all are published; none = the card is not signed."""


def _holds_certificates(value: str) -> str:
    try:
        fault = certificates_fault(Path(value).read_bytes()) if value else ""
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if fault:
        raise ValueError(fault)
    return value


TrustFile = Annotated[str, AfterValidator(_holds_certificates)]


def tables(sample: str) -> Callable[[object], object]:
    """Read tables as an environment variable spells them: a JSON array of objects."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError(f"must be a JSON array such as {sample}") from None

    return read


class Reach(Protocol):
    """The settings that say where this server may connect to."""

    @property
    def allow_hosts(self) -> Sequence[str]: ...
    @property
    def deny_hosts(self) -> Sequence[str]: ...
    @property
    def allow_networks(self) -> Sequence[str]: ...
    @property
    def deny_networks(self) -> Sequence[str]: ...
    @property
    def allow_loopback(self) -> bool: ...
    @property
    def https_only(self) -> bool: ...
    @property
    def ports(self) -> Sequence[str]: ...


def policy_of(reach: Reach, nat64: Iterable[IPv6Network] = ()) -> Policy:
    allow, deny = map(network_of, reach.allow_networks), map(network_of, reach.deny_networks)
    return Policy(
        addresses=Addresses.of(allow, deny, nat64, loopback=reach.allow_loopback),
        allow_hosts=HostList.of(reach.allow_hosts),
        deny_hosts=HostList.of(reach.deny_hosts),
        https_only=reach.https_only,
        ports=ports_of(reach.ports),
    )


@dataclass(frozen=True, kw_only=True)
class Push(Patience):
    """Webhooks. Times are seconds."""

    enabled: bool = True
    """Whether webhooks are delivered. The card says so."""
    allow_hosts: Hosts = ()
    """The only hosts that webhooks may name: hook.example, .example for all below it, or addresses; none = all."""
    deny_hosts: Hosts = ()
    """Hosts that webhooks may not name, in the same spelling."""
    allow_networks: Networks = ()
    """Private networks that may be called all the same, such as 10.1.0.0/16."""
    deny_networks: Networks = ()
    """Public networks that may not be called."""
    nat64_prefixes: Prefixes = ()
    """Prefixes of your network's own NAT64, such as 2001:db8:64::/96. An address inside is judged by the IPv4 address
    that it holds (RFC 6052)."""
    https_only: bool = True
    """Whether webhooks must use HTTPS."""
    ports: Ports = ("443", "80", "1024-65535")
    """Ports that may be called."""
    allow_loopback: bool = False
    """For development: whether webhooks may call this machine itself, also over HTTP. Callers can then reach what
    listens on it."""
    issuer: str = ""
    """The `iss` of signatures; empty = `public_url`, else the URL of the HTTP door, else the address of the gRPC door.
    """
    signing_keys: Keys = ()
    """EC keys on P-256, as PEM or JWK, or file:PATH. The first one signs, all are published; none = no signatures."""
    secret_keys: Keys = ()
    """Keys that encrypt tokens and credentials in the store: 32 bytes in base64, or file:PATH. The first one encrypts,
    all of them decrypt; none = they are stored in the clear."""
    challenge: bool = False
    """Whether a receiver must echo a token before its config is accepted."""
    trust: TrustFile = ""
    """A PEM file with authorities that receivers' certificates may come from, in addition to the system's."""

    @property
    def policy(self) -> Policy:
        return policy_of(self, filter(None, map(_prefix, self.nat64_prefixes)))


Seconds = Annotated[float, Gt(0), Le(600)]


Listening = Annotated[str, AfterValidator(lambda value: str(Address.parse(value)))]


def _reachable(value: str) -> str:
    with suppress(ValueError):
        if not value or Address.parse(value).port:
            return value
    raise ValueError("must be HOST:PORT at which other servers reach this one, such as 10.0.0.7:50052")


def _postgres_url(text: str) -> str:
    if text and not text.startswith(("postgresql://", "postgres://")):
        raise ValueError("must be postgresql://USER@HOST/DATABASE")
    return text


def _slots(text: str) -> str:
    slots_in(text)
    return text


def _same_scheme(url: str) -> str:
    return url.replace("postgres://", "postgresql://", 1) if url.startswith("postgres://") else url


class ShardTable(Section):
    """One of several databases that are the store together, each with a part of the 4,096 slots."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    """What `a2ad db shards` calls it."""
    dsn: Annotated[str, AfterValidator(_postgres_url), AfterValidator(_same_scheme)] = Field(min_length=1)
    """URL of the database. One of them is `store`: it has sessions and API keys, too."""
    slots: Annotated[str, AfterValidator(_slots)] = ""
    """The slots that it gets when the store is made, such as 0-2047. Later the databases themselves know their slots,
    and `a2ad db shards move` moves them."""


class Postgresql(Section):
    """The connections to the store, if it is a PostgreSQL database. Times are seconds."""

    password: SecretStr = SecretStr("")
    """The password, or file:PATH; empty = what the URL, PGPASSWORD or ~/.pgpass says."""
    connections: Annotated[int, Ge(2), Le(1000)] = 10
    """How many connections one server may have open, beside one for wake-ups."""
    connect_timeout: Seconds = 5.0
    """How long it may take to connect."""
    command_timeout: Seconds = 10.0
    """How long one statement may take."""
    patience: Seconds = 3.0
    """How long a call is tried again, when the database is away or has too much to do, before it is refused as
    UNAVAILABLE."""
    prepared_statements: bool = True
    """Whether statements are prepared once per connection. `false` is for PgBouncer before 1.21, or with
    max_prepared_statements = 0, and costs about as much again."""
    session: Annotated[float, Ge(2), Le(600)] = 10.0
    """How long the other servers on the database wait for one that says nothing, before they take its turns over."""
    wakeup_dsn: Annotated[str, AfterValidator(_postgres_url)] = ""
    """URL of the same database without a pooler in between, for wake-ups; empty = `store`. Where wake-ups are lost,
    servers notice what others write within a quarter of a second."""
    shards: Annotated[
        tuple[ShardTable, ...], BeforeValidator(tables('[{"name": "a", "dsn": "postgresql://…", "slots": "0-4095"}]'))
    ] = ()
    """Several databases that are the store together, as tables `[[postgresql.shards]]`; none = `store` alone."""

    @field_validator("password")
    @classmethod
    def _from_file(cls, value: SecretStr) -> SecretStr:
        return read_secret(value.get_secret_value())

    @field_validator("shards")
    @classmethod
    def _whole(cls, shards: tuple[ShardTable, ...]) -> tuple[ShardTable, ...]:
        for field in ("name", "dsn"):
            if len({getattr(shard, field) for shard in shards}) < len(shards):
                raise ValueError(f"each must have a {field} of its own")
        places = Counter(slot for shard in shards for slot in slots_in(shard.slots))
        if twice := slots_text(slot for slot, times in places.items() if times > 1):
            raise ValueError(f"the slots {twice} are in several databases")
        if shards and (missing := slots_text(set(range(SLOTS)) - places.keys())):
            raise ValueError(f"the slots {missing} are in no database")
        return shards


_SHORTEST_SHARED_KEY = 32


class PeerOptions(Section):
    """The port at which other servers on the same database reach this one, where `wakeups` is `peers`."""

    listen: Listening = "127.0.0.1:0"
    """Where this server listens for the others. With port 0 the system chooses a port. Beyond loopback it needs
    `shared_key`, or `cert`, `key` and `ca`."""
    advertise: Annotated[str, AfterValidator(_reachable)] = ""
    """HOST:PORT at which the others reach it; empty = where it listens."""
    shared_key: SecretStr = SecretStr("")
    """A secret of at least 32 characters that all servers have, or file:PATH. Certificates for both sides are made from
    it."""
    cert: str = ""
    """A PEM file with this server's certificate, for both sides of connections."""
    key: str = ""
    """A PEM file with its private key."""
    ca: str = ""
    """A PEM file with the authority of all servers' certificates. Whoever has one of its certificates can read what is
    said in tasks, so it must sign nothing else."""
    server_name: str = ""
    """The name in the certificates of all servers, if it differs from those in their addresses. Then certificates
    without it are refused."""

    @field_validator("shared_key")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        secret = read_secret(value.get_secret_value())
        if 0 < len(secret.get_secret_value()) < _SHORTEST_SHARED_KEY:
            raise ValueError(
                f"must have at least {_SHORTEST_SHARED_KEY} characters; make one with: openssl rand -base64 32"
            )
        return secret


class FileSecret(SecretStr):
    """A secret that was read from a file."""

    def __init__(self, secret: str, path: str) -> None:
        super().__init__(secret)
        self.path = path


def read_secret(text: str) -> SecretStr:
    """The text itself, or that of the file which it names."""
    if not text.startswith(_FILE):
        return SecretStr(text)
    path = text.removeprefix(_FILE)
    try:
        return FileSecret(Path(path).read_text("utf-8").strip(), path)
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"the file {path!r} cannot be read") from None
