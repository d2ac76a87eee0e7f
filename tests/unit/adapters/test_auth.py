"""Callers known by secrets from the settings."""

import hashlib

import pytest

from a2a_proto import a2a_pb2 as pb
from a2a_server.ports.authenticator import Caller, Credentials
from tests.support.house import A2AError, Anonymous, Reason, Secret, StaticAuthenticator

ANN = Caller("ann", authenticated=True)
BOB = Caller("bob", authenticated=True, tenant="north", extended_card=True)


def secret(text: str, caller: Caller) -> Secret:
    return Secret(hashlib.sha256(text.encode()).digest(), caller)


AUTHENTICATOR = StaticAuthenticator(
    tokens=[secret("ann-token", ANN), secret("bob-token", BOB)],
    api_keys=[secret("ann-key", ANN)],
    api_key_header="X-API-Key",
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
async def test_every_refusal_is_the_same(presented: Credentials) -> None:
    with pytest.raises(A2AError) as caught:
        await AUTHENTICATOR.authenticate(presented)
    assert caught.value.reason is Reason.UNAUTHENTICATED
    assert caught.value.message == "The request needs valid credentials."
    assert caught.value.metadata == {"challenge": 'Bearer realm="a2a", ApiKey header="X-API-Key"'}


def test_the_card_declares_what_is_checked() -> None:
    card = AUTHENTICATOR.card
    assert card.schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
    assert card.schemes["apiKey"].api_key_security_scheme.name == "X-API-Key"
    assert card.schemes["apiKey"].api_key_security_scheme.location == "header"
    assert [list(alternative.schemes) for alternative in card.requirements] == [["bearer"], ["apiKey"]]


async def test_only_what_is_configured_is_declared_and_read() -> None:
    authenticator = StaticAuthenticator(tokens=[secret("t", ANN)], api_keys=[], api_key_header="x-api-key")
    assert list(authenticator.card.schemes) == ["bearer"]
    assert await authenticator.authenticate(credentials(authorization="Bearer t", x_api_key="ignored")) == ANN


async def test_without_authentication_everybody_is_anonymous() -> None:
    anonymous = Anonymous()
    caller = await anonymous.authenticate(credentials(authorization="Bearer anything"))
    assert caller == Caller("anonymous")
    assert not anonymous.required
    assert pb.AgentCard(security_schemes=anonymous.card.schemes) == pb.AgentCard()
