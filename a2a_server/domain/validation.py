"""Checks requests: reports every fault at once, before anything happens (spec: GEN-03, ERRS-05, CTX-04, PUSH-04)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from google.protobuf.message import Message

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.checkers import required_violations
from a2a_server.domain.free_form import readable
from a2a_server.protocol.errors import Violation, refuse

MAX_ID: Final = 256
"""Characters of an id. Ids are keys of indexes, and at four bytes each they must fit into a page of any database."""
MAX_TENANT: Final = 256
MAX_URL: Final = 2_048
MAX_SECRET: Final = 4_096
"""Characters of a secret that is sent in a webhook's header."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]").search

MAX_PARTS: Final = 1_000
MAX_NAMES: Final = 100
"""Elements of lists of names: extensions, references, output modes."""
MAX_PAGE: Final = 100

_EARLIEST: Final = -62_135_596_800  # 0001-01-01, and below 9999-12-31: what Timestamp itself allows
_LATEST: Final = 253_402_300_799
_SECOND: Final = 1_000_000_000  # in nanoseconds

_Faults = list[Violation]


def may_exist(identifier: str) -> bool:
    """Whether a task or config can have this id. If not, it is not found, without asking the store."""
    return not text_fault(identifier, MAX_ID)


def check_send(request: pb.SendMessageRequest, *, tenant: str | None = None) -> None:
    """`tenant` is the one that the call belongs to, where the request need not name it."""
    message = request.message  # each access makes a new Python object
    if len(message.parts) > MAX_PARTS:  # which would take long to look at
        refuse([Violation("message.parts", f"must have at most {MAX_PARTS} elements, got {len(message.parts)}")])
    faults = _begin(request, request.tenant)
    _check_message(message, faults)
    if request.HasField("configuration"):
        tenant = request.tenant if tenant is None else tenant
        _check_configuration(request.configuration, message.task_id, tenant, faults)
    _end(faults)


def is_plain(request: pb.SendMessageRequest) -> bool:
    """Whether this is a plain text message, as most are, which cannot have faults.

    If not, `check_send` and `check_content_types` must check it.
    """
    message = request.message
    parts = message.parts
    if len(parts) != 1 or message.role != pb.ROLE_USER or not is_name(message.message_id):
        return False
    part = parts[0]
    return not (
        not part.HasField("text")
        or part.media_type
        or part.HasField("metadata")
        or message.HasField("metadata")
        or ((context_id := message.context_id) and not is_name(context_id))
        or ((task_id := message.task_id) and not is_name(task_id))
        or message.extensions
        or message.reference_task_ids
        or request.tenant
        or (request.HasField("metadata") and not readable(request.metadata))
        or (request.HasField("configuration") and not _is_plain_configuration(request.configuration))
    )


def _is_plain_configuration(configuration: pb.SendMessageConfiguration) -> bool:
    return not (configuration.HasField("task_push_notification_config") or configuration.history_length < 0)


def _check_message(message: pb.Message, faults: _Faults) -> None:
    """An absent message passes here, because its absence is reported elsewhere."""
    if message.role == pb.ROLE_AGENT:
        faults.append(Violation("message.role", "must be ROLE_USER: only the agent speaks as ROLE_AGENT"))
    # Fields that most messages lack are checked only if present, which is cheaper.
    _text("message.message_id", message.message_id, faults)
    if context_id := message.context_id:
        _text("message.context_id", context_id, faults)
    if task_id := message.task_id:
        _text("message.task_id", task_id, faults)
    if extensions := message.extensions:
        _names("message.extensions", extensions, faults, MAX_URL)
    if references := message.reference_task_ids:
        _names("message.reference_task_ids", references, faults)


def _check_configuration(
    configuration: pb.SendMessageConfiguration, task_id: str, tenant: str, faults: _Faults
) -> None:
    if configuration.HasField("history_length"):
        _history("configuration.history_length", configuration.history_length, faults)
    if configuration.HasField("task_push_notification_config"):
        prefix = "configuration.task_push_notification_config."
        config = configuration.task_push_notification_config
        if config.task_id not in {"", task_id}:
            faults.append(Violation(f"{prefix}task_id", "must be absent or equal message.task_id"))
        _check_config(config, prefix, faults)
        if config.tenant not in {"", tenant}:  # a config belongs to its task, and with it to its tenant (TENA-03)
            faults.append(Violation(f"{prefix}tenant", "must be absent or equal the request's tenant"))


