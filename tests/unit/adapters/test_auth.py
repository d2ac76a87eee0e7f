"""Callers known by secrets from the settings."""

import asyncio
import hashlib

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.authenticator import Caller, Credentials
from tests.support.house import (
    A2AError,
    Anonymous,
    KeyPlace,
    ListedSecrets,
    Reason,
    Schemes,
    Secret,
    api_key_scheme,
    bearer_scheme,
    by_secrets,
)

ANN = Caller("ann", authenticated=True)
HEADER = KeyPlace("header", "x-api-key")
BOB = Caller("bob", authenticated=True, tenant="north", extended_card=True)


def secret(text: str, caller: Caller) -> Secret:
    return Secret(hashlib.sha256(text.encode()).digest(), caller)


AUTHENTICATOR = by_secrets(
    tokens=[secret("ann-token", ANN), secret("bob-token", BOB)],
    api_keys=[secret("ann-key", ANN)],
    header="X-API-Key",
)


def credentials(**metadata: str | tuple[str, ...]) -> Credentials:
    lines = {name.replace("_", "-"): (value,) if isinstance(value, str) else value for name, value in metadata.items()}
    return Credentials(lines)


@pytest.mark.req("AUTN-03")
@pytest.mark.parametrize(
    ("presented", "caller"),
    [
        (credentials(authorization="Bearer ann-token"), ANN),
        (credentials(authorization="bearer  ann-token "), ANN),  # schemes compare case-insensitively
        (credentials(authorization="Bearer bob-token"), BOB),
        (credentials(x_api_key="ann-key"), ANN),
        (credentials(authorization="Bearer ann-token", x_api_key="ann-key"), ANN),
    ],
)
async def test_a_good_credential_names_its_caller(presented: Credentials, caller: Caller) -> None:
    assert await AUTHENTICATOR.authenticate(presented) == caller


@pytest.mark.parametrize(
    "presented",
    [
        credentials(),
        credentials(authorization=""),
        credentials(authorization="Bearer"),
        credentials(authorization="Bearer wrong"),
        credentials(authorization="Basic ann-token"),
        credentials(authorization="ann-token"),
        credentials(authorization="Bearer " + "x" * 100_000),
        credentials(authorization="Bearer ann-key"),  # a key is no token
        credentials(x_api_key="ann-token"),
        credentials(x_api_key=""),
        credentials(authorization="Bearer bob-token", x_api_key="ann-key"),  # they disagree
        credentials(authorization="Bearer ann-token", x_api_key="wrong"),
        credentials(authorization=("Bearer ann-token", "Bearer bob-token")),
    ],
)
async def test_every_refusal_is_the_same_but_for_wrong_tokens(presented: Credentials) -> None:
    with pytest.raises(A2AError) as caught:
        await AUTHENTICATOR.authenticate(presented)
    assert caught.value.reason is Reason.UNAUTHENTICATED
    assert caught.value.message == "The request needs valid credentials."
    challenge = caught.value.metadata["challenge"].replace(', error="invalid_token"', "")
    assert challenge == 'Bearer realm="a2a", ApiKey header="X-API-Key"'


@pytest.mark.req("AUTN-02", "GATE-06")
async def test_who_presents_a_wrong_token_is_told_so() -> None:
    schemes = Schemes([api_key_scheme(HEADER), bearer_scheme()], resource_metadata="https://x.example/meta")
    known = 'ApiKey header="x-api-key", Bearer realm="a2a", resource_metadata="https://x.example/meta"'
    for presented, more in ((credentials(), ""), (credentials(authorization="Bearer x"), ', error="invalid_token"')):
        with pytest.raises(A2AError) as caught:
            await schemes.authenticate(presented)
        assert caught.value.metadata == {"challenge": known + more}


@pytest.mark.req("AUTN-03")
async def test_who_was_proven_a_moment_ago_is_known_by_the_same_header_alone_and_not_for_long() -> None:
    listed = ListedSecrets([secret("ann-token", ANN)])
    schemes = Schemes([bearer_scheme(listed), api_key_scheme(HEADER)])
    good = credentials(authorization="Bearer ann-token")
    assert schemes.recent(good) is None
    assert await schemes.authenticate(good) == ANN
    assert schemes.recent(good) == ANN
    for other in (
        credentials(),
        credentials(authorization="Bearer ann-token "),
        credentials(authorization="Bearer wrong"),
        credentials(authorization=("Bearer ann-token", "Bearer ann-token")),
        credentials(authorization="Bearer ann-token", x_api_key="wrong"),
        good._replace(certificate=b"anybody's"),
    ):
        assert schemes.recent(other) is None
    listed.replace([])
    async with asyncio.timeout(30):
        while schemes.recent(good) is not None:  # noqa: ASYNC110 - nobody tells when it is forgotten
            await asyncio.sleep(0.05)
    with pytest.raises(A2AError):
        await schemes.authenticate(good)
    assert schemes.recent(good) is None


