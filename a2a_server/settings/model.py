"""The settings: one frozen object, whose sections are defined by the packages that use them."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from annotated_types import Ge
from pydantic import AfterValidator, field_validator, model_validator

from a2a_server.operations.limits import Limits
from a2a_server.protocol.errors import ErrorCodes
from a2a_server.protocol.options import (
    ChannelOptions,
    GatewayOptions,
    LegacyOptions,
    NameList,
    first_segment,
    path_fault,
    wrong,
)
from a2a_server.settings.sections import Auth, Push, Section
from a2a_server.transport.address import Address
from a2a_server.transport.grpc_options import GrpcOptions, StreamOptions, Tls
from a2a_server.transport.steps import Tenants, tenant_fault

MEMORY = "memory:"
SQLITE = "sqlite:///"
CLOSED = "none"


def _parsed(value: str) -> str:
    return str(Address.parse(value))


Listening = Annotated[str, AfterValidator(_parsed)]
Optional = Annotated[str, AfterValidator(lambda value: "" if value in ("", CLOSED) else _parsed(value))]


class Log(Section):
    """What is logged, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important events that are logged."""
    format: Literal["auto", "console", "json"] = "auto"
    """`auto` = readable lines on a terminal, one JSON object per line elsewhere."""


class Settings(Section):
    """All settings. `load` reads them from files and the environment."""

    agent: str = "a2a_server.demo:agent"
    """The agent to serve: MODULE:NAME or path/to/file.py:NAME."""
    grpc: Listening = "127.0.0.1:50051"
    """Where the gRPC door listens. With port 0 the system chooses a port."""
    http: Optional = "127.0.0.1:8080"
    """Where the HTTP door listens, for REST, JSON-RPC and SSE; `none` = no HTTP door."""
    store: str = "sqlite:///a2a.db"
    """Where tasks are kept: memory: or sqlite:///PATH."""
    public_grpc: str = ""
    """HOST:PORT at which clients reach the gRPC door, for the agent card; empty = where it listens."""
    public_url: str = ""
    """URL at which clients reach the HTTP door, for the agent card; empty = what trusted proxies say, or where it
    listens."""
    anonymous_beyond_loopback: bool = False
    """Whether callers on other machines are served without authentication."""
    tenants: NameList = ()
    """The tenants that are served; none = every tenant that a caller names has a space of its own."""
    default_tenant: str = ""
    """The tenant of calls that name none."""
    strict_version: bool = False
    """Whether a call without A2A-Version counts as 0.3, as the letter of the specification has it."""
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
    limits: Limits = Limits()
    streams: StreamOptions = StreamOptions()
    transport: GrpcOptions = GrpcOptions()
    legacy: LegacyOptions = LegacyOptions()
    gateway: GatewayOptions = GatewayOptions()
    upstream: ChannelOptions = ChannelOptions()
    push: Push = Push()
    tls: Tls = Tls()
    auth: Auth = Auth()
    log: Log = Log()

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
        if value.startswith(("postgresql:", "postgres:")):
            raise ValueError("PostgreSQL arrives with a later release; use sqlite:///PATH or memory:")
        if value != MEMORY and not (value.startswith(SQLITE) and value.strip("/") != SQLITE.strip("/")):
            raise ValueError("must be memory: or sqlite:///PATH")
        return value

    @field_validator("public_grpc")
    @classmethod
    def _reachable(cls, value: str) -> str:
        try:
            if value and not Address.parse(value).port:
                raise ValueError  # noqa: TRY301 - no other words for it
        except ValueError:
            raise ValueError("must be HOST:PORT of the gRPC door, such as agents.example:443") from None
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._check_url()
        self._check_reach()
        self._check_tls()
        self._check_tenants()
        self._check_versions()
        return self

    def _check_url(self) -> None:
        parts = urlsplit(self.public_url)
        usable = parts.scheme in ("http", "https") and parts.netloc and not parts.query + parts.fragment
        if self.public_url and not usable:
            message = "must be a URL such as https://agents.example or https://example.com/a2a"
            raise wrong("public_url", self.public_url, message)

    def _check_reach(self) -> None:
        if self.auth.credentials or self.anonymous_beyond_loopback:
            return
        message = (
            "without authentication only this machine may call; configure auth.tokens or auth.api_keys, listen on "
            "127.0.0.1, or set anonymous_beyond_loopback to let everybody in"
        )
        for setting, address in (("grpc", self.grpc), ("http", self.http)):
            if address and not Address.parse(address).loopback:
                raise wrong(setting, address, message)

    def _check_tls(self) -> None:
        for section, files in (("tls", self.tls), ("upstream", self.upstream)):
            if bool(files.cert) != bool(files.key):
                missing = "key" if files.cert else "cert"
                raise wrong(f"{section}.{missing}", "", "certificate and key are needed together")
        if self.tls.client_ca and not self.tls.cert:
            raise wrong("tls.client_ca", self.tls.client_ca, "needs tls.cert and tls.key as well")

    def _check_tenants(self) -> None:
        bound = {credential.tenant for credential in self.auth.credentials} - {""}
        if self.tenants and (strangers := bound - set(self.tenants)):
            raise wrong("auth", sorted(strangers), "callers are bound to tenants that are not among `tenants`")
        try:
            Tenants(frozenset(self.tenants), self.default_tenant)
        except ValueError:
            message = f"must be one of the tenants: {', '.join(self.tenants)}"
            raise wrong("default_tenant", self.default_tenant, message) from None

    def _check_versions(self) -> None:
        if self.gateway.card_form == "0.3" and not self.legacy.enabled:
            raise wrong("gateway.card_form", self.gateway.card_form, "needs legacy.enabled: 0.3 is not served")
        path = self.gateway.draft_path
        if fault := path_fault(path):
            raise wrong("gateway.draft_path", path, fault)
        first = first_segment(path)
        if "draft" in self.gateway.profiles and first in {*self.tenants, self.default_tenant}:
            raise wrong("gateway.draft_path", path, f"/{first} is where a tenant is served; choose another path")
