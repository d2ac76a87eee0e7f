"""Calls of older versions, which have become calls of 1.0: made, answered, complained of in the client's words.

0.3 has some calls that 1.0 has no such call for (spec: LRPC-06, LCRD-05, ERRS-05, CONF-38, CONF-39).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from aiohttp import web
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from multidict import MultiMapping, istr

from a2a_gateway.calls import NOTHING, Beside, Calls, Query, Told
from a2a_gateway.errors import failure_of
from a2a_gateway.http.frames import Frames
from a2a_gateway.http.streams import StreamReply
from a2a_gateway.upstream import CallContext, Upstream, UpstreamAnswer
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason, StatusError, Violation, deadline_exceeded, refuse
from a2a_server.protocol.names import EXTENSIONS_HEADER, MEMBERS_URI, OLD_EXTENSIONS_HEADER, SCHEMES
from a2a_server.protocol.v0_3.configs import JsonObject
from a2a_server.protocol.v0_3.extras import KINDS, MEMBER
from a2a_server.protocol.v0_3.words import Words, retold

RPCS: Final[Mapping[str, MethodDescriptor]] = pb.DESCRIPTOR.services_by_name["A2AService"].methods_by_name
"""Those of 1.0."""
SENDS: Final = frozenset({"SendMessage", "SendStreamingMessage"})
CREATE: Final = "CreateTaskPushNotificationConfig"

_TENANT: Final = "tenant"
_CONFIG_NAMES: Final = "pushNotificationConfig", "push_notification_config", "pushNotification", "push_notification"
_CONFIGS: Final = frozenset(_CONFIG_NAMES)
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]*").fullmatch
_LIST: Final = RPCS["ListTaskPushNotificationConfigs"]
_PAGE: Final = 100
_MOST_PAGES: Final = 100


class Ask(NamedTuple):
    """A call of 0.3, having become one of 1.0."""

    request: web.BaseRequest
    query: Query
    method: MethodDescriptor
    message: Any
    beside: Beside = NOTHING
    path: Words | None = None
    """What its fields are called, where that depends on the request."""


EXTENSIONS: Final = istr(OLD_EXTENSIONS_HEADER), istr(EXTENSIONS_HEADER)
"""The headers for extensions, 0.3's own first."""

Answering = Callable[["Speech", Ask], Awaitable[Told]]


@dataclass(frozen=True, slots=True, eq=False)
class Speech:
    """One way to speak 0.3, at work."""

    calls: Calls
    paths: Mapping[str, Words]
    """What fields of 1.0 are called here, by the RPC; where nothing is said, as in 1.0."""
    card: Callable[[pb.AgentCard], bytes]
    """Writes cards."""
    otherwise: Mapping[str, Answering]
    """What answers for RPCs of 1.0 that a plain call would not do for."""

    async def answer(self, ask: Ask) -> Told:
        try:
            return await self.otherwise.get(ask.method.name, _plainly)(self, ask)
        except (A2AError, StatusError) as error:
            raise self._respelled(error, ask) from None

    async def stream(self, ask: Ask, frames: Frames) -> StreamReply:
        try:
            return await self.calls.stream(
                ask.request, ask.query, ask.method, ask.message, frames=frames, beside=ask.beside
            )
        except (A2AError, StatusError) as error:
            raise self._respelled(error, ask) from None

    def _respelled(self, error: A2AError | StatusError, ask: Ask) -> A2AError | StatusError:
        said = self.calls.profile.words
        return error if said is None else retold(error, said, ask.path or self.paths.get(ask.method.name))


class Speeches(NamedTuple):
    """One spelling, with and without the members that one source alone has."""

    plain: Speech
    extras: Speech

    def of(self, request: web.BaseRequest, message: Any, value: Any) -> Speech:  # noqa: ANN401 - a request of any type
        """What the client reads: the extras, if it has used them in the JSON of its request or asks for them (XTRA-01).

        To name the extension, or to use what it is carried by, means just that: official clients read nothing else.
        """
        if isinstance(message, pb.SendMessageRequest) and _uses_extras(value):
            return self.extras
        return self.extras if _asks_for_extras(request.headers) else self.plain


def _asks_for_extras(headers: MultiMapping[str]) -> bool:
    listed = (uris.split(",") for name in EXTENSIONS for uris in headers.getall(name, ()))
    return any(MEMBERS_URI in map(str.strip, uris) for uris in listed)


def _uses_extras(send: JsonObject) -> bool:
    """Whether a sound send makes such a request, or has parts of tools in a shape of their own."""
    message = send.get("message") or {}
    return message.get(MEMBER) is not None or any(part.get("kind") in KINDS for part in message.get("parts") or ())


async def _plainly(speech: Speech, ask: Ask) -> Told:
    return await speech.calls.unary(ask.request, ask.query, ask.method, ask.message, beside=ask.beside)


