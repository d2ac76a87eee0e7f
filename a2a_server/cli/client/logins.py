"""Tokens of `auth login`, kept in a file that only the user can read (spec: CLI-09, CLI-56)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from a2a_proto import a2a_pb2 as pb
from a2a_server.cli.client.failures import AUTH_FAILED, CommandFailure
from a2a_server.cli.client.output import tell
from a2a_server.cli.client.sources import folder

_MARGIN: Final = 30.0
"""A token that expires within these seconds counts as expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogin:
    """What an authorization server has given for one agent."""

    scheme: str
    access_token: str
    token_url: str
    client_id: str
    expires_at: float = 0.0
    """0 = unknown."""
    refresh_token: str = ""

    @property
    def is_fresh(self) -> bool:
        return not self.expires_at or time.time() < self.expires_at - _MARGIN


def logins_file() -> Path:
    return folder() / "logins.json"


def stored_logins() -> Mapping[str, StoredLogin]:
    """Return every login by the URL of its agent's card."""
    try:
        held: Any = json.loads(logins_file().read_text("utf-8"))
        return {key: StoredLogin(**value) for key, value in held.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        tell(f"Warning: {logins_file()} cannot be read ({error}); log in again, or delete it")
        return {}


def store_login(card: str, login: StoredLogin) -> None:
    """Keep a login. The file is complete or as before, and nobody else can read it."""
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = {**stored_logins(), card: login}
    draft = logins_file().with_name(f"logins.{os.getpid()}.json")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        json.dump({key: asdict(value) for key, value in kept.items()}, file, indent=2)
    draft.replace(logins_file())


async def stored_token(card_url: str, card: pb.AgentCard, *, insecure: bool) -> str:
    """Return the token for an agent, renewed if need be; empty if there is none."""
    login = stored_logins().get(card_url) if logins_file().exists() else None
    if login is None or login.scheme not in card.security_schemes:
        return ""
    if login.is_fresh:
        return login.access_token
    if not login.refresh_token:
        tell("Warning: the login for this agent has expired; run a2ad auth login again")
        return ""
    from a2a_server.cli.client.oauth import token_of  # noqa: PLC0415 - rarely needed

    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": login.client_id}
    try:
        granted = await token_of(login.token_url, form, insecure=insecure)
    except CommandFailure as failure:
        if failure.code != AUTH_FAILED:
            raise
        tell(f"Warning: the login for this agent could not be renewed: {failure.message}; run a2ad auth login again")
        return ""
    renewed = replace(granted.login(login.scheme, login.token_url, login.client_id))
    store_login(card_url, replace(renewed, refresh_token=renewed.refresh_token or login.refresh_token))
    return renewed.access_token
