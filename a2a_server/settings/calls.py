"""The section about calls to other agents: where they may go, and with which credentials (spec: AGNT-03, SSRF-04)."""

from __future__ import annotations

from typing import Annotated, Self

from annotated_types import Gt, Le
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator, model_validator

from a2a_server.domain.webhooks import Policy
from a2a_server.protocol.names import CURRENT, LEGACY
from a2a_server.protocol.options import NameList, Networks, all_are
from a2a_server.settings.sections import Hosts, Ports, Section, TrustFile, policy_of, read_secret, tables

_BINDINGS = {"grpc": "GRPC", "jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "http+json": "HTTP+JSON"}


def _binding(name: str) -> str | None:
    return _BINDINGS.get(name.lower())


def _version(name: str) -> str | None:
    return name if name in {CURRENT, LEGACY} else None


def _spelt(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_BINDINGS[name.lower()] for name in names)


class CallCredentials(Section):
    """What this server shows to agents on some hosts; of its callers' credentials it passes on none."""

    hosts: Hosts = Field(min_length=1)
    """Hosts such as agents.example, .example for all below it, or addresses. Both the card and the interface must be
    there."""
    bearer: SecretStr = SecretStr("")
    """A token, or file:PATH."""
    api_key: SecretStr = SecretStr("")
    """An API key, or file:PATH. The agent's card says where it goes."""

    @field_validator("bearer", "api_key")
    @classmethod
    def _from_file(cls, value: SecretStr) -> SecretStr:
        return read_secret(value.get_secret_value())

    @model_validator(mode="after")
    def _one(self) -> Self:
        if not (self.bearer.get_secret_value() or self.api_key.get_secret_value()):
            raise ValueError("needs a bearer token or an api_key")
        return self


class CallingOptions(Section):
    """Calls that the agent makes to other agents. Times are seconds."""

    allow_hosts: Hosts = ()
    """The only hosts that may be called: agents.example, .example for all below it, or addresses; none = all."""
    deny_hosts: Hosts = ()
    """Hosts that may not be called, in the same spelling."""
    allow_networks: Networks = ()
    """Private networks that may be called all the same, such as 10.1.0.0/16."""
    deny_networks: Networks = ()
    """Public networks that may not be called."""
    https_only: bool = True
    """Whether calls must be encrypted: HTTPS, or TLS for gRPC. This machine itself is called without."""
    ports: Ports = ("443", "80", "1024-65535")
    """Ports that may be called."""
    allow_loopback: bool = False
    """Whether this machine itself may be called."""
    transports: Annotated[NameList, all_are(_binding, "must be of: grpc, jsonrpc, rest"), AfterValidator(_spelt)] = ()
    """The bindings to prefer, best first: grpc, jsonrpc, rest; none = the order of the other agent's card."""
    versions: Annotated[NameList, all_are(_version, "must be of: 1.0, 0.3")] = (CURRENT, LEGACY)
    """The versions of A2A that are spoken, best first."""
    signed: bool = False
    """Whether only agents are called whose card has a valid signature."""
    timeout: Annotated[float, Gt(0), Le(3600)] = 60.0
    """How long an answer may take to begin. A task may take longer."""
    trust: TrustFile = ""
    """A PEM file with authorities that certificates may come from, in addition to the system's."""
    credentials: Annotated[
        tuple[CallCredentials, ...], BeforeValidator(tables('[{"hosts": ["agents.example"], "bearer": "…"}]'))
    ] = ()
    """Credentials by host, as tables `[[calls.credentials]]`; the first that fits is used."""

    @property
    def policy(self) -> Policy:
        return policy_of(self)
