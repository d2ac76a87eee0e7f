"""The settings of who may call (spec: GATE-01, GATE-03, AUTN-04)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from a2a_server.protocol.names import API_KEY, AUTHORIZATION, CHALLENGE, CURSOR, IDEMPOTENCY_KEY, TRACE_PARENT
from a2a_server.protocol.options import RESERVED, KeyPlace, NameList, wrong
from a2a_server.settings.credentials import CertificateCallers, CredentialLists, credentials_in
from a2a_server.settings.issuers import Introspections, Issuers, TokenSource, check_names
from a2a_server.settings.proxy import TrustedProxy
from a2a_server.settings.roles import Roles

_TAKEN = RESERVED | {AUTHORIZATION, CHALLENGE, CURSOR, IDEMPOTENCY_KEY, TRACE_PARENT}


def _is_free(name: str) -> str:
    """A key is also sent as gRPC metadata of this name."""
    lower = name.lower()
    if lower in _TAKEN or lower.startswith(("grpc-", "a2a-")) or lower.endswith("-bin"):
        raise ValueError("is a name that HTTP, gRPC or A2A reserve")
    return name


KeyName = Annotated[str, Field(pattern=r"^([A-Za-z0-9_-][A-Za-z0-9_.-]{0,63})?$"), AfterValidator(_is_free)]


class Auth(CredentialLists):
    """Who may call. Without credentials all callers are one anonymous owner."""

    api_key_header: str = Field(default=API_KEY, pattern=r"^[A-Za-z0-9_-]+$")
    """The header, or gRPC metadata, in which API keys are sent."""
    api_key_query: KeyName = ""
    """The query parameter in which API keys are sent instead; over gRPC they are metadata of this name."""
    api_key_cookie: KeyName = ""
    """The cookie in which API keys are sent instead; over gRPC they are metadata of this name."""
    stored_keys: bool = False
    """Whether API keys of the store are accepted. `a2ad keys` makes and revokes them while the server runs."""
    issuers: Issuers = ()
    """Issuers of signed tokens (JWT)."""
    introspection: Introspections = ()
    """Providers that are asked about opaque tokens."""
    certificates: CertificateCallers = ()
    """Callers with client certificates; needs tls.client_ca. The first entry that matches a certificate is used."""
    proxy: TrustedProxy = TrustedProxy()
    require: NameList = ()
    """Which schemes a call must use: alternatives, each of one scheme or of several, by their names on the card, such
    as ["bearer", "basic+apiKey"]. The first scheme of an alternative says who calls. None = any scheme is enough."""
    roles: Roles = ()
    """Names for sets of scopes, as tables of `name` and `scopes`."""
    tokens_file: str = ""
    """A TOML file with more `[[tokens]]`, `[[api_keys]]` and `[[passwords]]`, to keep them out of the settings file. It
    is read again within a second when it changes."""
    _own: CredentialLists = PrivateAttr(CredentialLists())

    @model_validator(mode="after")
    def _with_file(self) -> Self:
        if not self.tokens_file:
            return self
        own = CredentialLists(tokens=self.tokens, api_keys=self.api_keys, passwords=self.passwords)
        try:
            found = self.reread(own)
        except OSError as error:
            raise wrong("auth.tokens_file", self.tokens_file, f"cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise wrong("auth.tokens_file", self.tokens_file, str(error)) from None
        with_file = self.model_copy(update=dict(found))
        with_file._own = own  # noqa: SLF001 - this class's own
        return with_file

    def reread(self, own: CredentialLists | None = None) -> CredentialLists:
        """All credentials, with those that the file has now. Raises an `OSError` or a `ValueError`."""
        return (own or self._own).joined(credentials_in(Path(self.tokens_file).read_bytes()))

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        try:
            check_names(self.sources)
        except ValueError as error:
            raise wrong("auth", [source.name for source in self.sources], str(error)) from None
        if self.api_key_query and self.api_key_cookie:
            raise wrong(
                "auth.api_key_cookie",
                self.api_key_cookie,
                "cannot be combined with api_key_query: API keys are sent in one place",
            )
        if (name := self.key_place.metadata) in self.proxy.headers:
            raise wrong("auth.proxy", name, "is also the name under which API keys are sent")
        return self

    @model_validator(mode="after")
    def _can_be_required(self) -> Self:
        for text, names in zip(self.require, self.alternatives, strict=True):
            if fault := self._fault(names):
                raise wrong("auth.require", text, fault)
        return self

    def _fault(self, names: tuple[str, ...]) -> str:
        if len({*names}) < len(names):
            return "names a scheme twice"
        known = ", ".join(self.schemes) or "none"
        strangers = [name for name in names if name not in self.schemes]
        return f"{strangers[0]!r} is not a configured scheme; these are configured: {known}" if strangers else ""

    @property
    def alternatives(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(name.strip() for name in text.split("+")) for text in self.require)

    @property
    def schemes(self) -> tuple[str, ...]:
        """The names on the card."""
        own = {"bearer": self.has_tokens, "apiKey": self.has_api_keys, "basic": bool(self.passwords)}
        own |= {"clientCertificate": bool(self.certificates), "proxy": bool(self.proxy.owner_header)}
        named = [name for name, used in own.items() if used]
        return tuple(dict.fromkeys([*named, *(source.scheme_name for source in self.sources)]))

    def schemes_of(self, tenant: str) -> set[str]:
        """The schemes of callers who may act in a tenant, by their names on the card."""
        lists = {"bearer": self.tokens, "apiKey": self.api_keys, "basic": self.passwords}
        bound = [(name, known.tenant) for name, listed in lists.items() for known in listed]
        bound += [("clientCertificate", known.tenant) for known in self.certificates]
        bound += [(source.scheme_name, source.tenant) for source in self.sources]
        found = {"proxy", *(name for name, of in bound if of in {"", tenant})}
        if self.tokens_file:  # which may have others at any time
            found |= lists.keys()
        return found | {"apiKey"} if self.stored_keys else found

    @property
    def has_tokens(self) -> bool:
        """Whether tokens are accepted. A file that is still empty is for tokens."""
        return bool(self.tokens or (self.tokens_file and not (self.api_keys or self.passwords)))

    @property
    def has_api_keys(self) -> bool:
        return bool(self.api_keys or self.stored_keys)

    @property
    def key_place(self) -> KeyPlace:
        if self.api_key_query:
            return KeyPlace("query", self.api_key_query)
        if self.api_key_cookie:
            return KeyPlace("cookie", self.api_key_cookie)
        return KeyPlace("header", self.api_key_header)

    @property
    def sources(self) -> tuple[TokenSource, ...]:
        return (*self.issuers, *self.introspection)

    @property
    def knows_callers(self) -> bool:
        """False = all callers are one anonymous owner."""
        return bool(self.schemes)

    @property
    def knows_nobody(self) -> bool:
        """Whether no caller can log in yet: nothing is configured, or only a file without entries."""
        return not (self.tokens or self.sources or {*self.schemes} - {"bearer"})

    @property
    def tenants(self) -> set[str]:
        """The tenants that callers are bound to."""
        tenants = {known.tenant for known in self.credentials} | {source.tenant for source in self.sources}
        return tenants | {known.tenant for known in self.certificates}