async def test_what_several_credentials_prove_together_is_not_remembered_by_one_of_them() -> None:
    both = credentials(authorization="Bearer ann-token", x_api_key="ann-key")
    schemes = by_secrets([secret("ann-token", ANN)], [secret("ann-key", ANN)])
    assert await schemes.authenticate(both) == ANN
    assert schemes.recent(both) is None
    assert schemes.recent(credentials(authorization="Bearer ann-token")) is None


async def test_so_many_are_remembered_and_no_more() -> None:
    schemes = by_secrets([secret(f"t{number}", ANN) for number in range(1_001)])
    calls = [credentials(authorization=f"Bearer t{number}") for number in range(1_001)]
    assert {(await schemes.authenticate(call)).owner for call in calls} == {"ann"}
    assert sum(schemes.recent(call) is not None for call in calls) <= 1_000


def test_the_card_declares_what_is_checked() -> None:
    card = AUTHENTICATOR.card
    assert card.schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
    assert card.schemes["apiKey"].api_key_security_scheme.name == "X-API-Key"
    assert card.schemes["apiKey"].api_key_security_scheme.location == "header"
    assert [list(alternative.schemes) for alternative in card.requirements] == [["bearer"], ["apiKey"]]


async def test_only_what_is_configured_is_declared_and_read() -> None:
    authenticator = by_secrets([secret("t", ANN)])
    assert list(authenticator.card.schemes) == ["bearer"]
    assert await authenticator.authenticate(credentials(authorization="Bearer t", x_api_key="ignored")) == ANN


def declared(*alternatives: tuple[str, ...]) -> Schemes:
    """Ann by tokens, both by API keys."""
    keys = [secret("ann-key", ANN), secret("bob-key", BOB)]
    tokens = ListedSecrets([secret("ann-token", ANN)])
    return Schemes([bearer_scheme(tokens), api_key_scheme(HEADER, ListedSecrets(keys))], alternatives)


@pytest.mark.parametrize(
    ("alternatives", "presented", "caller"),
    [
        ([("bearer", "apiKey")], credentials(authorization="Bearer ann-token", x_api_key="ann-key"), ANN),
        ([("bearer", "apiKey")], credentials(authorization="Bearer ann-token", x_api_key="bob-key"), ANN),
        ([("apiKey", "bearer")], credentials(authorization="Bearer ann-token", x_api_key="bob-key"), BOB),
        ([("bearer", "apiKey")], credentials(authorization="Bearer ann-token"), None),
        ([("bearer", "apiKey")], credentials(x_api_key="ann-key"), None),
        ([("bearer",), ("bearer", "apiKey")], credentials(authorization="Bearer ann-token", x_api_key="bob-key"), ANN),
        ([("bearer",), ("apiKey",)], credentials(authorization="Bearer ann-token", x_api_key="bob-key"), None),
        ([("bearer", "apiKey"), ("apiKey",)], credentials(x_api_key="bob-key"), BOB),
        ([("bearer",)], credentials(x_api_key="bob-key"), None),
    ],
)
async def test_alternatives_of_combinations(
    alternatives: list[tuple[str, ...]], presented: Credentials, caller: Caller | None
) -> None:
    schemes = declared(*alternatives)
    assert [set(either.schemes) for either in schemes.card.requirements] == [set(names) for names in alternatives]
    if caller is None:
        with pytest.raises(A2AError):
            await schemes.authenticate(presented)
    else:
        assert await schemes.authenticate(presented) == caller


async def test_without_authentication_everybody_is_anonymous() -> None:
    anonymous = Anonymous()
    caller = await anonymous.authenticate(credentials(authorization="Bearer anything"))
    assert caller == Caller("anonymous")
    assert not anonymous.required
    assert pb.AgentCard(security_schemes=anonymous.card.schemes) == pb.AgentCard()
