"""The README's first lines of code are an agent that works."""

import re
from pathlib import Path
from typing import Any

import pytest

from a2a_server.agents.testing import run_turn

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.req("AGNT-01")
async def test_the_readme_s_agent_says_it_louder() -> None:
    block = re.search(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert block is not None
    scope: dict[str, Any] = {"__name__": "shout"}
    exec(block[1], scope)  # noqa: S102 - our own README
    assert (await run_turn(scope["agent"], "hello")).text == "HELLO"
