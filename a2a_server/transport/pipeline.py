"""Every call, whatever door: version → caller → tenant → extensions → operation (design 4; spec: SPAR-01, AUTN-03)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, cast

import structlog
from google.protobuf.message import DecodeError, Message

from a2a_server.domain.scope import Scope
from a2a_server.domain.trace import trace_of
from a2a_server.operations.call import (
    Call,
    Entries,
    Operation,
    PackedOperation,
    StreamOperation,
    UnaryOperation,
    new_call,
)
from a2a_server.ports.authenticator import ANONYMOUS, Authenticator, Caller, Credentials
from a2a_server.protocol.errors import A2AError, Reason, Violation, refuse
from a2a_server.protocol.names import (
    CURRENT,
    CURSOR,
    EXTENSIONS,
    IDEMPOTENCY_KEY,
    REPLAY_URI,
    SCHEMES,
    SPOKEN,
    TRACE_PARENT,
    VERSION,
)
from a2a_server.transport import schemes, versions
from a2a_server.transport.extensions import Extensions
from a2a_server.transport.failing import fail
from a2a_server.transport.flowing import items
from a2a_server.transport.streams import OpenStream, OpenStreams
from a2a_server.transport.tenants import Tenants, check_form

PUBLIC = frozenset({"GetAgentCard"})
"""What anybody may ask, in any version, before knowing how to authenticate."""

SENDS = frozenset({"SendMessage", "SendStreamingMessage"})
CARDS = frozenset({"GetAgentCard", "GetExtendedAgentCard"})

OWN = frozenset({REPLAY_URI})
"""Extensions that are the server's business and not the agent's."""

NO_EXTENSIONS: frozenset[str] = frozenset()

LONGEST_KEY = 255

Metadata = tuple[tuple[str, str], ...]

_scope = lru_cache(maxsize=1024)(Scope)
"""Scopes are kept with every task, and most are the same."""

log = structlog.get_logger(__name__)


Envelope = Credentials
"""What a door hands over beside the request: metadata, and the names in the peer's certificate."""

new_envelope: Final[Callable[[tuple[Mapping[str, Sequence[str]], tuple[str, ...]]], Envelope]] = partial(
    tuple.__new__, Envelope
)
"""An envelope made of all its members at once, which takes a third of the time; every call needs one."""


class Reply:
    """The answer of a unary call, as a message or as bytes, and the metadata that goes before it."""

    __slots__ = ("_message", "_wire", "answers", "metadata")

    def __init__(self, message: Message | None, wire: bytes, answers: type[Message], metadata: Metadata) -> None:
        self._message = message
        self._wire = wire
        self.answers = answers
        self.metadata = metadata

    @property
    def message(self) -> Message:
        if self._message is None:
            self._message = self.answers.FromString(self._wire)
        return self._message

    @property
    def wire(self) -> bytes:
        return self._wire if self._message is None else self._message.SerializeToString()


