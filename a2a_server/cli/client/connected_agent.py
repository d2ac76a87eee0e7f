"""One command's conversation with an agent: the card, the connection, what to print, and how failures are said.

Spec: CLI-13, CLI-28, CLI-40, CLI-44, CLI-46; OP-05, OP-06, OP-13.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client import failures
from a2a_server.cli.client.failures import CommandFailure, usage
from a2a_server.cli.client.logins import stored_token
from a2a_server.cli.client.output import JsonPrinter, Printer, TextPrinter, state_name, tell
from a2a_server.cli.client.sources import GivenSettings
from a2a_server.client import (
    AgentError,
    AuthenticationError,
    CallerCredentials,
    CallError,
    CallTimeoutError,
    CardInvalidError,
    CardNotFoundError,
    CredentialsMissingError,
    Discovery,
    FoundCard,
    Network,
    Remote,
    UnreachableError,
    WireMessage,
    connect,
)
from a2a_server.domain.lifecycle import AUTH, CANCELED, FAILED, INPUT, REJECTED
from a2a_server.protocol.errors import Reason

if TYPE_CHECKING:
    from a2a_server.cli.client.settings import ClientSettings

_CODES: Final[Mapping[type[CallError], str]] = {
    CardNotFoundError: failures.CARD_NOT_FOUND,
    CardInvalidError: failures.CARD_INVALID,
    UnreachableError: failures.UNREACHABLE,
    CredentialsMissingError: failures.CREDENTIALS_MISSING,
    AuthenticationError: failures.AUTH_FAILED,
    CallTimeoutError: failures.TIMEOUT,
}
_NAMED: Final = frozenset({Reason.INVALID_PARAMS, Reason.INTERNAL})
"""Errors that are not A2A's own, and have a name on every binding."""
_REMARKABLE: Final = {
    INPUT: "the task waits for your answer",
    AUTH: "the task waits for an authorization",
    FAILED: "the task has failed",
    CANCELED: "the task was canceled",
    REJECTED: "the agent has rejected the task",
}
_CALL_SECONDS: Final = 3600.0
"""For one call, where the command has no time limit: agents may answer late, and connections that break are noticed."""


@dataclass(slots=True)
class ConnectedAgent:
    """What a command on an agent works with."""

    told: GivenSettings
    remote: Remote
    printer: Printer
    program: Sequence[str]
    """The command line that reaches this agent, up to the command."""
    secrets: Sequence[str]
    task_id: str = ""
    """Of the task that this command works on, once it is known."""
    is_watched: bool = False
    """A person watches the task on a terminal, and is told the id in the end."""
    started: float = field(default_factory=monotonic)

    @property
    def settings(self) -> ClientSettings:
        return self.told.values

    def knows(self, task_id: str) -> None:
        """Say the id as soon as it is known: whoever interrupts the command shall not lose it (OP-07)."""
        if task_id and task_id != self.task_id:
            self.task_id = task_id
            if not self.is_watched:
                tell(f"Task: {task_id}")

    def ended(self, state: int) -> None:
        """Warn of an outcome that is none (CLI-43)."""
        if state in _REMARKABLE:
            tell(f"Warning: {_REMARKABLE[state]} ({state_name(state)})")

    def need(self, missing: Reason, *, offered: bool) -> None:
        """Refuse, in A2A's own words, what the card does not offer (OP-05, CLI-58)."""
        if not offered:
            what = missing.name.removesuffix("_NOT_SUPPORTED").removesuffix("_NOT_CONFIGURED").replace("_", " ").lower()
            raise AgentError(f"The card does not offer this: {what}.", reason=missing)

    def debug(self, text: str) -> None:
        if self.settings.debug:
            tell(f"debug: {monotonic() - self.started:.3f} s: {text}")


def run(told: GivenSettings, work: Callable[[ConnectedAgent], Awaitable[None]]) -> None:
    """Connect and do the work, within the time that the command may take."""
    asyncio.run(_work(told, work))


async def _work(told: GivenSettings, work: Callable[[ConnectedAgent], Awaitable[None]]) -> None:
    async with calling(told) as calls, connected(told) as agent:
        calls.agent = agent
        await work(agent)


@dataclass(slots=True)
class CallsInTime:
    """What a failure is said with."""

    agent: ConnectedAgent | None = None


@asynccontextmanager
async def calling(told: GivenSettings) -> AsyncIterator[CallsInTime]:
    """Keep the time limit of the command, and say failed calls as the specification does."""
    calls, seconds = CallsInTime(), told.values.timeout
    try:
        async with asyncio.timeout(seconds):
            yield calls
    except TimeoutError:
        raise _timed_out(told, calls, f"there was no outcome within {seconds:g} s") from None
    except CallTimeoutError as error:
        raise _timed_out(told, calls, error.message) from None
    except CallError as error:
        raise failure_of(error, calls.agent, told) from None


def _timed_out(told: GivenSettings, calls: CallsInTime, message: str) -> CommandFailure:
    known = calls.agent.task_id if calls.agent else ""
    program, *flags = program_of(told)
    hint = (
        shlex.join([program, "task", "get", "--wait", *flags, known]) if known else "Give it more time with --timeout."
    )
    return CommandFailure(failures.TIMEOUT, message, hint=hint)


def program_of(told: GivenSettings) -> Sequence[str]:
    """Return the program, and the agent if it was given by a flag, which others would have to repeat."""
    given = ((f"--{name}", told.origins[name].text) for name in ("agent-card", "endpoint") if told.by_flag(name))
    return ["a2ad", *(word for pair in given for word in pair)]


