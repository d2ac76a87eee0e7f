"""What a command was given: flags over environment over file, with errors for the terminal (spec: OPER-05)."""

from __future__ import annotations

from typing import Any, Final

import click

from a2a_server.settings import SettingsError, load
from a2a_server.settings.sources import Loaded

CONFIG_HELP: Final = "Settings file (TOML); otherwise $A2A_CONFIG, or a2ad.toml if it is here."


class Unusable(click.ClickException):
    """The server was told something it cannot work with."""

    exit_code = 2


def settings_from(flags: dict[str, Any], path: str | None) -> Loaded:
    """Read the settings; flags that are None were not given."""
    try:
        return load(_given(flags), config=path)
    except SettingsError as error:
        raise Unusable(str(error)) from None


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    found = {name: _given(value) if isinstance(value, dict) else value for name, value in flags.items()}
    return {name: value for name, value in found.items() if value not in (None, {})}
