"""The steps that every call takes before its operation, whatever door it came through (spec: SPAR-01, AUTN-03).

`standard` builds them, in this order:

1. `Version` settles which protocol version the client speaks.
2. `Authentication` finds out who calls. If rates are limited, `Rates` comes next.
3. `Permissions` asks whether this caller may (`permissions.py`).
4. `Tenants` decides in which tenant, and with that in which scope.
5. `send_options` reads what goes with a send: the idempotency key, and all schemes that a push config of 0.3 offers.
6. `Extensions` activates what is both asked for and declared.
7. `trace` reads where the call stands in its caller's trace.

One more concern is one more entry: `Pipeline(operations, (*standard(...), own_step), streams)`. A step is a function
or an object that is called with the `Admission`, reads it, and fills in its part. One that has to wait is `async`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.rights import lacking
from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import trace_of
from a2a_server.ports.authenticator import Authenticator, Caller, Credentials
from a2a_server.protocol.errors import A2AError, Reason, Violation, major_minor, refuse, version_not_supported
from a2a_server.protocol.names import (
    CURRENT,
    DRAFT,
    EXTENSIONS,
    IDEMPOTENCY_KEY,
    LEGACY,
    REPLAY_URI,
    SCHEMES,
    SPOKEN,
    TRACE_PARENT,
    VERSION,
    may_be_tenant,
)
from a2a_server.transport.permissions import PUBLIC, Permissions
from a2a_server.transport.pipeline import Admission, Step

SENDS: Final = frozenset({"SendMessage", "SendStreamingMessage"})
CARDS: Final = frozenset({"GetAgentCard", "GetExtendedAgentCard"})

MOST_SCHEMES: Final = 16
_LONGEST_NAME: Final = 255
_LONGEST_LIST: Final = 8 * 1024
_OWN: Final = frozenset({REPLAY_URI})
"""Extensions that are the server's business and not the agent's."""
_scope: Final = lru_cache(maxsize=1024)(Scope)
"""Scopes are kept with every task, and most are the same."""


@dataclass(frozen=True, slots=True)
class Tenants:
    """Which tenant a call belongs to (spec: TENA-01, TENA-04, TENA-06, TENA-07).

    Where no tenants are named, every value is a space of its own.
    """

    served: frozenset[str] = field(default_factory=frozenset)
    default: str = ""
    needs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The scopes without which a caller may not act in a tenant."""

    def __post_init__(self) -> None:
        for name in (*self.served, self.default):
            if fault := tenant_fault(name):
                raise ValueError(f'tenant "{name}": {fault}')
        if self.served and self.default and self.default not in self.served:
            raise ValueError(f'default tenant "{self.default}": must be one of the tenants')

    def __call__(self, call: Admission) -> None:
        asked = getattr(call.request, "tenant", "")
        if call.rpc in PUBLIC:
            _check_tenant(asked)
            call.scope = Scope(asked, call.caller.owner)
        else:
            call.scope = _scope(self.of(asked, call.caller), call.caller.owner)

    def of(self, asked: str, caller: Caller) -> str:
        """Return the tenant of a call that names `asked`, or nothing.

        Another caller's tenant and one that nobody has are the same to the caller (TENA-04).
        """
        tenant = asked or caller.tenant or self.default
        if not tenant and not self.served:
            return tenant
        foreign = (caller.tenant and tenant != caller.tenant) or (self.served and tenant not in self.served)
        if foreign or (tenant in self.needs and lacking(caller.scopes, self.needs[tenant])):
            raise A2AError(Reason.PERMISSION_DENIED, "The caller may not act in this tenant.")
        _check_tenant(tenant)
        return tenant