@dataclass(frozen=True, slots=True)
class Stream:
    """The answer of a streaming call. Whoever iterates `items` closes them."""

    items: AsyncIterator[Entries]
    place: OpenStream
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What operators may decide about calls in general."""

    tenants: Tenants = field(default_factory=Tenants)
    extensions: Extensions = field(default_factory=Extensions)
    strict_version: bool = False
    """Whether a missing version means 0.3, to the letter (CONF-16)."""
    legacy: bool = True
    """Whether 0.3 is spoken as well."""
    require_extensions_everywhere: bool = False
    """Whether required extensions are asked for beyond sends, too (CONF-20)."""


class Pipeline:
    """Turns requests into answers of operations; every error that leaves it is an `A2AError`."""

    def __init__(
        self,
        operations: Mapping[str, Operation],
        authenticator: Authenticator,
        rules: Rules,
        streams: OpenStreams,
    ) -> None:
        self._unary = cast("Mapping[str, UnaryOperation]", operations)
        self._streaming = cast("Mapping[str, StreamOperation]", operations)
        self._packed = {
            rpc: cast("PackedOperation", operation)
            for rpc, operation in operations.items()
            if hasattr(operation, "wire")
        }
        self._authenticator = authenticator
        self._rules = rules
        self._negotiators = versions.negotiators(strict=rules.strict_version, legacy=rules.legacy)
        self._required = bool(rules.extensions.required)
        self._enforcing = frozenset(operations) - CARDS if rules.require_extensions_everywhere else SENDS
        self.streams = streams
        self.draining = False

    async def unary(self, rpc: str, request: Message, envelope: Envelope, *, spoken: str = CURRENT) -> Reply:
        """Call. A door says what is `spoken` to it; a request of 0.3 has already become one of 1.0."""
        try:
            call, metadata = await self._admit(rpc, request, envelope, spoken)
            if (packed := self._packed.get(rpc)) is not None:
                return Reply(None, await packed.wire(call, request), packed.answers, metadata)
            message = await self._unary[rpc](call, request)
            return Reply(message, b"", type(message), metadata)
        except Exception as error:  # noqa: BLE001 - nothing unexpected may reach a client
            fail(rpc, error)

    async def stream(
        self,
        rpc: str,
        request: Message,
        envelope: Envelope,
        *,
        shows_numbers: bool = False,
        spoken: str = CURRENT,
    ) -> Stream:
        """Begin a stream. A door that `shows_numbers` by itself honours cursors without the extension (RPLY-02)."""
        try:
            call, metadata = await self._admit(rpc, request, envelope, spoken)
            if CURSOR in envelope.metadata and (shows_numbers or call.numbers):
                call = call._replace(cursor=envelope.metadata[CURSOR])
        except Exception as error:  # noqa: BLE001 - as above
            fail(rpc, error)
        place = OpenStream(f"{call.scope.tenant}\n{call.caller.owner}" if call.caller.authenticated else "")
        return Stream(items(rpc, self._streaming[rpc], self.streams, call, request, place), place, metadata)

    async def _admit(self, rpc: str, request: Message, envelope: Envelope, spoken: str) -> tuple[Call, Metadata]:
        if self.draining:
            raise A2AError(Reason.UNAVAILABLE, "The server is stopping.", retry_after=1)
        tenant = getattr(request, "tenant", "")
        if rpc in PUBLIC:
            check_form(tenant)
            return Call(caller=Caller(), scope=Scope(tenant, ANONYMOUS)), ()
        metadata, rules = envelope.metadata, self._rules
        version = self._negotiators[spoken](tuple(metadata[VERSION]) if VERSION in metadata else ())
        if SPOKEN in metadata and spoken == CURRENT:  # the gateway's call is one of 1.0, whatever its client speaks
            version = spoken = versions.told(self._negotiators, tuple(metadata[SPOKEN]))
        caller = await self._authenticator.authenticate(envelope)
        scope = _scope(rules.tenants.of(tenant, caller), caller.owner)
        key = _key(tuple(metadata[IDEMPOTENCY_KEY])) if IDEMPOTENCY_KEY in metadata else ""
        listed = schemes.offered(rpc, metadata[SCHEMES]) if spoken != CURRENT and SCHEMES in metadata else ()
        trace = trace_of(metadata) if TRACE_PARENT in metadata else None
        if EXTENSIONS not in metadata and not self._required:
            return new_call((caller, scope, version, NO_EXTENSIONS, key, listed, trace, False, (), None)), ()
        asked = tuple(metadata.get(EXTENSIONS, ()))
        activated = rules.extensions.activated(asked, enforce=rpc in self._enforcing)
        call = Call(caller, scope, version, frozenset(activated) - OWN, key, listed, trace, REPLAY_URI in activated)
        return call, ((EXTENSIONS, ", ".join(activated)),) if activated else ()


def decode(message: type[Message], raw: bytes) -> Message:
    """Read a request; protobuf's own error would say how the server is made."""
    try:
        return message.FromString(raw)
    except DecodeError:
        fault = f"The request is not a well-formed {message.DESCRIPTOR.full_name}."
        raise A2AError(Reason.INVALID_PARAMS, fault) from None


def _key(values: tuple[str, ...]) -> str:
    key = values[0]
    if len(set(values)) > 1 or not 0 < len(key) <= LONGEST_KEY or not (key.isascii() and key.isprintable()):
        refuse([Violation(IDEMPOTENCY_KEY, f"must be one value of 1 to {LONGEST_KEY} printable ASCII characters")])
    return key