def check_request(request: Message, tenant: str) -> None:
    """Check what can be wrong with any request: its tenant, and what the schema demands."""
    _end(_begin(request, tenant))


def check_get(request: pb.GetTaskRequest) -> None:
    faults = _begin(request, request.tenant)
    if request.HasField("history_length"):
        _history("history_length", request.history_length, faults)
    _end(faults)


def check_list(request: pb.ListTasksRequest) -> None:
    faults = _begin(request, request.tenant)  # checks the states, too (LIST-16)
    _text("context_id", request.context_id, faults)
    _page_size(request.page_size, faults)
    if request.HasField("history_length"):
        _history("history_length", request.history_length, faults)
    since = request.status_timestamp_after
    if not (_EARLIEST <= since.seconds <= _LATEST and 0 <= since.nanos < _SECOND):
        faults.append(Violation("status_timestamp_after", "must lie between the years 1 and 9999"))
    _end(faults)


def check_push_create(config: pb.TaskPushNotificationConfig) -> None:
    faults = _begin(config, config.tenant)
    if not config.task_id:  # the schema does not require it, because an inline config has none (PUSH-14)
        faults.append(Violation("task_id", "is required"))
    _check_config(config, "", faults)
    _end(faults)


def check_push_list(request: pb.ListTaskPushNotificationConfigsRequest) -> None:
    faults = _begin(request, request.tenant)
    _page_size(request.page_size, faults)
    _end(faults)


# -- single rules; a function `…_fault` returns what is wrong, "" = nothing


def _begin(request: Message, tenant: str) -> _Faults:
    faults = required_violations(request)
    if tenant:
        _note("tenant", "must not contain a slash" if "/" in tenant else text_fault(tenant, MAX_TENANT), faults)
    return faults


def _end(faults: _Faults) -> None:
    if faults:
        refuse(faults)


def _note(field: str, complaint: str, faults: _Faults) -> None:
    if complaint:
        faults.append(Violation(field, complaint))


def _text(field: str, value: str, faults: _Faults, limit: int = MAX_ID) -> None:
    if value and (complaint := text_fault(value, limit)):
        faults.append(Violation(field, complaint))


def _names(field: str, values: Sequence[str], faults: _Faults, limit: int = MAX_ID) -> None:
    _count(field, len(values), MAX_NAMES, faults)
    for index, value in enumerate(values[:MAX_NAMES]):
        _text(f"{field}[{index}]", value, faults, limit)


def _count(field: str, count: int, limit: int, faults: _Faults) -> None:
    if count > limit:
        faults.append(Violation(field, f"must have at most {limit} elements, got {count}"))


def _history(field: str, length: int, faults: _Faults) -> None:
    if length < 0:
        faults.append(Violation(field, f"must not be negative, got {length}"))


def _page_size(size: int, faults: _Faults) -> None:
    """Protobuf clients write 0 for nothing, also where it has presence (CONF-79). JSON has no such excuse."""
    if not 0 <= size <= MAX_PAGE:
        faults.append(Violation("page_size", f"must lie in 1..{MAX_PAGE}, got {size}"))


def _check_config(config: pb.TaskPushNotificationConfig, prefix: str, faults: _Faults) -> None:
    _text(f"{prefix}id", config.id, faults)
    if config.url:
        _note(f"{prefix}url", url_fault(config.url), faults)
    _text(f"{prefix}token", config.token, faults, MAX_SECRET)
    _text(f"{prefix}authentication.scheme", config.authentication.scheme, faults)
    _text(f"{prefix}authentication.credentials", config.authentication.credentials, faults, MAX_SECRET)


def is_name(value: str) -> bool:
    """Whether this is surely a valid id. `text_fault` decides about the others."""
    return 0 < len(value) <= MAX_ID and value.isprintable()


def text_fault(value: str, limit: int) -> str:
    if len(value) > limit:
        return f"must have at most {limit} characters, got {len(value)}"
    # Nearly all names are printable, which is cheaper to see than a search.
    return "must not contain control characters" if not value.isprintable() and _CONTROL(value) else ""


def url_fault(value: str) -> str:
    """Syntax only. Whether the server may call it is decided elsewhere."""
    if complaint := text_fault(value, MAX_URL):
        return complaint
    return "" if _is_web_url(value) else "must be an absolute http or https URL"


def _is_web_url(value: str) -> bool:
    if " " in value:
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # invalid brackets or port
        return False