@dataclass(frozen=True, slots=True)
class Extensions:
    """Settles which extensions are active in a call (spec: EXTN-02 to EXTN-05, SPAR-03, CONF-20)."""

    declared: frozenset[str] = frozenset()
    """What the agent's card declares."""
    required: tuple[str, ...] = ()
    everywhere: bool = False
    """Whether required extensions are asked for beyond sends, too."""

    @classmethod
    def of(cls, extensions: Iterable[pb.AgentExtension], *, everywhere: bool = False) -> Extensions:
        listed = list(extensions)
        required = tuple(extension.uri for extension in listed if extension.required)
        return cls(frozenset(extension.uri for extension in listed), required, everywhere)

    def __call__(self, call: Admission) -> None:
        metadata = call.credentials.metadata
        if (EXTENSIONS not in metadata and not self.required) or call.rpc in PUBLIC:
            return
        asked = _requested(tuple(metadata[EXTENSIONS])) if EXTENSIONS in metadata else ()
        if call.rpc not in CARDS if self.everywhere else call.rpc in SENDS:
            self._check(asked)
        activated = tuple(uri for uri in asked if uri in self.declared)  # exactly, or not at all (EXTN-05)
        if activated:
            call.extensions = frozenset(activated) - _OWN
            call.numbers = REPLAY_URI in activated
            call.metadata = (*call.metadata, (EXTENSIONS, ", ".join(activated)))

    def _check(self, asked: Sequence[str]) -> None:
        if missing := [uri for uri in self.required if uri not in asked]:
            raise A2AError(
                Reason.EXTENSION_SUPPORT_REQUIRED,
                f"The agent requires extensions that the request does not list: {', '.join(missing)}.",
                metadata={"extension": ",".join(missing)},
            )


@dataclass(frozen=True, slots=True)
class ExtensionsOfTenants:
    """The same, where each tenant has an agent of its own."""

    declared: Mapping[str, Extensions]

    def __call__(self, call: Admission) -> None:
        if call.rpc not in PUBLIC:
            self.declared[call.scope.tenant](call)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """What operators may decide about calls in general."""

    tenants: Tenants = field(default_factory=Tenants)
    permissions: Permissions = field(default_factory=Permissions)
    extensions: Step = field(default_factory=Extensions)
    strict_version: bool = False
    """Whether a missing version means 0.3, to the letter (CONF-16)."""
    legacy: bool = True
    """Whether 0.3 is spoken as well."""
    rates: Sequence[Step] = ()
    """How often callers may call, and how many calls may be under way."""


def standard(authenticator: Authenticator, rules: CallRules) -> tuple[Step, ...]:
    """The steps that every server takes, in their order."""
    return (
        Version(strict=rules.strict_version, legacy=rules.legacy),
        Authentication(authenticator),
        *rules.rates,
        *([rules.permissions] if authenticator.required else ()),
        rules.tenants,
        send_options,
        rules.extensions,
        trace,
    )


class Version:
    """Settles the version of a call (spec: VERS-01 to VERS-05, VERS-08, VERS-09, CONF-16, CONF-17).

    Who speaks 1.0 unmistakably need not name it, because people use grpcurl; `strict` turns that off. Who speaks
    0.3 never needs to: its clients know nothing of versions in metadata.
    """

    def __init__(self, *, strict: bool, legacy: bool) -> None:
        absent = {CURRENT: LEGACY if strict else CURRENT, LEGACY: LEGACY, DRAFT: LEGACY}
        if not legacy:
            del absent[LEGACY]
        self._served = ",".join(version for version in absent if version != DRAFT)
        # Errors are not kept, so that only good spellings take room.
        self._negotiate = {
            spoken: lru_cache(maxsize=64)(partial(_negotiate, spoken, absent[spoken], self._served))
            for spoken in absent
        }

    def __call__(self, call: Admission) -> None:
        if call.rpc in PUBLIC:
            call.version = CURRENT
            return
        metadata, spoken = call.credentials.metadata, call.spoken
        call.version = self._negotiate[spoken](tuple(metadata[VERSION]) if VERSION in metadata else ())
        if SPOKEN in metadata and spoken == CURRENT:  # the gateway's call is one of 1.0, whatever its client speaks
            call.version = call.spoken = self._told(tuple(metadata[SPOKEN]))

    def _told(self, values: tuple[str, ...]) -> str:
        """What a gateway says that its client spoke."""
        if len(values) == 1 and values[0] in self._negotiate:
            return values[0]
        versions = self._served.replace(",", ", ")
        text = f'This server speaks A2A {versions}; a gateway says that its client speaks "{{requested}}".'
        raise version_not_supported(text, (",".join(values),), self._served)  # repetitions matter here


_WHERE: Final = {
    CURRENT: "A2A 1.0 is spoken by paths without /v1, by methods such as SendMessage, and by the package lf.a2a.v1.",
    LEGACY: "A2A 0.3 is spoken under /v1, by methods such as message/send, and by the package a2a.v1.",
}
"""That a version is served says nothing to a client that has it right and its path, method or package wrong."""


