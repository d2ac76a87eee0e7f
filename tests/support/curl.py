"""The commands of the guides that are made with curl, against any server."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import aiohttp

ROOT = Path(__file__).parents[2]


def commands(page: str) -> list[str]:
    """Every curl of a page, without what comes behind it in the same block."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [block.replace("\\\n", " ") for block in blocks if block.startswith("curl ")]


class Curl:
    """Just enough of curl: the options that the guide uses."""

    def __init__(self, base: str) -> None:
        self.base = base

    async def __call__(self, command: str) -> tuple[int, str, str]:
        words = shlex.split(command)[1:]
        headers: dict[str, str] = {}
        body, url = None, ""
        while words:
            word = words.pop(0)
            if word == "-d":
                body = words.pop(0)
            elif word == "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            elif word not in ("-N", "-i"):
                url = word.replace("http://127.0.0.1:8080", self.base)
        verb = "POST" if body is not None else "GET"
        async with (
            aiohttp.ClientSession() as session,
            session.request(verb, url, data=body, headers=headers) as answer,
        ):
            return answer.status, answer.content_type, await answer.text()
