"""Sections of the settings that check themselves: callers and webhooks (spec: GATE-01, AUTN-04, CAPA-02, SSRF-03)."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import IPv6Network
from pathlib import Path
from typing import Annotated, Self

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
from pydantic.dataclasses import dataclass

from a2a_server.domain.hosts import NAT64_LENGTHS, Addresses, HostList
from a2a_server.domain.webhooks import Policy, ports_of
from a2a_server.operations.push.push_options import Patience
from a2a_server.protocol.names import API_KEY
from a2a_server.protocol.options import NameList, Networks, all_are, network_of, split, wrong
from a2a_server.transport.certificates import certificates_fault

_HASH = re.compile("sha256:[0-9a-f]{64}").fullmatch
_FILE = "file:"


def _listed(value: object) -> object:
    """Read credentials as an environment variable spells them: a JSON array of objects."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('must be a JSON array such as [{"owner": "ann", "hash": "sha256:…"}]') from None


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Credential(Section):
    """One caller's token or API key, as its hash; `a2ad token` makes both."""

    owner: str = Field(min_length=1)
    """The owner whose tasks this caller sees."""
    hash: SecretStr
    """`sha256:` and the SHA-256 of the secret in hexadecimal digits."""
    tenant: str = ""
    """The tenant that the caller is bound to; empty = any."""
    extended_card: bool = False
    """Whether the caller may read the extended agent card."""

    @field_validator("hash")
    @classmethod
    def _is_a_hash(cls, value: SecretStr) -> SecretStr:
        if not _HASH(value.get_secret_value()):
            raise ValueError("must be the sha256:… line that `a2ad token` prints, never the secret itself")
        return value

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.hash.get_secret_value().partition(":")[2])


CredentialList = Annotated[tuple[Credential, ...], BeforeValidator(_listed)]


class CredentialLists(Section):
    """What a file of credentials holds."""

    tokens: CredentialList = ()
    """Bearer tokens."""
    api_keys: CredentialList = ()
    """API keys."""


class Auth(CredentialLists):
    """Who may call. Without credentials all callers are one anonymous owner."""

    api_key_header: str = Field(default=API_KEY, pattern=r"^[A-Za-z0-9_-]+$")
    """The header, or gRPC metadata, in which API keys are sent."""
    tokens_file: str = ""
    """A TOML file with more `[[tokens]]` and `[[api_keys]]`, to keep them out of the settings file."""

    @model_validator(mode="after")
    def _with_file(self) -> Self:
        if not self.tokens_file:
            return self
        try:
            found = CredentialLists.model_validate(tomllib.loads(Path(self.tokens_file).read_text("utf-8")))
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
Keys = Annotated[tuple[SecretStr, ...], BeforeValidator(partial(split, what="keys"))]


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
    trust: str = ""
    """A PEM file with authorities that receivers' certificates may come from, in addition to the system's."""

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
        allow, deny = map(network_of, self.allow_networks), map(network_of, self.deny_networks)
        prefixes = filter(None, map(_prefix, self.nat64_prefixes))
        return Policy(
            addresses=Addresses.of(allow, deny, prefixes, loopback=self.allow_loopback),
            allow_hosts=HostList.of(self.allow_hosts),
            deny_hosts=HostList.of(self.deny_hosts),
            https_only=self.https_only,
            ports=ports_of(self.ports),
        )


def _read(text: str) -> str:
    """The text itself, or that of the file which it names."""
    if not text.startswith(_FILE):
        return text
    path = text.removeprefix(_FILE)
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"the file {path!r} cannot be read") from None
