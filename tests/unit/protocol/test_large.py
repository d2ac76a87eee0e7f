"""Large requests are read one after another, in steps between which everybody else has the loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator

import pytest

from a2a_server.protocol.large import LargeRequests


@pytest.mark.req("LIMT-01")
async def test_others_have_the_loop_between_steps_and_only_one_is_read_at_a_time() -> None:
    large, seen = LargeRequests(), list[str]()

    def steps(name: str) -> Generator[None, None, str]:
        for number in range(3):
            seen.append(f"{name}{number}")
            yield
        return name

    async def other() -> None:
        while len(found) < 2:
            seen.append(".")
            await asyncio.sleep(0)

    async def read(name: str) -> None:
        found.append(await large.read(steps(name)))

    found = list[str]()
    async with asyncio.TaskGroup() as group:
        group.create_task(read("a"))
        group.create_task(read("b"))
        group.create_task(other())
    assert found == ["a", "b"]
    order = "".join(seen)
    assert [*order.replace(".", "")] == [*"a0a1a2b0b1b2"]
    assert not re.search(r"\d[ab]", order)


async def test_a_fault_ends_the_reading_and_nothing_else() -> None:
    large = LargeRequests()

    def steps(*, fails: bool) -> Generator[None, None, int]:
        yield
        if fails:
            raise LookupError
        return 1

    with pytest.raises(LookupError):
        await large.read(steps(fails=True))
    assert await large.read(steps(fails=False)) == 1
