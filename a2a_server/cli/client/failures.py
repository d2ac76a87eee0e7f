"""How a command fails: the error object, its text, and the exit code (spec: CLI-37 to CLI-42; OP-04)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final

import click

from a2a_server.cli.client.plain_text import one_line

USAGE: Final = "A2ACLI_ERR_USAGE"
INTERNAL: Final = "A2ACLI_ERR_INTERNAL"
CARD_INVALID: Final = "A2ACLI_ERR_CARD_INVALID"
CARD_NOT_FOUND: Final = "A2ACLI_ERR_CARD_NOT_FOUND"
UNREACHABLE: Final = "A2ACLI_ERR_UNREACHABLE"
CREDENTIALS_MISSING: Final = "A2ACLI_ERR_CREDENTIALS_MISSING"
AUTH_FAILED: Final = "A2ACLI_ERR_AUTH_FAILED"
TIMEOUT: Final = "A2ACLI_ERR_TIMEOUT"

EXIT_CODES: Final[Mapping[str, int]] = {
    USAGE: 2,
    CARD_NOT_FOUND: 3,
    UNREACHABLE: 3,
    CREDENTIALS_MISSING: 4,
    AUTH_FAILED: 4,
    TIMEOUT: 5,
}
"""Every other error is 1."""
INTERRUPTED: Final = 130


class CommandFailure(click.ClickException):
    """Why a command could not do what it was asked."""

    def __init__(self, code: str, message: str, *, hint: str = "", a2a_code: str | int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.a2a_code = a2a_code
        self.as_json = False
        """Set by the command, which knows the format."""
        self.secrets: Sequence[str] = ()

    @property
    def exit_code(self) -> int:  # type: ignore[override] # click has it as a constant of the class
        return EXIT_CODES.get(self.code, 1)

    def show(self, file: IO[Any] | None = None) -> None:
        message, hint = self._masked(self.message), self._masked(self.hint)
        if self.as_json:
            error = {"code": self.code, "message": message, "hint": hint or None, "a2aCode": self.a2a_code}
            click.echo(json.dumps({"error": error}, ensure_ascii=False), file=sys.stdout)
            return
        click.echo(f"Error: {one_line(self.code)}\nMessage: {one_line(message)}", err=True)
        if hint:
            click.echo(f"Hint: {one_line(hint)}", err=True)

    def _masked(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def usage(message: str, hint: str = "") -> CommandFailure:
    return CommandFailure(USAGE, message, hint=hint)
