"""What the settings of common identity providers have in common, by name (spec: GATE-11)."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any, Final, Literal

Preset = Literal["", "oidc", "keycloak", "entra", "auth0", "okta", "cognito", "google"]

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "oidc": {"issuer": "{issuer}"},
    "keycloak": {
        "issuer": "{issuer}",
        "scope_claims": ["scope", "realm_access.roles"],
        "required_claims": {"typ": ["Bearer"]},  # its ID tokens and refresh tokens have the same issuer and keys
        "authorization_url": "{issuer}/protocol/openid-connect/auth",
        "token_url": "{issuer}/protocol/openid-connect/token",
        "device_authorization_url": "{issuer}/protocol/openid-connect/auth/device",
    },
    "entra": {
        "issuer": "https://login.microsoftonline.com/{tenant_id}/v2.0",
        "issuer_aliases": ["https://sts.windows.net/{tenant_id}/"],  # the `iss` of its tokens of version 1
        "scope_claims": ["scp", "roles"],
        "authorization_url": "https://login.microsoftonline.com/{tenant_id}/oauth2/v2.0/authorize",
        "token_url": "https://login.microsoftonline.com/{tenant_id}/oauth2/v2.0/token",
        "device_authorization_url": "https://login.microsoftonline.com/{tenant_id}/oauth2/v2.0/devicecode",
    },
    "auth0": {
        "issuer": "https://{domain}/",
        "scope_claims": ["scope", "permissions"],
        "authorization_url": "https://{domain}/authorize",
        "token_url": "https://{domain}/oauth/token",
        "device_authorization_url": "https://{domain}/oauth/device/code",
    },
    "okta": {
        "issuer": "https://{domain}/oauth2/{authorization_server}",
        "scope_claims": ["scp"],
        "authorization_url": "https://{domain}/oauth2/{authorization_server}/v1/authorize",
        "token_url": "https://{domain}/oauth2/{authorization_server}/v1/token",
        "device_authorization_url": "https://{domain}/oauth2/{authorization_server}/v1/device/authorize",
    },
    "cognito": {
        "issuer": "https://cognito-idp.{region}.amazonaws.com/{user_pool_id}",
        "audience_claim": "client_id",  # its access tokens have no `aud`
        "required_claims": {"token_use": ["access"]},
        "scope_claims": ["scope", "cognito:groups"],
    },
    "google": {
        "issuer": "https://accounts.google.com",
        "issuer_aliases": ["accounts.google.com"],
        "authorization_url": "https://accounts.google.com/o/oauth2/v2/auth",
        "token_url": "https://oauth2.googleapis.com/token",
        "device_authorization_url": "https://oauth2.googleapis.com/device/code",
    },
}
NEEDS: Final = ("issuer", "tenant_id", "domain", "authorization_server", "user_pool_id")
"""What some preset needs to be told."""


def with_preset(given: Mapping[str, Any]) -> dict[str, Any]:
    """Add what the preset knows; what is given itself counts. Raises a `ValueError` that names what is missing."""
    name = given.get("preset")
    if not name or name not in PRESETS:  # which the type refuses
        return dict(given)
    told = {"authorization_server": "default"} | {key: str(given[key]) for key in NEEDS if given.get(key)}
    told["region"] = told.get("user_pool_id", "").partition("_")[0]
    known = PRESETS[name]
    needed = {field for _, field, _, _ in Formatter().parse(known["issuer"]) if field} - {"region"}
    if missing := sorted(field for field in needed if not told.get(field)):
        raise ValueError(f"the preset {name} needs {' and '.join(missing)}")
    return {**{key: _filled(value, told) for key, value in known.items()}, **given}


def _filled(value: Any, told: Mapping[str, str]) -> Any:  # noqa: ANN401 - a setting of any type
    if isinstance(value, str):
        return value.format_map(told)
    return [_filled(item, told) for item in value] if isinstance(value, list) else value
