"""The settings of single callers, by token, API key, password or certificate (spec: GATE-01, GATE-08, GATE-10)."""

from __future__ import annotations

import re
import tomllib
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from a2a_server.domain.client_certificates import NamePattern
from a2a_server.domain.password_hash import PasswordHash
from a2a_server.protocol.options import NameList
from a2a_server.settings.roles import Scopes
from a2a_server.settings.sections import Section, tables

_SHA256 = re.compile("sha256:[0-9a-f]{64}").fullmatch


def check_hash(value: SecretStr) -> SecretStr:
    if not _SHA256(value.get_secret_value()):
        raise ValueError("must be the sha256:… line that `a2ad token new` prints, never the secret itself")
    return value


def digest_of(hashed: SecretStr) -> bytes:
    return bytes.fromhex(hashed.get_secret_value().partition(":")[2])


class Credential(Section):
    """One caller's token or API key, as its hash; `a2ad token new` makes both."""

    owner: str = Field(min_length=1)
    """The owner whose tasks this caller sees."""
    hash: Annotated[SecretStr, AfterValidator(check_hash)]
    """`sha256:` and the SHA-256 of the secret in hexadecimal digits."""
    tenant: str = ""
    """The tenant that the caller is bound to; empty = any."""
    scopes: Scopes | None = None
    """What the caller may do: scopes such as a2a:GetTask, a2a:read or a skill's own, and names of roles; without it,
    everything."""
    extended_card: bool = False
    """Whether the caller may read the extended agent card."""
    expires: AwareDatetime | None = None
    """When it ends, with a time zone, such as 2027-01-01T00:00:00Z; without it, never."""

    @property
    def digest(self) -> bytes:
        return digest_of(self.hash)


class Password(Credential):
    """One caller's name and password for HTTP Basic; `a2ad token password` makes the hash."""

    hash: SecretStr
    """`scrypt:` and the parameters, the salt and the hash of the password."""
    user: str = ""
    """The name that the caller logs in with; empty = the owner."""

    @field_validator("hash")
    @classmethod
    def _is_a_hash(cls, value: SecretStr) -> SecretStr:
        PasswordHash.parse(value.get_secret_value())
        return value

    @model_validator(mode="after")
    def _can_be_sent(self) -> Self:
        if ":" in self.login:
            raise ValueError("a user name cannot have a colon, because HTTP Basic ends the name there. Set `user`")
        return self

    @property
    def hashed(self) -> PasswordHash:
        return PasswordHash.parse(self.hash.get_secret_value())

    @property
    def login(self) -> str:
        return self.user or self.owner


CredentialList = Annotated[tuple[Credential, ...], BeforeValidator(tables('[{"owner": "ann", "hash": "sha256:…"}]'))]
PasswordList = Annotated[tuple[Password, ...], BeforeValidator(tables('[{"owner": "ann", "hash": "scrypt:…"}]'))]


class CredentialLists(Section):
    """What a file of credentials holds."""

    tokens: CredentialList = ()
    """Bearer tokens."""
    api_keys: CredentialList = ()
    """API keys."""
    passwords: PasswordList = ()
    """Names and passwords, for HTTP Basic."""

    @field_validator("passwords")
    @classmethod
    def _distinct(cls, value: tuple[Password, ...]) -> tuple[Password, ...]:
        if len({password.login for password in value}) < len(value):
            raise ValueError("must have one entry for each user name")
        return value

    @property
    def credentials(self) -> tuple[Credential, ...]:
        return self.tokens + self.api_keys + self.passwords

    def joined(self, other: CredentialLists) -> CredentialLists:
        """Both together, or a `ValueError` if a user name is in both."""
        both = {name: getattr(self, name) + getattr(other, name) for name in CredentialLists.model_fields}
        try:
            return CredentialLists(**both)
        except ValidationError:
            raise ValueError("has a user name in [[passwords]] that the settings have as well") from None


def credentials_in(content: bytes) -> CredentialLists:
    """Read a file of credentials, or raise a `ValueError` that says what it must be, and nothing that is in it."""
    try:
        return CredentialLists.model_validate(tomllib.loads(content.decode()))
    except ValidationError as error:
        where = ", ".join(".".join(map(str, fault["loc"])) for fault in error.errors())
    except tomllib.TOMLDecodeError as error:
        where = str(error).rpartition("(at ")[2].rstrip(")")
    except UnicodeDecodeError:
        where = "the bytes that are not UTF-8"
    raise ValueError(f"must be a TOML file of [[tokens]] and [[api_keys]] with owner and hash; see {where}")


def _pattern(text: str) -> str:
    NamePattern.read(text)
    return text


CertificatePattern = Annotated[str, AfterValidator(_pattern)]


class CertificateCaller(Section):
    """A caller, by a name in its client certificate."""

    name: CertificatePattern
    """A name that the certificate must have, after dns:, uri: or email: (alternative names) or cn: (the subject's
    common name). `*` stands for characters up to the next dot, slash or @, and `**` for any."""
    owner: str = ""
    """The owner whose tasks this caller sees; empty = the name itself."""
    tenant: str = ""
    """The tenant that this caller is bound to; empty = any."""
    trust_domain_tenant: bool = False
    """Whether the caller is bound to a tenant that has the name of its SPIFFE trust domain."""
    scopes: NameList | None = None
    """What this caller may do, such as ["a2a:read"]; without it, everything."""
    extended_card: bool = False
    """Whether the caller may read the extended agent card."""

    @model_validator(mode="after")
    def _one_tenant(self) -> Self:
        if self.trust_domain_tenant and (self.tenant or not self.name.startswith("uri:spiffe://")):
            raise ValueError("trust_domain_tenant needs a name that begins with uri:spiffe://, and no tenant")
        return self


CertificateCallers = Annotated[
    tuple[CertificateCaller, ...], BeforeValidator(tables('[{"name": "dns:*.clients.example"}]'))
]
