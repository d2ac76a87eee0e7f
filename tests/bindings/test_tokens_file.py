"""The file of credentials is followed while the server runs (spec: GATE-01, GATE-03)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.callers import House, bearer
from tests.support.house import Admission, PasswordHash
from tests.support.presenting import hashed, standing

PATIENCE = 20.0


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await true():  # noqa: ASYNC110 - what another process would see, too
            await asyncio.sleep(0.05)


async def known(here: House, token: str) -> bool:
    return (await here.told("rest", bearer(token))).code == "NOT_FOUND"


def entry(token: str, table: str = "tokens", more: str = "") -> str:
    return f'[[{table}]]\nowner = "ann"\nhash = "{hashed(token)}"\n{more}\n'


@pytest.mark.req("GATE-01")
async def test_what_changes_counts_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(entry("old"))
    own = [{"owner": "bob", "hash": hashed("own")}]
    async with standing(auth={"tokens_file": str(file), "tokens": own}) as here:
        assert await known(here, "old")
        assert await known(here, "own")
        file.write_text(entry("old") + entry("new"))
        await until(lambda: known(here, "new"))
        assert await known(here, "old")
        other = tmp_path / "other.toml"
        other.write_text(entry("new"))
        other.rename(file)  # as editors and secret mounts do

        async def gone() -> bool:
            return not await known(here, "old")

        await until(gone)
        assert await known(here, "new")
        assert await known(here, "own")


@pytest.mark.req("GATE-03")
@pytest.mark.parametrize("broken", ["[[tokens]", "[[tokens]]\nowner = ''\n", "grpc = 'x'", None])
async def test_a_file_that_cannot_be_used_changes_nothing(
    tmp_path: Path, broken: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(entry("good"))
    async with standing(auth={"tokens_file": str(file)}) as here:
        if broken is None:
            file.unlink()
        else:
            file.write_text(broken)
        printed = ""

        async def told() -> bool:
            nonlocal printed
            printed += capfd.readouterr().out
            return "tokens_file.unusable" in printed

        await until(told)
        assert await known(here, "good")
        assert not await known(here, "other")
        file.write_text(entry("better"))
        await until(lambda: known(here, "better"))
        assert not await known(here, "good")


@pytest.mark.req("GATE-03")
async def test_a_file_that_loses_its_last_token_lets_nobody_in(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(entry("good"))
    async with standing(auth={"tokens_file": str(file)}) as here:
        file.write_text("")

        async def nobody() -> bool:
            codes = [(await here.told("rest", headers)).code for headers in (bearer("good"), {})]
            return codes == ["UNAUTHENTICATED"] * 2

        await until(nobody)


@pytest.mark.req("GATE-01", "GATE-08")
async def test_credentials_have_scopes_and_an_end(tmp_path: Path) -> None:
    seen: list[Admission] = []
    file = tmp_path / "tokens.toml"
    more = 'scopes = ["a2a:read", "booking"]\ntenant = "north"\nexpires = '
    file.write_text(
        entry("t", more=f"{more}2999-01-01T00:00:00+02:00") + entry("over", more=f"{more}2020-01-01T00:00:00Z")
    )
    async with standing(auth={"tokens_file": str(file)}, steps=[seen.append]) as here:
        assert await known(here, "t")
        caller = seen[0].caller
        assert caller.tenant == "north"
        assert caller.scopes is not None
        assert {"a2a:read", "a2a:GetTask", "booking"} <= caller.scopes
        assert "a2a:SendMessage" not in caller.scopes
        assert not await known(here, "over")


@pytest.mark.req("GATE-01")
async def test_a_password_that_is_replaced_no_longer_counts(tmp_path: Path) -> None:
    old, new = (PasswordHash.of(word, bytes(16), 12, 1, 1) for word in ("old", "new"))
    file = tmp_path / "tokens.toml"
    file.write_text(f'[[passwords]]\nowner = "ann"\nhash = "{old}"\n')
    headers = {"Authorization": f"Basic {base64.b64encode(b'ann:old').decode()}"}
    async with standing(auth={"tokens_file": str(file)}) as here:
        assert (await here.told("rest", headers)).code == "NOT_FOUND"
        file.write_text(f'[[passwords]]\nowner = "ann"\nhash = "{new}"\n')

        async def refused() -> bool:
            return (await here.told("rest", headers)).code == "UNAUTHENTICATED"

        await until(refused)
