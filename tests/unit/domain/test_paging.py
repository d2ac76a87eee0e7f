"""Cursors, and whose they are. Whatever a caller sends is one that we made, or a validation error."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from a2a_server.domain.paging import Position, TaskFilter, seal, seal_after, unseal, unseal_after
from a2a_server.domain.scope import Scope
from a2a_server.protocol.errors import A2AError, Reason

SECRET = bytes(range(32))
SCOPE = Scope("acme", "ann")
FILTER = TaskFilter("c", 2, 1_700_000_000_000)
POSITION = Position(1_700_000_000_123, "task-1")
TOKEN = seal(SECRET, SCOPE, FILTER, POSITION)


def refused(secret: bytes, scope: Scope, which: TaskFilter, token: str) -> None:
    with pytest.raises(A2AError) as caught:
        unseal(secret, scope, which, token)
    assert caught.value.reason is Reason.INVALID_PARAMS
    assert [violation.field for violation in caught.value.violations] == ["page_token"]
    assert caught.value.violations[0].description == (
        "not a token of this list; use next_page_token of the previous answer with the same filters"
    )


def test_a_cursor_leads_back() -> None:
    assert unseal(SECRET, SCOPE, FILTER, TOKEN) == POSITION
    assert unseal(SECRET, SCOPE, FILTER, seal(SECRET, SCOPE, FILTER, Position(-1, ""))) == Position(-1, "")


def test_a_cursor_fits_a_query_and_shows_no_secret() -> None:
    assert TOKEN.replace("-", "").replace("_", "").isalnum()
    assert len(TOKEN) < 80


@pytest.mark.req("LIST-15")
@pytest.mark.parametrize(
    "scope",
    [Scope("acme", "bob"), Scope("", "ann"), Scope("acmean", "n"), Scope("", ""), Scope("ann", "acme")],
    ids=str,
)
def test_cursors_of_others_are_refused(scope: Scope) -> None:
    refused(SECRET, scope, FILTER, TOKEN)


@pytest.mark.parametrize(
    "which",
    [FILTER._replace(context_id=""), FILTER._replace(state=3), FILTER._replace(since_ms=None), TaskFilter()],
    ids=str,
)
def test_cursors_of_other_filters_are_refused(which: TaskFilter) -> None:
    refused(SECRET, SCOPE, which, TOKEN)


def test_cursors_of_another_database_are_refused() -> None:
    refused(bytes(32), SCOPE, FILTER, TOKEN)


@pytest.mark.req("LIST-15")
@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "=",
        "AAAA",
        TOKEN[:-1],
        TOKEN[1:],
        TOKEN + "A",
        TOKEN + "=",
        TOKEN + "\n",
        " " + TOKEN,
        TOKEN.swapcase(),
        "ключ",
        "A" * 2_000,
        "A" * 2_001,
        "A" * 1_000_000,
    ],
    ids=lambda token: repr(token[:40]),
)
def test_malformed_cursors_are_refused(token: str) -> None:
    refused(SECRET, SCOPE, FILTER, token)


def test_cursors_of_push_configs() -> None:
    token = seal_after(SECRET, SCOPE, "t", "config-1")
    assert unseal_after(SECRET, SCOPE, "t", token) == "config-1"
    for scope, task_id in ((Scope("acme", "bob"), "t"), (SCOPE, "u")):
        with pytest.raises(A2AError):
            unseal_after(SECRET, scope, task_id, token)
    refused(SECRET, SCOPE, FILTER, token)
    with pytest.raises(A2AError):
        unseal_after(SECRET, SCOPE, "t", TOKEN)


def test_the_longest_id_fits_into_a_cursor() -> None:
    longest = "\U0001f600" * 256
    assert unseal(SECRET, SCOPE, FILTER, seal(SECRET, SCOPE, FILTER, Position(2**63 - 1, longest))).task_id == longest


def test_owners_need_not_be_sound_unicode() -> None:
    scope = Scope("", "\ud800")
    assert unseal(SECRET, scope, FILTER, seal(SECRET, scope, FILTER, POSITION)) == POSITION


SECRETS = st.binary(min_size=32, max_size=32)
SCOPES = st.builds(Scope, st.text(), st.text())
FILTERS = st.builds(TaskFilter, st.text(), st.integers(0, 8), st.none() | st.integers())
POSITIONS = st.builds(Position, st.integers(-(2**63), 2**63 - 1), st.text(max_size=256))
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/ "


@given(SECRETS, SCOPES, FILTERS, POSITIONS)
def test_round_trip(secret: bytes, scope: Scope, which: TaskFilter, position: Position) -> None:
    assert unseal(secret, scope, which, seal(secret, scope, which, position)) == position


@given(SECRETS, SCOPES, st.text(), st.text(max_size=256))
def test_round_trip_of_config_cursors(secret: bytes, scope: Scope, task_id: str, last_id: str) -> None:
    assert unseal_after(secret, scope, task_id, seal_after(secret, scope, task_id, last_id)) == last_id


@pytest.mark.req("LIST-15")
@given(SECRETS, st.text() | st.text(ALPHABET, max_size=100))
def test_nothing_else_ever_happens(secret: bytes, token: str) -> None:
    for attempt in (
        lambda: unseal(secret, Scope("", ""), TaskFilter(), token),
        lambda: unseal_after(secret, Scope("", ""), "t", token),
    ):
        with pytest.raises(A2AError) as caught:
            attempt()
        assert caught.value.reason is Reason.INVALID_PARAMS


@pytest.mark.req("LIST-15")
@given(SECRETS, SCOPES, SCOPES, FILTERS, FILTERS, POSITIONS)
def test_cursors_belong_to_their_list(  # noqa: PLR0913, PLR0917 - two lists
    secret: bytes, ours: Scope, theirs: Scope, which: TaskFilter, other: TaskFilter, position: Position
) -> None:
    assume((ours, which) != (theirs, other))
    token = seal(secret, ours, which, position)
    with pytest.raises(A2AError):
        unseal(secret, theirs, other, token)


@pytest.mark.req("LIST-15")
@given(SECRETS, POSITIONS, st.data())
def test_a_changed_character_is_noticed(secret: bytes, position: Position, data: st.DataObject) -> None:
    token = seal(secret, Scope("", ""), TaskFilter(), position)
    place = data.draw(st.integers(0, len(token) - 1))
    changed = token[:place] + data.draw(st.sampled_from(ALPHABET)) + token[place + 1 :]
    assume(changed != token)
    with pytest.raises(A2AError):
        unseal(secret, Scope("", ""), TaskFilter(), changed)
