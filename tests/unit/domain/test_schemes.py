"""Which scheme a webhook is authorized with (spec: CONF-34, HOOK-03)."""

from __future__ import annotations

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.domain.webhooks import choose_scheme, is_served


@pytest.mark.req("LPSH-02")
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Basic", "ApiKey", "x-acme.v1", "DigestLike"])
def test_fixed_credentials_suffice_for_a_receivers_own_schemes(scheme: str) -> None:
    assert is_served(scheme)


@pytest.mark.req("LPSH-02")
@pytest.mark.parametrize(
    "scheme", ["Digest", "DIGEST", "negotiate", "DPoP", "SCRAM-SHA-256", "a b", "", "é", "a:", "a\n"]
)
def test_what_is_challenged_or_no_name_cannot_be_served(scheme: str) -> None:
    assert not is_served(scheme)


@pytest.mark.req("LPSH-02")
@pytest.mark.parametrize(
    ("said", "offered", "chosen"),
    [
        ("Bearer", (), "Bearer"),
        ("Digest", ("Digest", "Basic", "Bearer"), "Basic"),
        ("Bearer", ("Basic", "Bearer"), "Basic"),  # the client's order, whatever its door took for the first
    ],
)
def test_the_first_that_can_be_served_is_chosen(said: str, offered: tuple[str, ...], chosen: str) -> None:
    config = pb.TaskPushNotificationConfig(authentication=pb.AuthenticationInfo(scheme=said))
    choose_scheme(config, offered)
    assert config.authentication.scheme == chosen
