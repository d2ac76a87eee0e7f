"""The settings: one frozen object, whose sections are defined by the packages that use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from annotated_types import Ge, Le
from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from a2a_server.operations.limits import Limits
from a2a_server.operations.retention import Ages
from a2a_server.ports.store import store_name
from a2a_server.protocol.errors import ErrorCodes
from a2a_server.protocol.names import CURRENT, DRAFT, LEGACY
from a2a_server.protocol.options import (
    ChannelOptions,
    GatewayOptions,
    LegacyOptions,
    NameList,
    first_segment,
    path_fault,
    wrong,
)
from a2a_server.settings.agents import DEMO, AgentTables, agent_faults
from a2a_server.settings.auth import Auth
from a2a_server.settings.calls import CallingOptions
from a2a_server.settings.rate_limits import RateLimits
from a2a_server.settings.roles import PolicyCheck
from a2a_server.settings.sections import Card, FileSecret, Keys, Listening, PeerOptions, Postgresql, Push, Section
from a2a_server.transport.address import Address
from a2a_server.transport.grpc_options import GrpcOptions, StreamOptions, Tls
from a2a_server.transport.steps import Tenants, tenant_fault

MEMORY = "memory:"
SQLITE = "sqlite:///"
POSTGRES = "postgresql://"
CLOSED = "none"
FILE = "file:"

Faults = Iterator[PydanticCustomError]


def _parsed(value: str) -> str:
    return str(Address.parse(value))


Optional = Annotated[str, AfterValidator(lambda value: "" if value in ("", CLOSED) else _parsed(value))]


class Log(Section):
    """What is logged, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important events that are logged."""
    format: Literal["auto", "console", "json"] = "auto"
    """`auto` = readable lines on a terminal, one JSON object per line elsewhere; `json` = nothing but such objects,
    from the first line on, also when the process does not start."""
    access: bool = False
    """Whether each call gets a line when it ends, always as one JSON object."""


class AuditOptions(Section):
    """Who did what: an event for each denial, new or canceled task, change of push configs or keys, deletion, and
    administrative command.
    """

    to: str = Field(default="denials", pattern=r"^(denials|log|none|file:.+)$")
    """Where audit events go: `denials` = denials and unusual numbers go to the log, all others nowhere; `log` = all go
    to the log; file:PATH = all are appended to a file of their own, as JSON lines; `none` = nowhere."""
    tasks_per_minute: Annotated[int, Ge(0)] = 0
    """How many new tasks of one owner per minute are usual; more are reported as `pattern.tasks`. 0 = any number."""
    cancels_per_minute: Annotated[int, Ge(0)] = 100
    """How many canceled tasks of one owner per minute are usual; more are reported as `pattern.cancels`. 0 = any
    number."""

    @property
    def path(self) -> str:
        """The file, if there is one."""
        return self.to.removeprefix(FILE) if self.to.startswith(FILE) else ""


class Settings(Section):
    """All settings. `load` reads them from files and the environment."""

    agent: str = DEMO
    """The agent to serve: MODULE:NAME, path/to/file.py:NAME, or exec:PROGRAM with its arguments."""
    agents: AgentTables = ()
    """Several agents instead, as tables `[[agents]]`: one per tenant. The first serves who names no tenant, unless
    `default_tenant` or `directory` says otherwise."""
    directory: str = ""
    """With several agents: the name of a root card that lists them. Calls must then name a tenant. Empty = the root
    card is that of `default_tenant`."""
    grpc: Listening = "127.0.0.1:50051"
    """Where the gRPC door listens. With port 0 the system chooses a port."""
    http: Optional = "127.0.0.1:8080"
    """Where the HTTP door listens, for REST, JSON-RPC and SSE; `none` = no HTTP door."""
    store: str = "sqlite:///a2a.db"
    """Where tasks are kept: memory:, sqlite:///PATH or postgresql://USER@HOST/DATABASE, with options such as
    sslmode=verify-full."""
    store_keys: Keys = ()
    """Keys that encrypt the content of tasks in the store: 32 bytes in base64, or file:PATH. The first one encrypts,
    all of them decrypt; none = content is stored in the clear."""
    upgrade_store: bool = True
    """Whether a server that starts brings the store's schema up to date. If not, it refuses to start with an older one
    until `a2ad db upgrade` was run."""
    wakeups: Literal["postgres", "peers", "none"] = "postgres"
    """How servers that share a PostgreSQL database tell each other of new events. `postgres` = by NOTIFY; `peers` =
    straight from server to server, see `[peers]`; `none` = each looks into the database four times a second."""
    public_grpc: str = ""
    """HOST:PORT at which clients reach the gRPC door, for the agent card; empty = where it listens."""
    public_url: str = ""
    """URL at which clients reach the HTTP door, for the agent card; empty = what trusted proxies say, or where it
    listens."""
    anonymous_beyond_loopback: bool = False
    """Whether callers on other machines are served without authentication."""
    tenants: NameList = ()
    """The tenants that are served; none = those of `agents`, or without these every tenant that a caller names has a
    space of its own."""
    default_tenant: str = ""
    """The tenant of calls that name none; empty = that of the first of `agents`, if there are some."""
    strict_version: bool = False
    """Whether a call without A2A-Version counts as 0.3, which is what the specification says literally."""
    error_codes: ErrorCodes = "1.0.1"
    """The release of the specification whose gRPC codes errors use. The reasons are the same in both."""
    require_extensions_everywhere: bool = False
    """Whether every call must list the extensions that the card requires, not only sends."""
    replay_extension: bool = False
    """Whether gRPC clients, and gateways in other processes, may see event numbers and resume streams by them."""
    input_request_extension: bool = False
    """Whether agents may make input requests without declaring the extension themselves."""
    answer_by_reference: bool = False
    """Whether a tool result without a task id belongs to the task that it refers to, if it refers to one only."""
    keep_streams_open_on_input: bool = False
    """Whether streams stay open when a task asks for input."""
    loop_block_warning: Annotated[float, Ge(0)] = 1.0
    """After how many seconds of blocking the event loop an agent is named in the log; 0 = never."""
    workers: Annotated[int, Ge(1), Le(128)] = 1
    """How many processes serve on the same ports; more than one need a `store` on PostgreSQL."""
    reload_grace: Annotated[float, Ge(1), Le(3600)] = 30.0
    """With several workers: how old connections to the gRPC door become, in seconds, as `transport.max_connection_age`;
    a worker that is replaced waits so long for its clients to go. Shorter means a quicker reload, and longer means
    fewer new connections."""
    postgresql: Postgresql = Postgresql()
    peers: PeerOptions = PeerOptions()
    limits: Limits = Limits()
    retention: Ages = Ages()
    streams: StreamOptions = StreamOptions()
    transport: GrpcOptions = GrpcOptions()
    legacy: LegacyOptions = LegacyOptions()
    card: Card = Card()
    gateway: GatewayOptions = GatewayOptions()
    upstream: ChannelOptions = ChannelOptions()
    push: Push = Push()
    calls: CallingOptions = CallingOptions()
    tls: Tls = Tls()
    auth: Auth = Auth()
    rates: RateLimits = RateLimits()
    policy: PolicyCheck = PolicyCheck()
    log: Log = Log()
    audit: AuditOptions = AuditOptions()

    @property
    def served_tenants(self) -> tuple[str, ...]:
        """The tenants that are served; none = all."""
        return tuple(entry.tenant for entry in self.agents) or self.tenants

    @property
    def root_tenant(self) -> str:
        """The tenant of calls that name none; empty = none, or that of a directory."""
        first = self.agents[0].tenant if self.agents and not self.directory else ""
        return self.default_tenant or first

    @property
    def store_name(self) -> str:
        """The store without what is secret about it."""
        return store_name(self.store)

    @property
    def secret_files(self) -> Mapping[str, str]:
        """The files that secrets were read from, by the names of the settings."""
        asked = tuple(provider.client_secret for provider in self.auth.introspection)
        single = {"policy.token": (self.policy.token,), "postgresql.password": (self.postgresql.password,)}
        single["peers.shared_key"] = (self.peers.shared_key,)
        keys = {"push.secret_keys": self.push.secret_keys, "push.signing_keys": self.push.signing_keys}
        keys["store_keys"] = self.store_keys
        return {
            f"{name}[{number}]": secret.path
            for name, secrets in {**keys, "auth.introspection.client_secret": asked, **single}.items()
            for number, secret in enumerate(secrets)
            if isinstance(secret, FileSecret)
        }

    @field_validator("tenants", "default_tenant")
    @classmethod
    def _usable(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (value,) if isinstance(value, str) else value:
            if fault := tenant_fault(name):
                raise ValueError(f'"{name}" {fault}')
        return value

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str) -> str:
        if value.startswith("postgres://"):
            value = value.replace("postgres://", POSTGRES, 1)
        for scheme in (SQLITE, POSTGRES):
            if value.startswith(scheme) and value.strip("/") != scheme.strip("/"):
                return value
        if value != MEMORY:
            raise ValueError("must be memory:, sqlite:///PATH or postgresql://USER@HOST/DATABASE")
        return value

    @field_validator("public_grpc")
    @classmethod
    def _reachable(cls, value: str) -> str:
        try:
            if value and not Address.parse(value).port:
                raise ValueError  # noqa: TRY301 - the message is the same
        except ValueError:
            raise ValueError("must be HOST:PORT of the gRPC door, such as agents.example:443") from None
        return value

    @field_validator("public_url")
    @classmethod
    def _complete(cls, value: str) -> str:
        with suppress(ValueError):
            parts = urlsplit(value)
            if not value or (parts.scheme in ("http", "https") and parts.netloc and not parts.query + parts.fragment):
                return value
        raise ValueError("must be a URL such as https://agents.example or https://example.com/a2a")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        versions = self._version_faults, self._draft_faults, self._door_faults
        reach = self._reach_faults, self._peer_faults, self._shard_faults, self._worker_faults
        checks = *reach, self._key_faults, self._tls_faults, self._tenant_faults, *versions
        if faults := [InitErrorDetails(type=fault, input=None) for check in checks for fault in check()]:
            raise ValidationError.from_exception_data("Settings", faults)
        return self

    def _reach_faults(self) -> Faults:
        if not self.auth.knows_nobody or self.anonymous_beyond_loopback:
            return
        message = (
            "without authentication only this machine may call; configure auth.tokens, auth.api_keys or "
            "auth.issuers, listen on 127.0.0.1, or set anonymous_beyond_loopback to let everybody in"
        )
        for setting, address in (("grpc", self.grpc), ("http", self.http)):
            if address and not Address.parse(address).loopback:
                yield wrong(setting, address, message, reads=("auth", "anonymous_beyond_loopback"))

    def _peer_faults(self) -> Faults:
        peers = self.peers
        files = {"cert": peers.cert, "key": peers.key, "ca": peers.ca}
        given = [name for name, path in files.items() if path]
        if given and (missing := [name for name in files if name not in given]):
            reads = tuple(f"peers.{name}" for name in files)
            yield wrong(f"peers.{missing[0]}", "", "certificate, key and authority are needed together", reads=reads)
        if given and peers.shared_key.get_secret_value():
            message = "is given, so that peers.shared_key is of no use; choose one"
            yield wrong(f"peers.{given[0]}", files[given[0]], message, reads=("peers.shared_key",))
        if self.wakeups != "peers":
            return
        if not self.store.startswith(POSTGRES):
            yield wrong("wakeups", self.wakeups, "needs a store that servers can share: PostgreSQL", reads=("store",))
        if not (given or peers.shared_key.get_secret_value() or Address.parse(peers.listen).loopback):
            message = (
                "beyond this machine servers must know each other; set peers.shared_key, or peers.cert, peers.key and "
                "peers.ca"
            )
            yield wrong("peers.listen", peers.listen, message, reads=("peers.shared_key", "peers.cert"))

    def _worker_faults(self) -> Faults:
        if self.workers > 1 and not self.store.startswith(POSTGRES):
            message = (
                "several workers need a store that processes can share: "
                f"set store = {POSTGRES}USER@HOST/DATABASE (it is {self.store_name}), or workers = 1"
            )
            yield wrong("workers", self.workers, message, reads=("store",))
        if self.workers > 1 and self.wakeups == "peers" and Address.parse(self.peers.listen).port:
            message = "several workers cannot share a port for peers; let the system choose one, with port 0"
            yield wrong("peers.listen", self.peers.listen, message, reads=("workers", "wakeups"))

    def _key_faults(self) -> Faults:
        if self.auth.stored_keys and self.store == MEMORY:
            message = "needs a store in a file, so that `a2ad keys` can open it"
            yield wrong("auth.stored_keys", True, message, reads=("store",))  # noqa: FBT003 - the value

    def _shard_faults(self) -> Faults:
        shards = self.postgresql.shards
        if shards and self.store not in {shard.dsn for shard in shards}:
            message = "must be the dsn of one of postgresql.shards, which has sessions and API keys, too"
            yield wrong("store", store_name(self.store), message, reads=("postgresql.shards",))

    def _tls_faults(self) -> Faults:
        for section, files in (("tls", self.tls), ("upstream", self.upstream)):
            if bool(files.cert) != bool(files.key):
                missing = "key" if files.cert else "cert"
                reads = f"{section}.cert", f"{section}.key"
                yield wrong(f"{section}.{missing}", "", "certificate and key are needed together", reads=reads)
        if self.tls.client_ca and not self.tls.cert:
            message = "needs tls.cert and tls.key as well"
            yield wrong("tls.client_ca", self.tls.client_ca, message, reads=("tls.cert",))
        proxy = self.auth.proxy
        direct = 0 if proxy.certificate_header else len(self.auth.certificates)
        needing = {"tls.crl": self.tls.crl, "auth.certificates": direct, "auth.proxy.certificates": proxy.certificates}
        if proxy.certificate_header and not proxy.trusts:
            needing["auth.proxy.certificate_header"] = proxy.certificate_header
        if not self.tls.client_ca:
            for setting, value in needing.items():
                if value:
                    yield wrong(
                        setting,
                        value,
                        "needs tls.client_ca, the authorities of client certificates",
                        reads=("tls.client_ca",),
                    )

    def _tenant_faults(self) -> Faults:
        yield from agent_faults(self)
        bound, served = self.auth.tenants - {""}, self.served_tenants
        if served and (strangers := bound - set(served)):
            whose = "those of [[agents]]" if self.agents else "`tenants`"
            yield wrong("auth", sorted(strangers), f"callers are bound to tenants that are not among {whose}")
        try:
            Tenants(frozenset(served), self.default_tenant)
        except ValueError:
            message = f"must be one of the tenants: {', '.join(served)}"
            yield wrong("default_tenant", self.default_tenant, message)

    def _version_faults(self) -> Faults:
        if self.gateway.card_form == "0.3" and not self.legacy.enabled:
            yield wrong("gateway.card_form", self.gateway.card_form, "needs legacy.enabled: 0.3 is not served")

    def _draft_faults(self) -> Faults:
        path, on = self.gateway.draft_path, DRAFT in self.gateway.profiles
        first = first_segment(path)
        if fault := path_fault(path):
            yield wrong("gateway.draft_path", path, fault)
        elif on and first and first in {*self.served_tenants, self.default_tenant}:
            yield wrong("gateway.draft_path", path, f"/{first} is where a tenant is served; choose another path")
        elif on and not first and self.legacy.enabled:
            message = "/v1 is where 0.3 is served; set legacy.enabled = false, or choose another path, such as /draft"
            yield wrong("gateway.draft_path", path, message, reads=("legacy.enabled",))

    def _door_faults(self) -> Faults:
        versions = [CURRENT, LEGACY] if self.legacy.enabled else [CURRENT]
        grpc = versions if self.gateway.upstream_doors or not self.http else []
        http = [*versions, *([DRAFT] if DRAFT in self.gateway.profiles else [])] if self.http else []
        web = (f"{version}/{binding}" for version in http for binding in ("rest", "jsonrpc"))
        for name, fault in self.card.faults({*(f"{version}/grpc" for version in grpc), *web}):
            reads = "http", "legacy.enabled", "gateway.profiles", "gateway.upstream_doors"
            yield wrong("card.doors", name, fault, reads=reads)
