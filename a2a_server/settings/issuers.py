"""The settings of identity providers: issuers of JWTs, and introspection (spec: GATE-01, GATE-09, GATE-11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from annotated_types import Ge, Le
from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from a2a_server.domain.hosts import Addresses, HostList
from a2a_server.domain.webhooks import Policy, ports_of, target_of
from a2a_server.protocol.options import NameList, Networks, network_of
from a2a_server.settings.presets import Preset, with_preset
from a2a_server.settings.roles import Scopes
from a2a_server.settings.sections import Hosts, Section, TrustFile, read_secret, tables

Flow = Literal["", "authorizationCode", "clientCredentials", "deviceCode"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]


class TokenSource(Section):
    """What issuers and introspection have in common."""

    name: str = Field(default="", pattern=r"^[A-Za-z0-9._-]{0,64}$")
    """The name of the scheme on the card; empty = `oidc`, `oauth2` or `bearer`, by what the card says. Several issuers
    need names of their own."""
    audiences: NameList = ()
    """The audiences of this server: a token must name one of them in its `aud`."""
    owner_claim: str = Field(default="sub", min_length=1)
    """The claim that names the owner. Claims may be paths with dots, such as realm_access.roles."""
    owner_prefix: str | None = None
    """A text in front of that name, which keeps the owners of several issuers apart; by default nothing if there is one
    issuer, and its name and a colon if there are several."""
    tenant: str = ""
    """The tenant that all callers are bound to; empty = any."""
    tenant_claim: str = ""
    """The claim that names the tenant which a caller is bound to; tokens without it are refused."""
    scopes: Scopes | None = None
    """What all callers may do, whatever their tokens say, such as ["a2a:*"]; without it, what their tokens say."""
    scope_claims: NameList = ("scope", "scp")
    """The claims with a caller's scopes: texts separated by blanks, or lists. All of these claims are read."""
    required_claims: Mapping[str, NameList] = Field(default_factory=dict)
    """Claims that tokens must have, each with its possible values."""
    extended_card: bool = False
    """Whether callers may read the extended agent card."""
    flow: Flow = ""
    """How clients get tokens, for the card: authorizationCode, clientCredentials or deviceCode; empty = the card names
    the issuer alone."""
    authorization_url: str = ""
    """Where users log in, for the card."""
    token_url: str = ""
    """Where clients get tokens, for the card."""
    device_authorization_url: str = ""
    """Where devices ask for a code, for the card."""
    card_scopes: NameList = ()
    """The scopes that clients should ask for. The card and the resource metadata name them."""
    timeout: Annotated[float, Ge(0.1), Le(30)] = 5.0
    """Seconds that one request to the provider may take."""
    allow_hosts: Hosts = ()
    """The only hosts that are called; none = all that the provider names itself."""
    allow_networks: Networks = ()
    """Private networks that the provider may be in, such as 10.1.0.0/16."""
    allow_loopback: bool = False
    """Whether the provider may be on this machine, also over HTTP."""
    https_only: bool = True
    """Whether the provider must be called over HTTPS."""
    trust: TrustFile = ""
    """A PEM file with authorities that the provider's certificate may come from, in addition to the system's."""

    @property
    def policy(self) -> Policy:
        return Policy(
            addresses=Addresses.of(map(network_of, self.allow_networks), loopback=self.allow_loopback),
            allow_hosts=HostList.of(self.allow_hosts),
            https_only=self.https_only,
            ports=ports_of(["1-65535"]),
        )

    @property
    def scheme_name(self) -> str:
        return self.name or ("oauth2" if self.flow else "bearer")

    @model_validator(mode="after")
    def _flow_has_its_urls(self) -> Self:
        needed = {"": (), "clientCredentials": ("token_url",), "deviceCode": ("device_authorization_url", "token_url")}
        for name in needed.get(self.flow, ("authorization_url", "token_url")):
            if not getattr(self, name):
                raise ValueError(f"the flow {self.flow} needs {name}")
        return self

    def check_url(self, name: str, url: str) -> None:
        """Refuse a URL that would never be called."""
        try:
            fault = self.policy.refusal(target_of(url))
        except ValueError as error:
            fault = str(error)
        if fault:
            raise ValueError(f"{name} = {url[:200]!r} {fault}; see allow_networks, allow_loopback and https_only")


