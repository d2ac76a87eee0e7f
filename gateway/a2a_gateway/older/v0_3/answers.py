"""Makes a 1.0 call for a client of an older version, and writes the answer or error in that version's form.

Some calls of 0.3 need more than one call of 1.0 (spec: LRPC-06, LCRD-05, ERRS-05, CONF-38, CONF-39).
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

from a2a_gateway.calls import NO_METADATA, Calls, ExtraMetadata, Query, UnaryResult
from a2a_gateway.errors import failure_of
from a2a_gateway.http.frames import Frames
from a2a_gateway.http.streams import StreamReply
from a2a_gateway.upstream import CallContext, Upstream, UpstreamAnswer
from a2a_proto import a2a_pb2 as pb
from a2a_server.protocol.errors import A2AError, Reason, StatusError, Violation, deadline_exceeded, refuse
from a2a_server.protocol.names import EXTENSIONS_HEADER, MEMBERS_URI, OLD_EXTENSIONS_HEADER, SCHEMES
from a2a_server.protocol.v0_3.configs import JsonObject
from a2a_server.protocol.v0_3.error_words import Words, translate_error
from a2a_server.protocol.v0_3.extras import KINDS, MEMBER

RPCS: Final[Mapping[str, MethodDescriptor]] = pb.DESCRIPTOR.services_by_name["A2AService"].methods_by_name
"""The RPCs of 1.0."""
SENDS: Final = frozenset({"SendMessage", "SendStreamingMessage"})
CREATE: Final = "CreateTaskPushNotificationConfig"

_TENANT: Final = "tenant"
_CONFIG_NAMES: Final = "pushNotificationConfig", "push_notification_config", "pushNotification", "push_notification"
_CONFIGS: Final = frozenset(_CONFIG_NAMES)
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]*").fullmatch
_LIST: Final = RPCS["ListTaskPushNotificationConfigs"]
_PAGE: Final = 100
_MOST_PAGES: Final = 100


class OldCall(NamedTuple):
    """A call of an older version, translated to 1.0."""

    request: web.BaseRequest
    query: Query
    method: MethodDescriptor
    message: Any
    extra_metadata: ExtraMetadata = NO_METADATA
    path: Words | None = None
    """Renames its fields for error messages, if that depends on the request."""


EXTENSIONS: Final = istr(OLD_EXTENSIONS_HEADER), istr(EXTENSIONS_HEADER)
"""The headers for extensions; that of 0.3 comes first."""

AnswerCall = Callable[["OldCalls", OldCall], Awaitable[UnaryResult]]


@dataclass(frozen=True, slots=True, eq=False)
class OldCalls:
    """Makes the calls of clients that use an older version in one spelling."""

    calls: Calls
    paths: Mapping[str, Words]
    """Renames fields of 1.0 for error messages, by RPC. The fields of other RPCs have the same names."""
    card: Callable[[pb.AgentCard], bytes]
    """Writes agent cards."""
    special: Mapping[str, AnswerCall]
    """Functions for the RPCs for which one plain call is not enough."""

    async def answer(self, call: OldCall) -> UnaryResult:
        try:
            return await self.special.get(call.method.name, _call)(self, call)
        except (A2AError, StatusError) as error:
            raise self._translated(error, call) from None

    async def stream(self, call: OldCall, frames: Frames) -> StreamReply:
        try:
            return await self.calls.stream(
                call.request, call.query, call.method, call.message, frames=frames, extra_metadata=call.extra_metadata
            )
        except (A2AError, StatusError) as error:
            raise self._translated(error, call) from None

    def _translated(self, error: A2AError | StatusError, call: OldCall) -> A2AError | StatusError:
        said = self.calls.profile.error_words
        return error if said is None else translate_error(error, said, call.path or self.paths.get(call.method.name))


class OldCallsPair(NamedTuple):
    """The calls of one spelling, with and without the members that only some clients of 0.3 use."""

    plain: OldCalls
    extras: OldCalls

    def of(self, request: web.BaseRequest, message: Any, value: Any) -> OldCalls:  # noqa: ANN401 - a request of any type
        """Choose by the request: with the extras if the client uses them or asks for them (XTRA-01).

        Only the URI of the extra members counts, not that of the extension that carries them in 1.0: official clients
        use that extension, and do not read the extra members.
        """
        if isinstance(message, pb.SendMessageRequest) and _uses_extras(value):
            return self.extras
        return self.extras if _asks_for_extras(request.headers) else self.plain


def _asks_for_extras(headers: MultiMapping[str]) -> bool:
    listed = (uris.split(",") for name in EXTENSIONS for uris in headers.getall(name, ()))
    return any(MEMBERS_URI in map(str.strip, uris) for uris in listed)


def _uses_extras(send: JsonObject) -> bool:
    """Whether a valid send has an input request, or tool parts, in the extra members."""
    message = send.get("message") or {}
    return message.get(MEMBER) is not None or any(part.get("kind") in KINDS for part in message.get("parts") or ())


async def _call(old_calls: OldCalls, call: OldCall) -> UnaryResult:
    return await old_calls.calls.unary(
        call.request, call.query, call.method, call.message, extra_metadata=call.extra_metadata
    )


async def _get_config(old_calls: OldCalls, call: OldCall) -> UnaryResult:
    """Get a push config. A client of 0.3 may leave out the id, and gets the first one (LRPC-06)."""
    calls, asked = old_calls.calls, call.message
    if asked.id:
        return await _call(old_calls, call)
    wanted = pb.ListTaskPushNotificationConfigsRequest(tenant=asked.tenant, task_id=asked.task_id, page_size=1)
    answer = await calls.upstream.unary(_LIST, wanted, calls.context(call.request, call.query))
    configs = cast("pb.ListTaskPushNotificationConfigsResponse", answer.message).configs
    if not configs:
        raise A2AError(Reason.TASK_NOT_FOUND, "The task has no push notification config.")
    return _result(calls, call, configs[0], answer)


async def _list_configs(old_calls: OldCalls, call: OldCall) -> UnaryResult:
    """List all push configs at once, unless the client asks for pages (wire-0.3, 1)."""
    calls = old_calls.calls
    if call.message.page_size:
        return await _call(old_calls, call)
    context, whole = calls.context(call.request, call.query), pb.ListTaskPushNotificationConfigsResponse()
    try:
        answer = await asyncio.wait_for(_collect(calls.upstream, call.message, context, whole), context.timeout)
    except TimeoutError:
        raise deadline_exceeded(context.timeout or 0) from None
    return _result(calls, call, whole, answer)


async def _collect(
    upstream: Upstream,
    first: pb.ListTaskPushNotificationConfigsRequest,
    context: CallContext,
    whole: pb.ListTaskPushNotificationConfigsResponse,
) -> UpstreamAnswer:
    """Collect the configs of all pages in `whole`; return the last answer."""
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


async def _get_card(old_calls: OldCalls, call: OldCall) -> UnaryResult:
    """Get the extended card. In 0.3, a card that is not declared is one that is not configured (LCRD-05)."""
    calls = old_calls.calls
    try:
        answer = await calls.upstream.unary(call.method, call.message, calls.context(call.request, call.query))
    except (A2AError, StatusError) as error:
        if failure_of(error).reason is Reason.UNSUPPORTED_OPERATION:
            text = "The agent has no card for callers with credentials."
            raise A2AError(Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED, text) from None
        raise
    told = cast("pb.AgentCard", answer.message)
    card = calls.cards.with_doors(told, calls.proxies.base(call.request), call.message.tenant)
    return UnaryResult(old_calls.card(card), card, calls.reply_headers(call.request, answer))


def _result(calls: Calls, call: OldCall, message: Message, answer: UpstreamAnswer) -> UnaryResult:
    """Return a message that was made from several answers, with the headers of the last one."""
    return UnaryResult(calls.profile.codec.encode(message), message, calls.reply_headers(call.request, answer))


SPECIAL_CALLS: Final[Mapping[str, AnswerCall]] = MappingProxyType(
    {
        "GetTaskPushNotificationConfig": _get_config,
        "ListTaskPushNotificationConfigs": _list_configs,
        "GetExtendedAgentCard": _get_card,
    }
)
"""`OldCalls.special` of 0.3, by the RPC of 1.0."""


# -- parts of a request that have no field in 1.0


def without_tenant(query: Query, tenant: str) -> Query:
    """Return the query without the tenant; raise an error if the query and the path name different tenants.

    Ignoring the query's tenant would make the call for another tenant.
    """
    said = [text for name, text in query if name == _TENANT]
    if not said:
        return query
    if any(text not in {"", tenant} for text in said):
        refuse([Violation(_TENANT, "is A2A 1.0's in the query; 0.3 has it in the path, as in /{tenant}/v1/tasks")])
    return [(name, text) for name, text in query if name != _TENANT]


def schemes_of(rpc: str, value: Any) -> ExtraMetadata:  # noqa: ANN401 - JSON
    """Return the schemes that a request's push config offers, as metadata. The codec has checked the JSON."""
    if rpc in SENDS:
        return _offered(value.get("configuration") or {}, "configuration.")
    if rpc != CREATE:
        return NO_METADATA
    inner = value.get("config")
    return _offered(inner if isinstance(inner, dict) and _CONFIGS.isdisjoint(value) else value, "")


def _offered(holder: Mapping[str, Any], prefix: str) -> ExtraMetadata:
    if _CONFIGS.isdisjoint(holder):
        return NO_METADATA
    name = next((name for name in _CONFIG_NAMES if holder.get(name)), None)
    if name is None:
        return NO_METADATA
    listed: Sequence[str] = (holder[name].get("authentication") or {}).get("schemes") or ()
    if len(listed) < 2:  # noqa: PLR2004 - a single one is a field of the request
        return NO_METADATA
    for index, scheme in enumerate(listed):
        if not _TOKEN(scheme):  # the list is joined with commas
            field = f"{prefix}{name}.authentication.schemes[{index}]"
            refuse([Violation(field, "must be the name of an HTTP authentication scheme, such as Bearer")])
    return {SCHEMES: (",".join(listed),)}