async def _one_config(speech: Speech, ask: Ask) -> Told:
    """0.3 need not say which one (LRPC-06)."""
    calls, asked = speech.calls, ask.message
    if asked.id:
        return await _plainly(speech, ask)
    wanted = pb.ListTaskPushNotificationConfigsRequest(tenant=asked.tenant, task_id=asked.task_id, page_size=1)
    answer = await calls.upstream.unary(_LIST, wanted, calls.context(ask.request, ask.query))
    configs = cast("pb.ListTaskPushNotificationConfigsResponse", answer.message).configs
    if not configs:
        raise A2AError(Reason.TASK_NOT_FOUND, "The task has no push notification config.")
    return _told(calls, ask, configs[0], answer)


async def _all_configs(speech: Speech, ask: Ask) -> Told:
    """All at once, unless a page is asked for by its size (wire-0.3, 1)."""
    calls = speech.calls
    if ask.message.page_size:
        return await _plainly(speech, ask)
    context, whole = calls.context(ask.request, ask.query), pb.ListTaskPushNotificationConfigsResponse()
    try:
        answer = await asyncio.wait_for(_collect(calls.upstream, ask.message, context, whole), context.timeout)
    except TimeoutError:
        raise deadline_exceeded(context.timeout or 0) from None
    return _told(calls, ask, whole, answer)


async def _collect(
    upstream: Upstream,
    first: pb.ListTaskPushNotificationConfigsRequest,
    context: CallContext,
    whole: pb.ListTaskPushNotificationConfigsResponse,
) -> UpstreamAnswer:
    """Put the configs of all pages into one list; return the last answer."""
    wanted = pb.ListTaskPushNotificationConfigsRequest()
    wanted.CopyFrom(first)
    wanted.page_size = _PAGE
    for _ in range(_MOST_PAGES):
        answer = await upstream.unary(_LIST, wanted, context)
        page = cast("pb.ListTaskPushNotificationConfigsResponse", answer.message)
        whole.configs.extend(page.configs)
        wanted.page_token = page.next_page_token
        if not wanted.page_token:
            return answer
    raise A2AError(Reason.INVALID_AGENT_RESPONSE, f"The list has more than {_MOST_PAGES} pages.")


async def _card(speech: Speech, ask: Ask) -> Told:
    """A card that is not declared is, in 0.3, one that is not configured (LCRD-05)."""
    calls = speech.calls
    try:
        answer = await calls.upstream.unary(ask.method, ask.message, calls.context(ask.request, ask.query))
    except (A2AError, StatusError) as error:
        if failure_of(error).reason is Reason.UNSUPPORTED_OPERATION:
            text = "The agent has no card for callers with credentials."
            raise A2AError(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED, text) from None
        raise
    card = calls.cards.with_doors(cast("pb.AgentCard", answer.message), calls.proxies.base(ask.request))
    return Told(speech.card(card), card, calls.fields(ask.request, answer))


def _told(calls: Calls, ask: Ask, message: Message, answer: UpstreamAnswer) -> Told:
    """A message made of answers, the last of which says what goes with it."""
    return Told(calls.profile.codec.encode(message), message, calls.fields(ask.request, answer))


OTHERWISE: Final[Mapping[str, Answering]] = MappingProxyType(
    {
        "GetTaskPushNotificationConfig": _one_config,
        "ListTaskPushNotificationConfigs": _all_configs,
        "GetExtendedAgentCard": _card,
    }
)
"""By the RPC of 1.0."""


# -- what a request of 1.0 has no member for


def without_tenant(query: Query, tenant: str) -> Query:
    """What else a query says; one that names another tenant than the path is refused.

    To ignore it would be to make the call in somebody else's space.
    """
    said = [text for name, text in query if name == _TENANT]
    if not said:
        return query
    if any(text not in {"", tenant} for text in said):
        refuse([Violation(_TENANT, "is A2A 1.0's in the query; 0.3 has it in the path, as in /{tenant}/v1/tasks")])
    return [(name, text) for name, text in query if name != _TENANT]


def schemes_of(rpc: str, value: Any) -> Beside:  # noqa: ANN401 - JSON
    """What the push config in a request offers; the codec has found the JSON sound."""
    if rpc in SENDS:
        return _offered(value.get("configuration") or {}, "configuration.")
    if rpc != CREATE:
        return NOTHING
    inner = value.get("config")
    return _offered(inner if isinstance(inner, dict) and _CONFIGS.isdisjoint(value) else value, "")


def _offered(holder: Mapping[str, Any], prefix: str) -> Beside:
    if _CONFIGS.isdisjoint(holder):
        return NOTHING
    name = next((name for name in _CONFIG_NAMES if holder.get(name)), "")
    listed: Sequence[str] = ((holder.get(name) or {}).get("authentication") or {}).get("schemes") or ()
    if len(listed) < 2:  # noqa: PLR2004 - one is in the request
        return NOTHING
    for index, scheme in enumerate(listed):
        if not _TOKEN(scheme):  # a comma would make two of one
            field = f"{prefix}{name}.authentication.schemes[{index}]"
            refuse([Violation(field, "must be the name of an HTTP authentication scheme, such as Bearer")])
    return {SCHEMES: (",".join(listed),)}