class Issuer(TokenSource):
    """An issuer of signed tokens (JWT), which are verified with its keys."""

    preset: Preset = ""
    """oidc, keycloak, entra, auth0, okta, cognito or google: fills in what is known about these."""
    issuer: str = Field(min_length=1)
    """The issuer as tokens name it (`iss`). Unless jwks_url is set, it is a URL below which its metadata is found."""
    issuer_aliases: NameList = ()
    """Further values of `iss`, of the same issuer and keys."""
    jwks_url: str = ""
    """Where the issuer's keys are; empty = its metadata says it."""
    audience_claim: str = "aud"
    """The claim that names the audience."""
    algorithms: tuple[Algorithm, ...] = get_args(Algorithm)
    """The algorithms that tokens may be signed with. There are none that need a shared secret."""
    types: NameList = ("at+jwt", "JWT")
    """The types of tokens (`typ`) that are accepted. A token without a type counts as JWT."""
    leeway: Annotated[float, Ge(0), Le(300)] = 30.0
    """Seconds by which clocks may differ."""
    refresh: Annotated[float, Ge(1), Le(86400)] = 600.0
    """Seconds after which the keys are fetched again."""
    cooldown: Annotated[float, Ge(0.1), Le(300)] = 2.0
    """The least number of seconds between two fetches, even if tokens name unknown keys."""
    tenant_id: str = ""
    """For the preset entra: the id of the directory."""
    domain: str = ""
    """For the presets auth0 and okta: the domain, without https://."""
    authorization_server: str = "default"
    """For the preset okta: the id of the authorization server."""
    user_pool_id: str = ""
    """For the preset cognito: the id of the user pool."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:  # noqa: ANN401 - not checked yet
        return with_preset(given) if isinstance(given, Mapping) else given

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if not self.audiences:
            raise ValueError(
                "audiences is missing: a token that was made for another service must not be accepted here"
            )
        if not self.algorithms:
            raise ValueError("algorithms must name at least one")
        self.check_url(*(("jwks_url", self.jwks_url) if self.jwks_url else ("issuer", self.issuer)))
        return self

    @property
    def scheme_name(self) -> str:
        return self.name or ("oauth2" if self.flow else "bearer" if self.jwks_url else "oidc")


class Introspection(TokenSource):
    """A provider that is asked about opaque tokens (RFC 7662)."""

    url: str = Field(min_length=1)
    """The introspection endpoint."""
    client_id: str = Field(min_length=1)
    """The name under which this server asks."""
    client_secret: SecretStr
    """Its secret, or file:PATH."""
    client_authentication: Literal["basic", "post"] = "basic"
    """Whether both are sent as HTTP Basic, or in the form."""
    issuer: str = ""
    """The `iss` that the answers must have; empty = any."""
    cache: Annotated[float, Ge(0), Le(3600)] = 60.0
    """Seconds that a valid token is remembered, at most until it expires. Revoking takes effect after that."""
    cache_refused: Annotated[float, Ge(0), Le(3600)] = 10.0
    """Seconds that an invalid token is remembered."""
    concurrency: Annotated[int, Ge(1), Le(256)] = 32
    """Requests to the provider at once, for the tokens of one address. Several addresses share this number, and may
    reach twice as many together."""

    @field_validator("client_secret")
    @classmethod
    def _from_file(cls, value: SecretStr) -> SecretStr:
        return read_secret(value.get_secret_value())

    @model_validator(mode="after")
    def _may_be_called(self) -> Self:
        self.check_url("url", self.url)
        return self


_ISSUERS = tables('[{"issuer": "https://…", "audiences": ["…"]}]')
Issuers = Annotated[tuple[Issuer, ...], BeforeValidator(_ISSUERS)]
_INTROSPECTION = tables('[{"url": "https://…", "client_id": "…", "client_secret": "…"}]')
Introspections = Annotated[tuple[Introspection, ...], BeforeValidator(_INTROSPECTION)]


def check_names(sources: tuple[TokenSource, ...]) -> None:
    """Refuse sources that cannot be told apart by their names."""
    names = [source.name for source in sources]
    if len(sources) > 1 and ("" in names or len({*names}) < len(names)):
        raise ValueError("several issuers need a `name` each, all of them different")
