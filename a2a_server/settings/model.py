"""The settings themselves: one frozen object, its parts owned by the packages that use them."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from annotated_types import Ge
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from a2a_server.errors import ErrorCodes
from a2a_server.operations.limits import Limits
from a2a_server.transport.address import Address
from a2a_server.transport.options import GrpcOptions, StreamOptions, Tls
from a2a_server.transport.tenants import Tenants, fault_of

MEMORY = "memory:"
SQLITE = "sqlite:///"
HASH = "sha256:"
DIGITS = 64


def _split(value: object) -> object:
    """Read names as an environment variable spells them: separated by commas."""
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


def _listed(value: object) -> object:
    """Read credentials as an environment variable spells them: a JSON array of objects."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('must be a JSON array such as [{"owner": "ann", "hash": "sha256:…"}]') from None


def _parsed(value: str) -> str:
    return str(Address.parse(value))


Listening = Annotated[str, AfterValidator(_parsed)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]


def wrong(setting: str, value: object, message: str) -> PydanticCustomError:
    """Make an error about a setting that is not, or not only, the one being validated."""
    return PydanticCustomError("wrong", "{message}", {"message": message, "setting": setting, "value": value})


class Credential(BaseModel):
    """One caller's token or API key, as its hash; `a2a-server token` makes both."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    owner: str = Field(min_length=1)
    """Whose tasks the bearer sees."""
    hash: SecretStr
    """`sha256:` and the SHA-256 of the secret in hexadecimal digits."""
    tenant: str = ""
    """The tenant the caller is bound to."""
    extended_card: bool = False
    """Whether the caller may read the extended agent card."""

    @field_validator("hash")
    @classmethod
    def _is_a_hash(cls, value: SecretStr) -> SecretStr:
        kind, _, digits = value.get_secret_value().partition(":")
        if kind != "sha256" or len(digits) != DIGITS or not set(digits) <= set("0123456789abcdef"):
            raise ValueError("must be the sha256:… line that `a2a-server token` prints, never the secret itself")
        return value

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.hash.get_secret_value().removeprefix(HASH))


Credentials = Annotated[tuple[Credential, ...], BeforeValidator(_listed)]


class _TokensFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: Credentials = ()
    api_keys: Credentials = ()


class Auth(BaseModel):
    """Who may call. Without any credential every caller is the one anonymous owner."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: Credentials = ()
    """Bearer tokens."""
    api_keys: Credentials = ()
    """API keys."""
    api_key_header: str = Field(default="x-api-key", pattern=r"^[A-Za-z0-9_-]+$")
    """The header, or gRPC metadata, that API keys arrive in."""
    tokens_file: str = ""
    """A TOML file with more `[[tokens]]` and `[[api_keys]]`, to keep them apart from the other settings."""

    @model_validator(mode="after")
    def _with_file(self) -> Self:
        if not self.tokens_file:
            return self
        try:
            found = _TokensFile.model_validate(tomllib.loads(Path(self.tokens_file).read_text("utf-8")))
        except OSError as error:
            raise wrong("auth.tokens_file", self.tokens_file, f"cannot be read: {error.strerror}") from None
        except ValueError:
            message = "must be a TOML file of [[tokens]] and [[api_keys]] with owner and hash"
            raise wrong("auth.tokens_file", self.tokens_file, message) from None
        both = {"tokens": self.tokens + found.tokens, "api_keys": self.api_keys + found.api_keys, "tokens_file": ""}
        return self.model_copy(update=both)

    @property
    def credentials(self) -> tuple[Credential, ...]:
        return self.tokens + self.api_keys


class Log(BaseModel):
    """What is logged, on stderr."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important events to show."""
    format: Literal["auto", "console", "json"] = "auto"
    """`auto` = console on a terminal, one JSON object per line elsewhere."""


