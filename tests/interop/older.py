"""Servers, and clients of older versions before them; each starts when a test first asks for it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from tests.e2e.processes import ROOT, environment, serving
from tests.e2e.test_gateway import gateway
from tests.interop.environments import javascript, python, python_0_3
from tests.interop.remote import Client, Program, running

STAGE = str(Path(__file__).parent / "servers" / "stage.py")
TOKEN = "friend-of-the-stage"
NOWHERE = "http://127.0.0.1:1024/hook"
"""A webhook that nobody listens to."""
CREDENTIAL = {
    "owner": "friend",
    "hash": f"sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}",
    "extended_card": True,
}

COMMANDS: Mapping[str, Callable[[], Sequence[str]]] = {
    "python-0.3": partial(python_0_3, "tests.interop.clients.sdk_0_3"),
    "python-1.0": partial(python, "tests.interop.clients.sdk_1_0"),
    "javascript-0.3": partial(javascript, "sdk_0_3.mjs"),
}


class Speaker(NamedTuple):
    """A client, one of its transports, and the version that it speaks."""

    program: str
    transport: str
    version: str = "0.3"

    def __str__(self) -> str:
        speaks = "" if self.program.endswith(self.version) else f" as {self.version}"
        return f"{self.program}{speaks} {self.transport}"


SDK = "the SDK's"
JAVASCRIPT = {version: f"the JavaScript SDK's of {version}" for version in ("0.3", "1.0")}
TRANSPORTS = ("JSONRPC", "HTTP+JSON", "GRPC")
OLDER = [Speaker(program, transport) for program in COMMANDS for transport in TRANSPORTS]
CONTROLLED = [speaker for speaker in OLDER if speaker.program != "javascript-0.3" or speaker.transport == "JSONRPC"]
"""Those that the SDK for Python can serve; the one for JavaScript reads its events and bytes of files otherwise."""
CURRENT = [Speaker("python-1.0", transport, "1.0") for transport in TRANSPORTS]


class Theatre:
    """What has been started so far, by name, and stays until the end."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._grpc: dict[str, str] = {}
        self._servers: Mapping[str, Callable[[], AbstractContextManager[str]]] = {
            "ours": partial(self._ours, A2A_PUSH__ALLOW_LOOPBACK="true"),
            "without push": partial(self._ours, A2A_PUSH__ENABLED="false"),
            "with the draft": partial(self._ours, A2A_GATEWAY__PROFILES="draft"),
            "with raw files": partial(self._ours, A2A_LEGACY__RAW_FILES="true"),
            "ours behind a gateway": self._far,
            SDK: partial(_sdk, partial(python_0_3, "tests.interop.servers.sdk_0_3", "--push")),
            **{
                JAVASCRIPT[version]: partial(_sdk, partial(javascript, "server.mjs", version)) for version in JAVASCRIPT
            },
        }
        self.url = cache(self._url)
        self.program = cache(self._program)
        self.client = cache(self._client)

    def _client(self, server: str, speaker: Speaker, token: str = TOKEN, extension: str = "") -> Client:
        return Client.connect(
            self.program(speaker.program),
            self.url(server),
            speaker.transport,
            version=speaker.version,
            token=token,
            extensions=[extension] if extension else [],
        )

    def _program(self, name: str) -> Program:
        return self._stack.enter_context(running(COMMANDS[name]()))

    def _url(self, name: str) -> str:
        return self._stack.enter_context(self._servers[name]())

    @contextmanager
    def _ours(self, **variables: str) -> Iterator[str]:
        arguments = (STAGE, "--store", "memory:")
        settings = {"A2A_AUTH__TOKENS": json.dumps([CREDENTIAL]), **variables}
        with serving(*arguments, cwd=self._folder, **settings) as server:
            self._grpc[server.http] = server.address
            yield server.http

    @contextmanager
    def _far(self) -> Iterator[str]:
        with gateway("--upstream", self._grpc[self.url("ours")], cwd=self._folder) as before:
            yield before.url


@contextmanager
def _sdk(command: Callable[[], Sequence[str]]) -> Iterator[str]:
    """The servers of an SDK itself, by its command; they ask for no token."""
    with subprocess.Popen(command(), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, "the SDK's server did not start"
            yield url
        finally:
            process.kill()