@asynccontextmanager
async def connected(told: GivenSettings, found: FoundCard | None = None) -> AsyncIterator[ConnectedAgent]:
    settings = told.values
    seconds = settings.timeout or _CALL_SECONDS
    found = found or await find_card(told)
    token = (
        ""
        if settings.bearer
        else await stored_token(found.url or settings.agent_card, found.card, insecure=settings.insecure)
    )
    credentials = CallerCredentials(bearer=settings.bearer or token, api_key=settings.api_key)
    headers: dict[str, str] = {}
    for name, value in settings.svc_param:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    async with connect(
        found,
        credentials=credentials,
        transports=settings.transport,
        version=settings.a2a_version or None,
        headers=headers,
        timeout=seconds,
        insecure=settings.insecure,
        on_wire=_show if settings.debug else None,
    ) as remote:
        text = TextPrinter(program_of(told), verbose=settings.verbose, history=settings.history is not None)
        printer = JsonPrinter() if settings.output == "json" else text
        agent = ConnectedAgent(told, remote, printer, program_of(told), credentials.secrets())
        agent.debug(f"calls {remote.interface.protocol_binding} {remote.interface.url} with A2A {remote.version}")
        for kind in remote.unused_credentials:
            if settings.bearer or kind != "bearer":
                tell(
                    f"Warning: no scheme of the card asks for --{kind.replace('_', '-')}, so it is not sent. "
                    "Headers that the card does not declare go with --svc-param"
                )
        yield agent


async def find_card(told: GivenSettings) -> FoundCard:
    """Fetch the public card, without credentials (OP-13)."""
    settings = told.values
    _warn(told)
    if settings.endpoint:
        return _card_for(settings)
    if not settings.agent_card:
        raise usage("no agent is named", "Name it with --agent-card, or in $A2ACLI_AGENT_CARD.")
    discovery = Discovery(
        timeout=settings.timeout or 60.0,
        network=Network(insecure=settings.insecure),
        on_wire=_show if settings.debug else None,
    )
    try:
        return await discovery.find(settings.agent_card)
    finally:
        await discovery.close()


def _card_for(settings: ClientSettings) -> FoundCard:
    """Make the card of an agent that has none to show."""
    if len(settings.transport) != 1:
        raise usage("--endpoint needs one --transport", "Such as: --transport jsonrpc")
    interface = pb.AgentInterface(
        url=settings.endpoint, protocol_binding=settings.transport[0], protocol_version=settings.a2a_version or "1.0"
    )
    capabilities = pb.AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True)
    return FoundCard(pb.AgentCard(supported_interfaces=[interface], capabilities=capabilities), {}, settings.endpoint)


def _warn(told: GivenSettings) -> None:
    for warning in told.warnings:
        tell(f"Warning: {warning}")
    if told.values.insecure:
        tell("Warning: --insecure: TLS certificates are not checked")
        if told.values.bearer or told.values.api_key:
            tell("WARNING: A CREDENTIAL IS SENT TO AN AGENT WHOSE CERTIFICATE IS NOT CHECKED")


def _show(message: WireMessage) -> None:
    """Write a raw message, whose secrets are masked already."""
    arrow = ">" if message.direction == "sent" else "<"
    tell(f"debug: {arrow} {message.what}")
    for name, value in message.headers.items():
        tell(f"debug: {arrow}   {name}: {value}")
    if message.body:
        tell(f"debug: {arrow}   {message.body}")


def failure_of(error: CallError, agent: ConnectedAgent | None, told: GivenSettings) -> CommandFailure:
    """Say a failed call as the specification does."""
    card = agent.remote.card if agent else None
    code = _CODES.get(type(error), "")
    if not code:
        named = error.reason is not None and (error.reason.is_a2a or error.reason in _NAMED)
        code = error.name if named else failures.INTERNAL
    failure = CommandFailure(code, error.message, hint=_hint(code, card, told), a2a_code=error.code)
    failure.secrets = agent.secrets if agent else ()
    return failure


def _hint(code: str, card: pb.AgentCard | None, told: GivenSettings) -> str:
    """Name the next step; nothing where there is none to name."""
    program, *flags = program_of(told)
    words = shlex.join(flags)
    match code:
        case failures.CARD_NOT_FOUND:
            return "Give the host or origin of the agent, the URL of its card, or the path of a card file."
        case failures.UNREACHABLE:
            return "Check the address and the network. For a certificate of your own, --insecure helps in development."
        case failures.CREDENTIALS_MISSING | failures.AUTH_FAILED:
            return _how_to_log_in(card, f"{program} auth login {words}".strip())
        case "VersionNotSupportedError":
            return f"See the versions of its interfaces with {program} card get {words}; choose with --a2a-version."
        case "UnsupportedOperationError" | "PushNotificationNotSupportedError" | "ExtendedAgentCardNotConfiguredError":
            return f"See what the agent offers: {program} card get {words}".strip()
    return "Run it again with --debug to see the messages." if not code.startswith("A2ACLI_") else ""


def _how_to_log_in(card: pb.AgentCard | None, login: str) -> str:
    kinds = {scheme.WhichOneof("scheme") for scheme in card.security_schemes.values()} if card else set()
    ways = []
    if kinds & {"oauth2_security_scheme", "open_id_connect_security_scheme"}:
        ways.append(login)
    if kinds & {"http_auth_security_scheme", "oauth2_security_scheme", "open_id_connect_security_scheme"}:
        ways.append("set A2ACLI_BEARER")
    if "api_key_security_scheme" in kinds:
        ways.append("set A2ACLI_API_KEY")
    return "; or ".join(ways) or "Set A2ACLI_BEARER or A2ACLI_API_KEY."


def on_terminal() -> bool:
    """Whether a person sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()
