"""The settings of what callers may do: scopes, and roles that stand for several (spec: AUTZ-05, GATE-07)."""

from __future__ import annotations

from typing import Annotated, Self

from annotated_types import Ge, Le
from pydantic import AfterValidator, BeforeValidator, SecretStr, field_validator, model_validator

from a2a_server.domain.rights import OWN, is_reserved, name_fault
from a2a_server.domain.webhooks import target_of
from a2a_server.protocol.options import NameList
from a2a_server.settings.sections import Section, TrustFile, read_secret, tables


def _scopes(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError("must name at least one scope; leave it out to allow everything")
    for name in names:
        if fault := name_fault(name):
            raise ValueError(f'"{name}" {fault}')
    return names


Scopes = Annotated[NameList, AfterValidator(_scopes)]


class Role(Section):
    """A name for a set of scopes. A caller with the role among its scopes has all of them."""

    name: str
    """The role's name."""
    scopes: Scopes
    """What it stands for."""

    @field_validator("name")
    @classmethod
    def _is_free(cls, value: str) -> str:
        if (
            fault := f"must not begin with {OWN}, as the server's own scopes do"
            if is_reserved(value)
            else name_fault(value)
        ):
            raise ValueError(fault)
        return value


def _distinct(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    names = [role.name for role in roles]
    for role in roles:
        if names.count(role.name) > 1:
            raise ValueError(f'there are two roles "{role.name}"')
        if nested := set(role.scopes).intersection(names):
            raise ValueError(f'the role "{role.name}" names the role "{min(nested)}"; list its scopes instead')
    return roles


Roles = Annotated[
    tuple[Role, ...],
    BeforeValidator(tables('[{"name": "reader", "scopes": ["a2a:read"]}]')),
    AfterValidator(_distinct),
]


class PolicyCheck(Section):
    """A service of your own that decides which calls are allowed, with the interface of the Open Policy Agent. While it
    does not answer, no call is allowed.
    """

    url: str = ""
    """Where to ask, such as http://127.0.0.1:8181/v1/data/a2a/allow; empty = nobody is asked."""
    token: SecretStr = SecretStr("")
    """A bearer token for the service, or file:PATH."""
    timeout: Annotated[float, Ge(0.05), Le(30)] = 1.0
    """Seconds that an answer may take."""
    cache: Annotated[float, Ge(0), Le(3600)] = 5.0
    """Seconds for which an answer is used again for equal calls; 0 = the service is asked about each call."""
    trust: TrustFile = ""
    """A PEM file with authorities that the service's certificate may come from, in addition to the system's."""

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, value: str) -> str:
        if value:
            target_of(value)
        return value

    @field_validator("token")
    @classmethod
    def _from_file(cls, value: SecretStr) -> SecretStr:
        return read_secret(value.get_secret_value())

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.url and self.token.get_secret_value():
            raise ValueError("token needs url, too")
        return self
