"""Whatever a caller sends as a cursor is either what we made, or a validation error."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from a2a_server.domain.paging import Position, TaskFilter, seal, seal_after, unseal, unseal_after
from a2a_server.domain.scope import Scope
from a2a_server.protocol.errors import A2AError, Reason

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
