"""The blocks of docs/authentication.md are settings that work."""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from a2a_server.settings import Settings
from a2a_server.settings.auth import Auth

PAGE = Path(__file__).parents[2] / "docs" / "authentication.md"
ALL = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
BLOCKS = [block for block in ALL if "[[auth.issuers]]" in block or "[[auth.introspection]]" in block]


@pytest.mark.req("GATE-11")
@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_can_be_copied(block: str) -> None:
    (source,) = Settings(**tomllib.loads(block)).auth.sources
    assert source.audiences


def test_every_preset_has_a_block() -> None:
    text = "".join(BLOCKS)
    assert all(f'preset = "{name}"' in text for name in ("keycloak", "entra", "auth0", "okta", "cognito", "google"))


SCHEMES: Mapping[str, Callable[[Settings], object]] = {
    "tokens": lambda settings: settings.auth.tokens,
    "API keys in a header": lambda settings: settings.auth.api_keys and not elsewhere(settings.auth),
    "API keys in the query": lambda settings: settings.auth.api_keys and settings.auth.api_key_query,
    "API keys in a cookie": lambda settings: settings.auth.api_keys and settings.auth.api_key_cookie,
    "API keys in the store": lambda settings: settings.auth.stored_keys,
    "passwords": lambda settings: settings.auth.passwords,
    "combinations": lambda settings: settings.auth.require,
    "signed tokens": lambda settings: settings.auth.issuers,
    "opaque tokens": lambda settings: settings.auth.introspection,
    "client certificates": lambda settings: settings.auth.certificates and settings.tls.client_ca,
    "a proxy": lambda settings: settings.auth.proxy.owner_header,
    "certificates from a proxy": lambda settings: settings.auth.proxy.certificate_header,
}
"""Every way to prove who calls, and how to tell that settings use it."""


def elsewhere(auth: Auth) -> bool:
    return bool(auth.api_key_query or auth.api_key_cookie)


@pytest.mark.req("GATE-01")
@pytest.mark.parametrize("used", SCHEMES.values(), ids=SCHEMES)
def test_every_scheme_has_a_block_that_is_taken(used: Callable[[Settings], object]) -> None:
    assert any(used(Settings(**tomllib.loads(block))) for block in ALL)


@pytest.mark.req("GATE-01")
@pytest.mark.parametrize("block", ALL)
def test_every_block_is_taken(block: str) -> None:
    assert Settings(**tomllib.loads(block)).auth.knows_callers or "[upstream]" in block