class Settings(BaseSettings):
    """What the server was told. Making one reads nothing but its arguments; `load` asks files and environment."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="A2A_", env_nested_delimiter="__", enable_decoding=False
    )

    agent: str = "a2a_server.demo:agent"
    """The agent to serve: MODULE:NAME or path/to/file.py:NAME."""
    grpc: Listening = "127.0.0.1:50051"
    """Where the gRPC door listens; port 0 lets the system choose."""
    http: Listening = "127.0.0.1:8080"
    """Where the HTTP door will listen; it arrives with a later release and cannot be set yet."""
    store: str = "sqlite:///a2a.db"
    """Where tasks are kept: memory: or sqlite:///PATH."""
    public_grpc: str = ""
    """HOST:PORT of the gRPC door as clients see it, for the agent card; empty = where it listens."""
    anonymous_beyond_loopback: bool = False
    """Whether other machines may call without authentication."""
    tenants: Names = ()
    """The tenants that are served; none = every tenant a caller names is a space of its own."""
    default_tenant: str = ""
    """The tenant of calls that name none."""
    strict_version: bool = False
    """Whether a call without A2A-Version counts as 0.3, to the letter of the specification."""
    error_codes: ErrorCodes = "1.0.1"
    """Which release's gRPC codes errors have; reasons are the same in both."""
    require_extensions_everywhere: bool = False
    """Whether extensions that the card requires must be listed beyond sends, too."""
    keep_streams_open_on_input: bool = False
    """Whether streams stay open when a task asks for input."""
    loop_block_warning: Annotated[float, Ge(0)] = 1.0
    """After how many seconds of blocking the event loop an agent is named in the log; 0 = never."""
    limits: Limits = Limits()
    streams: StreamOptions = StreamOptions()
    transport: GrpcOptions = GrpcOptions()
    tls: Tls = Tls()
    auth: Auth = Auth()
    log: Log = Log()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - as above
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    @field_validator("tenants", "default_tenant")
    @classmethod
    def _usable(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (value,) if isinstance(value, str) else value:
            if fault := fault_of(name):
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

    @field_validator("limits")
    @classmethod
    def _bounded(cls, limits: Limits) -> Limits:
        for field in dataclasses.fields(limits):
            value = getattr(limits, field.name)
            least = 1 if type(value) is int else 0
            if not math.isfinite(value) or value < least:
                raise wrong(f"limits.{field.name}", value, f"must be at least {least}")
        return limits

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for fault in (self._http_fault(), self._reach_fault(), self._tls_fault(), self._tenant_fault()):
            if fault:
                raise wrong(*fault)
        return self

    def _http_fault(self) -> tuple[str, object, str] | None:
        if "http" not in self.model_fields_set:
            return None
        return "http", self.http, "the HTTP door arrives with a later release; until then leave this setting out"

    def _reach_fault(self) -> tuple[str, object, str] | None:
        if Address.parse(self.grpc).loopback or self.auth.credentials or self.anonymous_beyond_loopback:
            return None
        message = (
            "without authentication only this machine may call; configure auth.tokens or auth.api_keys, listen on "
            "127.0.0.1, or set anonymous_beyond_loopback to let everybody in"
        )
        return "grpc", self.grpc, message

    def _tls_fault(self) -> tuple[str, object, str] | None:
        if bool(self.tls.cert) != bool(self.tls.key):
            missing = "tls.key" if self.tls.cert else "tls.cert"
            return missing, "", "certificate and key are needed together"
        if self.tls.client_ca and not self.tls.cert:
            return "tls.client_ca", self.tls.client_ca, "needs tls.cert and tls.key as well"
        return None

    def _tenant_fault(self) -> tuple[str, object, str] | None:
        bound = {credential.tenant for credential in self.auth.credentials} - {""}
        if self.tenants and (strangers := bound - set(self.tenants)):
            return "auth", sorted(strangers), "callers are bound to tenants that are not among `tenants`"
        try:
            Tenants(frozenset(self.tenants), self.default_tenant)
        except ValueError:
            return "default_tenant", self.default_tenant, f"must be one of the tenants: {', '.join(self.tenants)}"
        return None