def _negotiate(spoken: str, absent: str, served: str, values: tuple[str, ...]) -> str:
    own = LEGACY if spoken == DRAFT else spoken
    asked = {major_minor(value.strip()) or absent for value in values or (absent,)}
    if asked == {own}:
        return spoken
    says = 'asks for "{requested}"' if any(values) else f"names no version, which counts as {absent}"
    where = "".join(f" {_WHERE[version]}" for version in served.split(",") if asked == {version})
    text = f"This interface speaks A2A {own}; the request {says}.{where}"
    raise version_not_supported(text, values if any(values) else (absent,), served)


class Authentication:
    """Finds out who calls (spec: AUTN-03)."""

    needs_no_request = True
    """It may be taken before the request is read."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._recent: Callable[[Credentials], Caller | None] | None = getattr(authenticator, "recent", None)

    def __call__(self, call: Admission) -> Awaitable[None] | None:
        if call.rpc in PUBLIC:
            return None
        caller = self._recent(call.credentials) if self._recent is not None else None
        if caller is None:
            return self._find_out(call)
        call.caller = caller
        return None

    async def _find_out(self, call: Admission) -> None:
        call.caller = await self._authenticator.authenticate(call.credentials)


def tenant_fault(name: str) -> str:
    """Say what makes a configured name unusable; empty when nothing does."""
    if not may_be_tenant(name):
        return "is a fixed segment of the HTTP routes, or begins with a dot, and cannot be a tenant"
    if len(name) > _LONGEST_NAME or not name.isprintable() or "/" in name:
        return f"must have at most {_LONGEST_NAME} printable characters and no slash"
    return ""


def _check_tenant(tenant: str) -> None:
    """Refuse what can be nobody's name."""
    if len(tenant) > _LONGEST_NAME or not tenant.isprintable() or tenant.startswith("."):
        text = f"must have at most {_LONGEST_NAME} characters, all printable, the first of them no dot"
        refuse([Violation("tenant", text)])


def send_options(call: Admission) -> None:
    """Read the idempotency key and the schemes that stand beside a request (spec: ONCE-01, LPSH-02, CONF-34)."""
    metadata = call.credentials.metadata
    if call.rpc in PUBLIC:
        return
    if IDEMPOTENCY_KEY in metadata:
        call.idempotency_key = _key(metadata[IDEMPOTENCY_KEY])
    if SCHEMES in metadata and call.spoken != CURRENT:  # the request of 1.0 has room for one, which it names itself
        call.schemes = _offered(call.rpc, metadata[SCHEMES])


def _key(values: Sequence[str]) -> str:
    key = values[0]
    if len(set(values)) > 1 or not 0 < len(key) <= _LONGEST_NAME or not (key.isascii() and key.isprintable()):
        refuse([Violation(IDEMPOTENCY_KEY, f"must be one value of 1 to {_LONGEST_NAME} printable ASCII characters")])
    return key


_SCHEME: Final = "authentication.scheme"
_SCHEME_OF: Final = dict.fromkeys(SENDS, f"configuration.task_push_notification_config.{_SCHEME}")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}").fullmatch


def _offered(rpc: str, values: Sequence[str]) -> Sequence[str]:
    """Split `scheme *( "," scheme )`; what is wrong is told about the member that the list came from."""
    schemes = _split(values)
    if len(schemes) > MOST_SCHEMES or not all(map(_TOKEN, schemes)):
        text = f"must be at most {MOST_SCHEMES} names of HTTP authentication schemes, such as Bearer, of 64 characters"
        refuse([Violation(_SCHEME_OF.get(rpc, _SCHEME), text)])
    return schemes


def _split(values: Iterable[str]) -> tuple[str, ...]:
    """Split `item *( "," item )`, repeated lines joined, spaces trimmed, repetitions dropped."""
    items = (item.strip() for value in values for item in value.split(","))
    return tuple(dict.fromkeys(item for item in items if item))


@lru_cache(maxsize=64)
def _requested(values: tuple[str, ...]) -> tuple[str, ...]:
    if sum(map(len, values)) > _LONGEST_LIST:
        refuse([Violation(EXTENSIONS, f"must have at most {_LONGEST_LIST} characters in all")])
    return _split(values)


def trace(call: Admission) -> None:
    """Read the caller's trace, for everything that is sent because of this call (spec: TRAC-01)."""
    if TRACE_PARENT in call.credentials.metadata:
        call.trace = trace_of(call.credentials.metadata)
