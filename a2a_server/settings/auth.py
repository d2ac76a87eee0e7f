"""Who may call, as settings say it: callers by the hashes of their secrets (spec: GATE-01, AUTN-04)."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from a2a_server.protocol.names import API_KEY

HASH = "sha256:"
DIGITS = 64


def _listed(value: object) -> object:
    """Read credentials as an environment variable spells them: a JSON array of objects."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('must be a JSON array such as [{"owner": "ann", "hash": "sha256:…"}]') from None


def wrong(setting: str, value: object, message: str) -> PydanticCustomError:
    """Make an error about a setting that is not, or not only, the one being validated."""
    return PydanticCustomError("wrong", "{message}", {"message": message, "setting": setting, "value": value})


class Credential(BaseModel):
    """One caller's token or API key, as its hash; `a2ad token` makes both."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    owner: str = Field(min_length=1)
    """Whose tasks the bearer sees."""
    hash: SecretStr
    """`sha256:` and the SHA-256 of the secret in hexadecimal digits."""
    tenant: str = ""
    """The tenant the caller is bound to."""
    extended_card: bool = False
    """Whether the caller may read the extended agent card."""

    @field_validator("hash")
    @classmethod
    def _is_a_hash(cls, value: SecretStr) -> SecretStr:
        kind, _, digits = value.get_secret_value().partition(":")
        if kind != "sha256" or len(digits) != DIGITS or not set(digits) <= set("0123456789abcdef"):
            raise ValueError("must be the sha256:… line that `a2ad token` prints, never the secret itself")
        return value

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.hash.get_secret_value().removeprefix(HASH))


Credentials = Annotated[tuple[Credential, ...], BeforeValidator(_listed)]


class _TokensFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: Credentials = ()
    api_keys: Credentials = ()


class Auth(BaseModel):
    """Who may call. Without any credential every caller is the one anonymous owner."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: Credentials = ()
    """Bearer tokens."""
    api_keys: Credentials = ()
    """API keys."""
    api_key_header: str = Field(default=API_KEY, pattern=r"^[A-Za-z0-9_-]+$")
    """The header, or gRPC metadata, that API keys arrive in."""
    tokens_file: str = ""
    """A TOML file with more `[[tokens]]` and `[[api_keys]]`, to keep them apart from the other settings."""

    @model_validator(mode="after")
    def _with_file(self) -> Self:
        if not self.tokens_file:
            return self
        try:
            found = _TokensFile.model_validate(tomllib.loads(Path(self.tokens_file).read_text("utf-8")))
        except OSError as error:
            raise wrong("auth.tokens_file", self.tokens_file, f"cannot be read: {error.strerror}") from None
        except ValueError:
            message = "must be a TOML file of [[tokens]] and [[api_keys]] with owner and hash"
            raise wrong("auth.tokens_file", self.tokens_file, message) from None
        both = {"tokens": self.tokens + found.tokens, "api_keys": self.api_keys + found.api_keys, "tokens_file": ""}
        return self.model_copy(update=both)

    @property
    def credentials(self) -> tuple[Credential, ...]:
        return self.tokens + self.api_keys
