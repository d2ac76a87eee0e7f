"""Opaque page cursors, bound to the caller and the filters they were issued for (spec: LIST-04, LIST-15).

A cursor is base64url(MAC ‖ position). The MAC covers the list, the caller, the filters and the position. So a cursor of
another caller, list or filter is refused like a random text.
"""

from __future__ import annotations

import base64
import hmac
from hashlib import blake2b
from typing import Final, NamedTuple, NoReturn

from a2a_server.domain.scope import Scope
from a2a_server.protocol.errors import Violation, refuse

MAX_TOKEN: Final = 2_000
_MAC_SIZE: Final = 16
_TIME_SIZE: Final = 8


class TaskFilter(NamedTuple):
    """What a list asks for; every member that is set narrows the result (LIST-02, LIST-03)."""

    context_id: str = ""
    state: int = 0
    since_ms: int | None = None


class Position(NamedTuple):
    """A place in the order of lists: status time newest first, then task id, greatest first (LIST-05, LIST-06)."""

    status_ms: int
    task_id: str


def seal(secret: bytes, scope: Scope, filter: TaskFilter, position: Position) -> str:  # noqa: A002 - the list's word
    """The cursor of the page after `position`."""
    place = position.status_ms.to_bytes(_TIME_SIZE, signed=True) + _bytes(position.task_id)
    return _seal(secret, _task_list(scope, filter), place)


def unseal(secret: bytes, scope: Scope, filter: TaskFilter, token: str) -> Position:  # noqa: A002 - as above
    """The position inside a cursor. Refuses every other token, without saying why."""
    place = _unseal(secret, _task_list(scope, filter), token)
    return Position(int.from_bytes(place[:_TIME_SIZE], signed=True), _text(place[_TIME_SIZE:]))


def seal_after(secret: bytes, scope: Scope, task_id: str, last_id: str) -> str:
    """The cursor of the push configs of a task after `last_id`."""
    return _seal(secret, _config_list(scope, task_id), _bytes(last_id))


def unseal_after(secret: bytes, scope: Scope, task_id: str, token: str) -> str:
    """The id inside a cursor of `seal_after`, or the same refusal as `unseal`."""
    return _text(_unseal(secret, _config_list(scope, task_id), token))


def _task_list(scope: Scope, filter: TaskFilter) -> tuple[str, ...]:  # noqa: A002 - as above
    return ("tasks", scope.tenant, scope.owner, filter.context_id, str(filter.state), str(filter.since_ms))


def _config_list(scope: Scope, task_id: str) -> tuple[str, ...]:
    return ("configs", scope.tenant, scope.owner, task_id)


def _seal(secret: bytes, which: tuple[str, ...], place: bytes) -> str:
    return base64.urlsafe_b64encode(_mac(secret, which, place) + place).rstrip(b"=").decode()


def _unseal(secret: bytes, which: tuple[str, ...], token: str) -> bytes:
    if len(token) > MAX_TOKEN:
        _refuse()
    try:
        sealed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError:
        _refuse()
    place = sealed[_MAC_SIZE:]
    # Compare tokens, not MACs: base64 has several spellings for the same bytes, and only ours is accepted.
    if not hmac.compare_digest(token, _seal(secret, which, place)):
        _refuse()
    return place


def _mac(secret: bytes, which: tuple[str, ...], place: bytes) -> bytes:
    digest = blake2b(key=secret, digest_size=_MAC_SIZE)
    for member in (*map(_bytes, which), place):
        digest.update(len(member).to_bytes(4))  # with the lengths, no two lists of members give the same bytes
        digest.update(member)
    return digest.digest()


def _bytes(text: str) -> bytes:
    # An owner's name comes from outside and may be invalid Unicode. It only has to differ from other names.
    return text.encode(errors="surrogatepass")


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogatepass")


def _refuse() -> NoReturn:
    text = "not a token of this list; use next_page_token of the previous answer with the same filters"
    refuse([Violation("page_token", text)])
